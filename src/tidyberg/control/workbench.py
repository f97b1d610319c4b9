"""What every part of a running job works with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from tidyberg.control.journal import JobRecord
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.model.job import Stage
from tidyberg.model.options import PlanOptions, Prices, VerifyMode
from tidyberg.model.plan import FileGroup
from tidyberg.model.report import EventSink, Notice, StageStarted
from tidyberg.model.retry import RetryPolicy
from tidyberg.observe.cache import ManifestCache
from tidyberg.record.store import JobStore
from tidyberg.telemetry.traces import Tracer

if TYPE_CHECKING:
    from tidyberg.control.recovery import Recovery


@dataclass(frozen=True)
class Workbench:
    catalog: Catalog
    options: PlanOptions
    verify: VerifyMode
    record: JobRecord
    engine: Callable[[], Engine]  # started when it is first asked for
    cache: ManifestCache
    retry: RetryPolicy
    prices: Prices
    emit: EventSink
    cancel: CancelToken
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    tracer: Tracer
    why_engine: Callable[[], str] = lambda: ""  # why it is this one, where there was a choice

    def warn(self, message: str) -> None:
        self.emit(Notice("warning", message))

    def recovery(self, store: JobStore) -> "Recovery":
        """Of other jobs of the table, by the one that holds it."""
        from tidyberg.control.recovery import Recovery  # plans need none of it

        def notify(said: str) -> None:
            self.emit(StageStarted(Stage.RECOVER, said))

        return Recovery(store, self.record.job.job_id, self.now_ms, self.sleep, self.cancel, notify)


def work_of(groups: Sequence[FileGroup]) -> dict[str, int]:
    """What a span says of the groups it is about."""
    return {
        "partitions": len({(group.spec_id, group.partition_path) for group in groups}),
        "groups": len(groups),
        "files": sum(len(group.files) for group in groups),
        "bytes": sum(group.estimate.bytes_read for group in groups),
    }
