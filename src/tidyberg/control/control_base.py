"""The parts that all calls of `Control` share: catalogs, engines, the job store, clocks and limits.

Threads may share one `Control`. Each thread opens its own catalogs, because a REST session or a database connection
belongs to one thread. All threads share one engine. The job store and the manifest cache are thread-safe.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyiceberg.catalog import Catalog

from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.lease import LEASE_MS
from tidyberg.control.planner import Planner
from tidyberg.execute.engine import Engine, StartsInBackground
from tidyberg.model.options import Prices, Resources
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.record.clock import wall_clock_ms
from tidyberg.record.store import JobStore
from tidyberg.redact import redact_text
from tidyberg.telemetry.context import about
from tidyberg.telemetry.traces import Span, Tracer, Value

if TYPE_CHECKING:
    from tidyberg.control.dead_jobs import DeadJobs
    from tidyberg.observe.engine_reads import EngineReads

DAY_MS = 24 * 60 * 60 * 1000


@dataclass
class ControlBase:
    open_catalog: Callable[[str | None], Catalog]
    open_engine: Callable[[], Engine]
    store: JobStore
    resources: Resources = field(default_factory=Resources)  # of the engine, known before it starts
    prices: Prices = field(default_factory=Prices)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    replans: int = 2  # how often a job plans again for groups that conflicted
    max_output_age_ms: int = DAY_MS  # older outputs of dead jobs are not reused: a cleaner may have removed them
    wait_seconds: float = 0.0  # how long to wait for a table that another job holds
    lease_ms: int = LEASE_MS  # a job that does not renew its lease for this long loses its table
    now_ms: Callable[[], int] = wall_clock_ms
    sleep: Callable[[float], None] = time.sleep
    engine_reads_above: int | None = None  # above this many bytes, the engine's tasks read the manifests
    engine_lists_above: int | None = None  # after this many files, the engine's tasks list the rest of a directory
    open_inline: Callable[[], Engine] | None = None  # for plans that take less time than Spark needs to start
    inline_resources: Resources | None = None  # of the inline engine
    cache: ManifestCache = field(default_factory=ManifestCache)
    tracer: Tracer = field(default_factory=Tracer)
    scrub: Callable[[str], str] = redact_text  # I12: removes secrets from error messages
    _engine: Engine | None = None
    _inline: Engine | None = None
    _engine_lock: threading.Lock = field(default_factory=threading.Lock)
    _of_thread: threading.local = field(default_factory=threading.local)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._engine_lock:
            if self._engine is not None:
                self._engine.close()
                self._engine = None
        self.store.close()

    def expect_work(self) -> None:
        """Starts the engine while the table is observed. `close` ends it if there is nothing to do."""
        if self.open_inline is not None:
            return  # the plan decides which engine is used
        engine = self._get_engine()
        if isinstance(engine, StartsInBackground):
            engine.start_in_background()

    def catalog(self, name: str | None = None) -> Catalog:
        """The catalog of this thread."""
        opened: dict[str | None, Catalog] = self._of_thread.__dict__.setdefault("catalogs", {})
        if name not in opened:
            catalog = self.open_catalog(name)
            opened[name] = opened.setdefault(catalog.name, catalog)  # the default catalog has a name too
        return opened[name]

    @contextmanager
    def _traced(
        self, name: str, ref: TableRef, run_id: str, submission_id: str | None = None, **attributes: Value
    ) -> Iterator[Span]:
        """Opens a span, and marks all that is logged inside with the run."""
        with (
            about(job_id=submission_id or run_id, run_id=run_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span(name, **attributes) as span,
        ):
            yield span

    @property
    def _services(self) -> Services:
        reads: EngineReads | None = None
        if self.engine_reads_above is not None and self.engine_lists_above is not None:
            from tidyberg.control.engine_reads import engine_reads

            reads = engine_reads(self._get_engine, self.engine_reads_above, self.engine_lists_above)
        return Services(
            self.store, self.cache, self.retry, self.prices, self.tracer, self.scrub, self.now_ms, self.sleep, reads
        )

    @property
    def _policy(self) -> JobPolicy:
        return JobPolicy(self.replans, self.max_output_age_ms, self.wait_seconds, self.lease_ms)

    @property
    def _planner(self) -> Planner:
        return Planner(
            self.store,
            self.cache,
            self.resources,
            self.prices,
            self.now_ms,
            self.tracer,
            self._get_engine,
            self.engine_reads_above,
            self.inline_resources,
        )

    @property
    def _dead_jobs(self) -> "DeadJobs":
        from tidyberg.control.dead_jobs import DeadJobs

        return DeadJobs(self.store, self.catalog, self.now_ms, self.sleep, self.lease_ms)

    def _get_engine(self) -> Engine:
        with self._engine_lock:
            if self._engine is None:
                self._engine = self.open_engine()
            return self._engine

    def _get_inline(self) -> Engine:
        with self._engine_lock:
            if self._inline is None:
                assert self.open_inline is not None
                self._inline = self.open_inline()
            return self._inline


def ignore_events(_: object) -> None:
    return None
