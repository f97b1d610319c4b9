"""The interface of a kind of job: it checks requests, says who may make them, and runs them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidyberg.control.control import Control
from tidyberg.errors import TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job
from tidyberg.model.left import Outcome
from tidyberg.model.principal import Role
from tidyberg.model.report import EventSink
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.record.records import Records
from tidyberg.service.catalog_lookup import KnownTable
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.settings import Settings


@dataclass(frozen=True)
class RequestScope:
    """The values that a request is checked against."""

    settings: Settings
    table: TableRef  # a schedule may have a pattern as its name
    now_ms: int
    is_schedule: bool = False  # whether many jobs will run with these options
    look: Callable[[bool], KnownTable | None] = lambda _: None  # with True, not from the cache; None: no answer


@dataclass(frozen=True)
class CheckedRequest:
    """The part of a submission that depends on its kind."""

    strategy: str
    options: Mapping[str, Any]  # plain JSON
    verify: str | None = None


@dataclass(frozen=True)
class RunContext:
    """One attempt to run a submission."""

    settings: Settings
    control: Control
    records: Records
    submission: Submission
    run_id: str  # the id of this attempt's run
    earlier: Sequence[Job]  # the runs of earlier attempts, the newest first
    on_event: EventSink
    cancel: CancelToken
    is_last: bool  # whether a transient failure ends the job


@dataclass(frozen=True)
class RunOutcome:
    """The result of an attempt that did not raise. `failure` came after something was committed, which stays."""

    run: Job
    outcome: Outcome
    failure: TidybergError | None = None
    sizes_written: Sequence[int] = ()

    @property
    def has_committed(self) -> bool:
        return self.outcome in ("committed", "partly")


class JobKind(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def least_role(self) -> Role:
        """The least role that may submit such jobs. The settings may name another one."""
        ...

    @property
    def is_planned(self) -> bool:
        """Returns True if a plan can estimate such a job before it runs."""
        ...

    def rights(self, options: Mapping[str, Any]) -> frozenset[str]:
        """Returns the kinds of jobs that somebody who gives these options must be allowed to submit."""
        ...

    def check(self, request: SubmitRequest, scope: RequestScope) -> CheckedRequest:
        """Raises BadInput if a job with these options could never run."""
        ...

    def finished(self, submission: Submission, earlier: Sequence[Job]) -> Job | None:
        """Returns an earlier run that did everything but was never reported."""
        ...

    def run(self, context: RunContext) -> RunOutcome: ...


class HistoryRemover:
    """The part of JobKind that is the same for all kinds of jobs that remove history for good."""

    name: str
    least_role = Role.ADMIN
    is_planned = False

    def rights(self, options: Mapping[str, Any]) -> frozenset[str]:  # noqa: ARG002
        return frozenset((self.name,))
