"""Gauges that are read from the shared store at each scrape. A scrape also works while the store is down."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query
from tidyberg.record.queue import JobQueue

_LOG = logging.getLogger(__name__)
_FRESH_SECONDS = 1.0
_PATIENCE_SECONDS = 2.0  # a scrape gives up after ten by default


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of the shared queue, the same for all replicas."""

    pending: int
    active: int
    oldest_pending_ms: int | None  # when the oldest queued job was submitted
    last_succeeded_ms: int | None
    paused: int | None = None  # paused tables
    of_tenants: Mapping[tuple[str, JobStatus], int] = field(default_factory=dict)  # queued and running jobs


def look_at(
    queue: JobQueue, paused: Callable[[], int] | None = None, tenant_label: Callable[[str], str] = str
) -> QueueState:
    counts = queue.counts()
    of_tenants: Counter[tuple[str, JobStatus]] = Counter()
    for (tenant, status), count in counts.items():
        if not status.is_final:
            of_tenants[tenant_label(tenant), status] += count
    oldest = queue.submissions(Query(statuses=frozenset({JobStatus.QUEUED}), newest_first=False, limit=1)).submissions
    newest = queue.submissions(Query(statuses=frozenset({JobStatus.SUCCEEDED}), limit=1)).submissions
    return QueueState(
        pending=sum(count for (_, status), count in counts.items() if status is JobStatus.QUEUED),
        active=sum(count for (_, status), count in counts.items() if status is JobStatus.RUNNING),
        oldest_pending_ms=oldest[0].created_ms if oldest else None,
        last_succeeded_ms=newest[0].finished_ms if newest else None,
        paused=paused() if paused is not None else None,
        of_tenants=of_tenants,
    )


class StoreGauges(Collector):
    """Reads the store in its own thread, one read at a time. A store that hangs delays a scrape by two seconds."""

    def __init__(
        self,
        queue: JobQueue,
        clock: Callable[[], float] = time.monotonic,
        check_write: Callable[[], None] = lambda: None,
        paused: Callable[[], int] | None = None,
        tenant_label: Callable[[str], str] = str,
    ) -> None:
        self._queue = queue
        self._check_write = check_write
        self._takes_writes = False
        self._paused = paused
        self._tenant_label = tenant_label
        self._clock = clock
        self._lock = threading.Lock()
        self._state: QueueState | None = None
        self._seen_at = float("-inf")
        self._looking: threading.Thread | None = None

    def describe(self) -> Iterator[Metric]:
        """Returns the names only, because registration must not read the store."""
        return iter(_families(None, 0.0, takes_writes=False))

    def collect(self) -> Iterator[Metric]:
        state = self._current()
        return iter(_families(state, time.time(), takes_writes=self._takes_writes))

    def _current(self) -> QueueState | None:
        with self._lock:
            if self._clock() - self._seen_at < _FRESH_SECONDS:
                return self._state
            if self._looking is None or not self._looking.is_alive():
                self._looking = threading.Thread(target=self._look, name="tidyberg-queue-state", daemon=True)
                self._looking.start()
            looking = self._looking
        looking.join(_PATIENCE_SECONDS)
        with self._lock:
            return self._state if self._clock() - self._seen_at < _FRESH_SECONDS + _PATIENCE_SECONDS else None

    def _look(self) -> None:
        state, takes_writes = None, False
        try:
            state = look_at(self._queue, self._paused, self._tenant_label)
            self._check_write()
            takes_writes = True
        except Exception as error:  # noqa: BLE001  # any error means that the store is down
            _LOG.debug("the job store does not answer: %s", error)
        with self._lock:
            self._state, self._takes_writes, self._seen_at = state, takes_writes, self._clock()


def _families(state: QueueState | None, now: float, *, takes_writes: bool) -> list[Metric]:
    is_up = float(state is not None and takes_writes)
    up = GaugeMetricFamily("tidyberg_store_up", "1 if the job store answers and accepts writes", value=is_up)
    pending = GaugeMetricFamily("pending_compactions", "Queued jobs of all replicas")
    active = GaugeMetricFamily("active_compactions", "Running jobs of all replicas")
    oldest = GaugeMetricFamily(
        "oldest_pending_compaction_age_seconds", "Age of the oldest queued job; 0 if none is queued"
    )
    last = GaugeMetricFamily("last_compaction_timestamp_seconds", "When the newest successful job ended")
    paused = GaugeMetricFamily("tidyberg_paused_tables", "Paused tables")
    waiting = GaugeMetricFamily("tenant_pending_compactions", "Queued jobs, by tenant", labels=("tenant",))
    running = GaugeMetricFamily("tenant_active_compactions", "Running jobs, by tenant", labels=("tenant",))
    for (tenant, status), count in sorted(state.of_tenants.items()) if state is not None else ():
        (waiting if status is JobStatus.QUEUED else running).add_metric((tenant,), count)
    if state is not None and state.paused is not None:
        paused.add_metric((), state.paused)
    if state is not None:
        pending.add_metric((), state.pending)
        active.add_metric((), state.active)
        waited = 0.0 if state.oldest_pending_ms is None else max(0.0, now - state.oldest_pending_ms / 1000)
        oldest.add_metric((), waited)
        if state.last_succeeded_ms is not None:
            last.add_metric((), state.last_succeeded_ms / 1000)
    return [up, pending, active, oldest, last, paused, waiting, running]
