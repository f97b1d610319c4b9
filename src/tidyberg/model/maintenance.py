"""Maintaining a table: the plan document with one verdict for each step, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidyberg.errors import TidybergError
from tidyberg.model.expiry import ExpiryBounds
from tidyberg.model.maintenance_policy import MaintenancePolicy
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef

MAINTENANCE_FORMAT = 1
MAINTAIN = "maintain"  # the kind of such jobs
MAINTENANCE: Literal["maintenance"] = "maintenance"  # the kind of the document; plans of compactions have no kind

StepName = Literal["deletes", "data", "manifests", "expire", "orphans"]
# "skip": there is nothing to do, or the policy does not allow it. "wait": there will be something to do later.
# "refused": the table does not allow it.
StepVerdict = Literal["run", "skip", "wait", "refused"]
# "stopped": an earlier step failed. The others say what happened to the step itself.
StepStatus = Literal["done", "nothing", "skipped", "stopped", "failed"]
MaintenanceOutcome = Literal["done", "nothing", "failed"]


@dataclass(frozen=True)
class MaintenanceRequest:
    """A request for one table: its policy, and the options of compactions."""

    table: TableRef
    policy: MaintenancePolicy
    compaction: PlanOptions
    verify: VerifyMode = VerifyMode.COUNTS


@dataclass(frozen=True)
class StepPlan:
    """Says what one step would do to the table as it was when the plan was made."""

    step: StepName
    verdict: StepVerdict
    reason: str
    dollars: float = 0.0
    dollars_saved_per_month: float = 0.0
    numbers: Mapping[str, int] = field(default_factory=dict)  # such as snapshots, files and bytes
    compaction: Plan | None = None  # `apply` runs this very plan
    bounds: ExpiryBounds | None = None  # `apply` expires nothing beyond these
    is_switched_off: bool = False  # by the policy
    takes_notes: bool = False  # it has to wait, but runs all the same to record what it has seen


@dataclass(frozen=True)
class MaintenancePlan:
    kind: Literal["maintenance"]  # the first key, by which the document is recognised
    format: int
    tool_version: str
    table: TableRef
    table_uuid: str
    snapshot_id: int | None
    created_ms: int
    policy: MaintenancePolicy
    steps: tuple[StepPlan, ...]  # in the order in which they run
    hash: str = ""

    @property
    def is_empty(self) -> bool:
        return all(step.verdict != "run" for step in self.steps)

    @property
    def dollars(self) -> float:
        return sum(step.dollars for step in self.steps if step.verdict == "run")

    @property
    def dollars_saved_per_month(self) -> float:
        return sum(step.dollars_saved_per_month for step in self.steps if step.verdict == "run")


@dataclass(frozen=True)
class StepResult:
    """The result of one step. `planned` is what the plan said about it."""

    planned: StepPlan
    status: StepStatus
    reason: str
    numbers: Mapping[str, int] = field(default_factory=dict)  # what it did, by the names of the plan
    job_id: str | None = None
    seconds: float = 0.0
    failure: TidybergError | None = None
    changed: bool = False  # it committed something, even if it failed later

    @property
    def step(self) -> StepName:
        return self.planned.step


@dataclass(frozen=True)
class MaintenanceResult:
    table: TableRef
    policy: MaintenancePolicy
    steps: tuple[StepResult, ...]
    plan_hash: str | None = None  # of the document that was applied; None: each step was planned when its turn came

    @property
    def outcome(self) -> MaintenanceOutcome:
        if self.failure is not None:
            return "failed"
        return "done" if any(step.status == "done" for step in self.steps) else "nothing"

    @property
    def failure(self) -> TidybergError | None:
        """The error of the first step that failed."""
        return next((step.failure for step in self.steps if step.failure is not None), None)
