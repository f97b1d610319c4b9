"""What every part of a running job works with."""

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from tidyberg.commit.publish import RetryPolicy
from tidyberg.control.journal import JobRecord
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.model.options import PlanOptions, Prices, VerifyMode
from tidyberg.model.report import EventSink, Notice
from tidyberg.observe.cache import ManifestCache


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

    def warn(self, message: str) -> None:
        self.emit(Notice("warning", message))
