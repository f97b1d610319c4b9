"""Checks whether the service can accept and run jobs: the store, the catalogs and the engine."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidyberg.errors import StoreUnreachable, TidybergError
from tidyberg.record.records import Records
from tidyberg.service.catalog_lookup import CatalogLookup
from tidyberg.service.requests import ReadinessReport

OK = "ok"
FRESH_SECONDS = 2.0  # cached, because each check writes and callers need no credential


@dataclass
class ReadinessCheck:
    records: Records
    lookup: CatalogLookup
    catalogs: Iterable[str]
    check_engine: Callable[[], None]
    needs_catalog: bool = False
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: float = float("-inf")
    _error: TidybergError | None = None

    def ready(self) -> ReadinessReport:
        """Needs the store and the engine. While a catalog is down, its jobs wait and the service stays ready."""
        store = _outcome(self.check_store)
        engine = _outcome(self.check_engine)
        catalogs = {f"catalog {name}": _outcome(lambda name=name: self.lookup.answers(name)) for name in self.catalogs}  # type: ignore[misc]
        lost_all = bool(catalogs) and OK not in catalogs.values()
        ok = store == engine == OK and not (self.needs_catalog and lost_all)
        return ReadinessReport(ok, {"store": store, "engine": engine, **catalogs})

    def check_store(self) -> None:
        """Raises unless the store accepts writes. With a full disk, or Redis at `maxmemory`, reads still work."""
        if self._lock.acquire(blocking=False):
            try:
                if self.clock() - self._seen >= FRESH_SECONDS:
                    self._look()
            finally:
                self._lock.release()
        elif self.clock() - self._seen >= 10 * FRESH_SECONDS:
            raise StoreUnreachable("The job store has not answered for a while.")
        if self._error is not None:
            raise self._error

    def _look(self) -> None:
        try:
            self.records.queue.submission("ready")
            self.records.check_write()
            self._error = None
        except TidybergError as error:
            self._error = error
        self._seen = self.clock()


def _outcome(check: Callable[[], object]) -> str:
    try:
        check()
    except TidybergError as error:
        return error.message
    return OK
