"""Jobs of maintenance hold their table while they work, and record how they failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.open import load_table
from tidyberg.commit.loop import CommitLoop
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.control.recovery import Recovery
from tidyberg.errors import BadInput, Cancelled, TableReplaced, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.report import EventSink, Notice, StageStarted
from tidyberg.model.table import TableRef
from tidyberg.record.process import this_process


@dataclass(frozen=True)
class HoldRequest:
    """The values that the record of a job has from the start."""

    table: TableRef
    job_id: str  # no job has had it before
    kind: str
    options: dict[str, Any]
    branch: str = ""
    submission_id: str | None = None  # the submission that this job is an attempt at

    def new_job(self, table_uuid: str, now_ms: int) -> Job:
        return Job(
            job_id=self.job_id,
            submission_id=self.submission_id,
            table=self.table,
            table_uuid=table_uuid,
            branch=self.branch,
            strategy=self.kind,
            options=self.options,
            status=JobStatus.RUNNING,
            stage=Stage.RECOVER,
            engine="",
            created_ms=now_ms,
            started_ms=now_ms,
            heartbeat_ms=now_ms,
            owner=this_process(),
        )


@dataclass
class HeldTable:
    """A table that a job holds, and what the job needs while it does."""

    services: Services
    catalog: Catalog
    record: JobRecord
    emit: EventSink
    cancel: CancelToken  # also cancelled when the job loses the table
    table: Table | None  # None if another job may have changed it while this one waited
    _when_lost: list[Callable[[], None]] = field(default_factory=list)

    def when_lost(self, action: Callable[[], None]) -> None:
        """`action` runs after a failure of a job that has lost its table."""
        self._when_lost.append(action)

    def load(self) -> Table:
        """Loads the table again."""
        job = self.record.job
        return load_same_table(self.catalog, job.table, job.table_uuid)

    def commit_loop(self) -> CommitLoop:
        job, services = self.record.job, self.services
        return CommitLoop(self.catalog, job.table, job.table_uuid, services.retry, self.warn, services.sleep)

    def recover_dead_jobs(self, kind: str) -> tuple[str, ...]:
        """Concludes dead jobs of one kind. Others wait for a job of their own kind, or `recover`."""
        job, services = self.record.job, self.services
        recovery = Recovery(services.store, job.job_id, services.now_ms, services.sleep, self.cancel)
        others = services.store.find(table=job.table, unfinished=True, limit=1000)
        dead = [
            other
            for other in others
            if other.strategy == kind and other.job_id != job.job_id and other.table_uuid == job.table_uuid
        ]
        done = tuple(recovery.recover(self.catalog, other) for other in dead)
        for text in done:
            self.emit(Notice("info", text))
        return done

    def stage(self, stage: Stage, message: str) -> None:
        self.record.update(stage=stage)
        self.emit(StageStarted(stage, message))

    def warn(self, text: str) -> None:
        self.emit(Notice("warning", text))

    def check_ownership(self) -> None:
        """I6: a job that lost its table deletes nothing. Asks the store once a second at most: a batch takes less."""
        self.cancel.raise_if_cancelled()
        self.record.check_ownership(unless_within=1.0)

    def finish(self, note: str, failure: TidybergError | None = None, **changes: Any) -> Job:
        """Records that the job is done. `failure` is what it could not do."""
        job = self.record.update(
            status=JobStatus.SUCCEEDED,
            stage=Stage.DONE,
            finished_ms=self.services.now_ms(),
            notes=(*self.record.job.notes, note),
            error_code=failure.code if failure else None,
            error=str(failure) if failure else None,
            **changes,
        )
        if not job.unresolved:
            self.record.forget()
        self.emit(StageStarted(Stage.DONE))
        return job

    def record_failure(self, error: BaseException) -> None:
        job = self.record.job
        is_cancelled = isinstance(error, Cancelled | KeyboardInterrupt)
        self.record.update(
            status=JobStatus.CANCELLED if is_cancelled else JobStatus.FAILED,
            finished_ms=self.services.now_ms(),
            # Recovery finds out what was committed, and which files are left to delete.
            unresolved=job.expiry is not None or job.intent is not None,
            error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
            error=str(error) or type(error).__name__,
        )


@contextmanager
def hold_table(
    request: HoldRequest,
    services: Services,
    policy: JobPolicy,
    catalog: Catalog,
    emit: EventSink,
    cancel: CancelToken,
) -> Iterator[HeldTable]:
    """Holds the table, or raises TableBusy. A failure inside is recorded."""
    stop = CancelToken()  # the job also stops when it loses its table
    cancel.add_callback(stop.cancel)
    table = load_table(catalog, request.table)
    job = request.new_job(str(table.metadata.table_uuid), services.now_ms())
    with open_lease(job, services, policy, stop) as lease:
        require_new_id(job, services)
        record = JobRecord(services.store, job, lease, services.scrub)
        held = HeldTable(services, catalog, record, emit, stop, None if lease.waited else table)
        try:
            yield held
        except BaseException as error:
            held.record_failure(error)
            if lease.lost:
                for action in held._when_lost:
                    action()
            if isinstance(error, TidybergError) and (cause := record.cause_of(error)) is not error:
                raise cause from error
            raise


def open_lease(job: Job, services: Services, policy: JobPolicy, cancel: CancelToken) -> Lease:
    return Lease(
        services.store,
        job,
        job.owner or this_process(),
        services.now_ms,
        ttl_ms=policy.lease_ms,
        wait_seconds=policy.wait_seconds,
        sleep=services.sleep,
        cancel=cancel,
    )


def require_new_id(job: Job, services: Services) -> None:
    """Names of files contain the id [I5]."""
    if services.store.get(job.job_id) is not None:
        raise BadInput(f"The run id {job.job_id} was used before.", hint="Give each run an id of its own.")


def load_same_table(catalog: Catalog, ref: TableRef, table_uuid: str) -> Table:
    table = load_table(catalog, ref)
    if str(table.metadata.table_uuid) != table_uuid:
        raise TableReplaced(f"{ref} was dropped and created again meanwhile.", hint="Try again.")
    return table
