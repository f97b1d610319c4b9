"""Plans and runs the steps of maintenance in order.

A later step depends on what earlier steps leave behind, so a plan of all steps is true only of the table as it is.
`maintain` therefore plans each step when its turn comes. `apply` runs a document that somebody has seen: only steps
whose verdict there is "run", and nothing beyond what it names, although the table has changed since.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from tidyberg._version import __version__
from tidyberg.control.maintenance.data import DataStep
from tidyberg.control.maintenance.deletes import DeletesStep
from tidyberg.control.maintenance.expire import ExpireStep
from tidyberg.control.maintenance.manifests import ManifestsStep
from tidyberg.control.maintenance.orphans import OrphansStep
from tidyberg.control.maintenance.step import MaintenanceStep, StepContext, StepOperations
from tidyberg.errors import (
    BadPlan,
    Cancelled,
    CommitStateUnknown,
    DamagedFile,
    InternalError,
    TableReplaced,
    TidybergError,
    VerificationFailed,
)
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Stage
from tidyberg.model.maintenance import (
    MAINTENANCE,
    MAINTENANCE_FORMAT,
    MaintenancePlan,
    MaintenanceRequest,
    MaintenanceResult,
    StepName,
    StepPlan,
    StepResult,
)
from tidyberg.model.report import EventSink, Notice, StageStarted
from tidyberg.planning.maintenance_document import maintenance_plan_hash
from tidyberg.redact import redact_text

STEPS: tuple[MaintenanceStep, ...] = (DeletesStep(), DataStep(), ManifestsStep(), ExpireStep(), OrphansStep())

# After these, nobody knows what state the table is in, or an older snapshot may be needed to repair it.
_IN_DOUBT = (DamagedFile, VerificationFailed, CommitStateUnknown, TableReplaced, InternalError)


def _ignore(_: object) -> None:
    return None


@dataclass(frozen=True)
class Maintainer:
    operations: StepOperations
    now_ms: Callable[[], int]
    on_event: EventSink | None = None
    cancel: CancelToken | None = None
    scrub: Callable[[str], str] = redact_text  # I12: removes secrets from error messages
    steps: tuple[MaintenanceStep, ...] = STEPS

    def plan(self, request: MaintenanceRequest, table: Table) -> MaintenancePlan:
        """Plans every step for the table as it is. Changes nothing."""
        context = self._context(request)
        snapshot = table.current_snapshot()
        plan = MaintenancePlan(
            kind=MAINTENANCE,
            format=MAINTENANCE_FORMAT,
            tool_version=__version__,
            table=request.table,
            table_uuid=str(table.metadata.table_uuid),
            snapshot_id=snapshot.snapshot_id if snapshot is not None else None,
            created_ms=self.now_ms(),
            policy=request.policy,
            steps=self._plan_all(context),
        )
        return replace(plan, hash=maintenance_plan_hash(plan))

    def run(self, request: MaintenanceRequest) -> MaintenanceResult:
        """Plans and runs one step after the other."""
        context = self._context(request)
        for note in request.policy.notes:
            self.emit(Notice("warning", note, in_result=True))
        return MaintenanceResult(request.table, request.policy, self._run_all(context, {}))

    def apply(self, plan: MaintenancePlan, request: MaintenanceRequest, table: Table) -> MaintenanceResult:
        """Runs exactly this plan. `request` has the policy of the plan, and the settings of this run."""
        if str(table.metadata.table_uuid) != plan.table_uuid:
            raise BadPlan(
                f"The plan was made for another table: {plan.table} was dropped and created again since.",
                hint="Make a new plan.",
            )
        known = {step.name for step in self.steps}
        if unknown := [step.step for step in plan.steps if step.step not in known]:
            raise BadPlan(f"The plan has a step {unknown[0]!r} that this tidyberg does not know.")
        planned = {step.step: step for step in plan.steps}
        results = self._run_all(self._context(request), planned)
        return MaintenanceResult(plan.table, plan.policy, results, plan.hash)

    @property
    def emit(self) -> EventSink:
        return self.on_event or _ignore

    def _context(self, request: MaintenanceRequest) -> StepContext:
        return StepContext(request, self.operations, self.emit, self.cancel or CancelToken())

    def _plan_all(self, context: StepContext) -> tuple[StepPlan, ...]:
        plans: tuple[StepPlan, ...] = ()
        for step in self.steps:
            plans = (*plans, self._plan_step(step, replace(context, earlier=plans)))
        return plans

    def _plan_step(self, step: MaintenanceStep, context: StepContext) -> StepPlan:
        policy = context.request.policy
        key = "enabled" if not policy.enabled else step.switched_off_by(context.request)
        if key is not None:
            reason = f"switched off: {key} is false ({policy.origin(key)})"
            return StepPlan(step.name, "skip", reason, is_switched_off=True)
        self.emit(StageStarted(Stage.PLAN, f"{step.name}: planning"))
        return step.plan(context)

    def _run_all(self, context: StepContext, planned: Mapping[StepName, StepPlan]) -> tuple[StepResult, ...]:
        """`planned` is the document that is applied. Without it, each step is planned when its turn comes."""
        results: list[StepResult] = []
        steps = [step for step in self.steps if step.name in planned] if planned else self.steps
        for step in steps:
            began = time.monotonic()
            result = self._one(step, context, planned.get(step.name), results)
            result = replace(result, seconds=time.monotonic() - began)
            results.append(result)
            is_bad = result.status in ("failed", "stopped")
            self.emit(Notice("warning" if is_bad else "info", f"{step.name}: {describe(result)}", in_result=True))
        return tuple(results)

    def _one(
        self, step: MaintenanceStep, context: StepContext, from_document: StepPlan | None, before: Sequence[StepResult]
    ) -> StepResult:
        context.cancel.raise_if_cancelled()
        unplanned = from_document or StepPlan(step.name, "skip", "not planned")
        if (why := _stopped_by(step, before)) is not None:
            return StepResult(unplanned, "stopped", why)
        planned = unplanned
        try:
            planned = from_document or self._plan_step(step, context)
            if planned.verdict != "run" and not planned.takes_notes:
                is_tidy = planned.verdict == "skip" and not planned.is_switched_off
                return StepResult(planned, "nothing" if is_tidy else "skipped", planned.reason)
            self.emit(StageStarted(Stage.EXECUTE, f"{step.name}: {planned.reason}"))
            is_outdated = any(result.changed and result.step in step.outdated_by for result in before)
            done = step.run(context, planned, as_planned=from_document is not None and not is_outdated)
        except Cancelled:
            raise
        except TidybergError as error:
            return StepResult(planned, "failed", str(error), failure=error)
        except Exception as error:  # noqa: BLE001  # a defect in one step must not hide what the others did
            words = self.scrub(f"{type(error).__name__}: {error}")
            failure = InternalError(f"Unexpected failure: {words}", hint="This is a bug in tidyberg.")
            return StepResult(planned, "failed", str(failure), failure=failure)
        if done.failure is not None:
            reason = f"{done.reason}; then: {done.failure}" if done.changed else str(done.failure)
            return StepResult(
                planned, "failed", reason, done.numbers, done.job_id, failure=done.failure, changed=done.changed
            )
        return StepResult(
            planned,
            "done" if done.changed else "skipped" if planned.takes_notes else "nothing",
            done.reason,
            done.numbers,
            done.job_id,
            changed=done.changed,
        )


def describe(result: StepResult) -> str:
    words = {"done": "done", "nothing": "nothing to do", "skipped": "skipped", "stopped": "stopped", "failed": "failed"}
    return f"{words[result.status]}: {result.reason}"


def _stopped_by(step: MaintenanceStep, before: Sequence[StepResult]) -> str | None:
    """Says which earlier failure stops a step."""
    for result in before:
        if result.failure is None:
            continue
        if isinstance(result.failure, _IN_DOUBT):
            return f"{result.step} failed ({result.failure.code}), so the state of the table is in doubt"
        if result.step in step.needs:
            return f"it needs {result.step}, which failed ({result.failure.code})"
    return None
