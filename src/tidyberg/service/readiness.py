"""Whether jobs can be taken and run now: store, catalogs and engine, each asked for a short time only."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidyberg.errors import TidybergError
from tidyberg.record.queue import JobQueue
from tidyberg.service.lookup import Lookup
from tidyberg.service.requests import Readiness

OK = "ok"


@dataclass(frozen=True)
class ReadinessCheck:
    queue: JobQueue
    lookup: Lookup
    catalogs: Iterable[str]
    check_engine: Callable[[], None]

    def ready(self) -> Readiness:
        """Jobs of a catalog that is down wait, so one that answers is enough."""
        store = _outcome(lambda: self.queue.submission("ready"))
        engine = _outcome(self.check_engine)
        catalogs = {f"catalog {name}": _outcome(lambda name=name: self.lookup.answers(name)) for name in self.catalogs}  # type: ignore[misc]
        ok = store == engine == OK and (not catalogs or OK in catalogs.values())
        return Readiness(ok, {"store": store, "engine": engine, **catalogs})


def _outcome(check: Callable[[], object]) -> str:
    try:
        check()
    except TidybergError as error:
        return error.message
    return OK
