"""The values that a running job works with: its request, the services that all jobs share, and its own handles."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from tidyberg.control.engines import EngineChoice
from tidyberg.control.journal import JobRecord
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, JobStatus, Owner, Stage
from tidyberg.model.options import PlanOptions, Prices, VerifyMode
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import EventSink, Notice, StageStarted
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.record.store import JobStore
from tidyberg.telemetry.traces import Tracer

if TYPE_CHECKING:
    from tidyberg.control.recovery import Recovery
    from tidyberg.observe.engine_reads import EngineReads


@dataclass(frozen=True)
class JobRequest:
    """A caller asks for a plan and its execution, or for the execution of one given plan."""

    table: TableRef
    options: PlanOptions
    verify: VerifyMode
    job_id: str  # no job has had it before
    submission_id: str | None = None  # the submission that this job is an attempt at
    plan: Plan | None = None  # run exactly this plan

    def new_job(self, table_uuid: str, owner: Owner, now_ms: int) -> Job:
        return Job(
            job_id=self.job_id,
            submission_id=self.submission_id,
            table=self.table,
            table_uuid=table_uuid,
            branch=self.options.branch,
            strategy=self.options.strategy.value,
            options={key: value for key, value in asdict(self.options).items() if value is not None},
            status=JobStatus.RUNNING,
            stage=Stage.RECOVER,
            engine="",
            created_ms=now_ms,
            started_ms=now_ms,
            heartbeat_ms=now_ms,
            owner=owner,
        )


@dataclass(frozen=True)
class JobPolicy:
    """Limits and waiting times that an installation sets for its jobs."""

    replans: int  # how often a job plans again for groups that conflicted
    max_output_age_ms: int  # a job does not reuse older outputs of dead jobs: an orphan cleaner may have removed them
    wait_seconds: float  # how long a job waits for a table that another job holds
    lease_ms: int  # a job that does not renew its lease for this long loses its table


@dataclass(frozen=True)
class Services:
    """The parts that all jobs of a process share."""

    store: JobStore
    cache: ManifestCache
    retry: RetryPolicy
    prices: Prices
    tracer: Tracer
    scrub: Callable[[str], str]  # I12: removes secrets from error messages
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    engine_reads: "EngineReads | None" = None  # for huge tables; None: this process reads all metadata itself


@dataclass(frozen=True)
class JobContext:
    """One job that holds its table."""

    request: JobRequest
    services: Services
    catalog: Catalog
    record: JobRecord
    engine: EngineChoice
    emit: EventSink
    cancel: CancelToken

    def stage(self, stage: Stage, message: str) -> None:
        self.record.update(stage=stage)
        self.emit(StageStarted(stage, message))

    def warn(self, message: str) -> None:
        self.emit(Notice("warning", message))

    def recovery(self) -> "Recovery":
        """For other jobs of the table. This job holds the table, so they are dead."""
        from tidyberg.control.recovery import Recovery  # planning does not need it

        def notify(message: str) -> None:
            self.emit(StageStarted(Stage.RECOVER, message))

        services = self.services
        return Recovery(services.store, self.record.job.job_id, services.now_ms, services.sleep, self.cancel, notify)


def span_attributes(groups: Sequence[FileGroup]) -> dict[str, int]:
    """Returns the attributes of a trace span that covers these groups."""
    return {
        "partitions": len({(group.spec_id, group.partition_path) for group in groups}),
        "groups": len(groups),
        "files": sum(len(group.files) for group in groups),
        "bytes": sum(group.estimate.bytes_read for group in groups),
    }
