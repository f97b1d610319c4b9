"""The Spark that the calls of one process share: the first one starts it, and it is stopped when asked or at exit.

PySpark has one Spark a process. So calls with the same settings share it, also from several threads; a call with other
settings waits until nobody uses it, and then starts its own in its place.
"""

import atexit
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidyberg.errors import BadInput
from tidyberg.execute.engine import AnyTask, CancelToken, Engine, Results
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.model.options import Resources
from tidyberg.storage.access import StorageAccess


@dataclass(frozen=True)
class SparkSettings:
    """All that tells one Spark from another."""

    master: str
    conf: Mapping[str, str]
    connect: str | None
    driver_memory: str
    memory_gb: float
    class_archive: bool = False

    def make_engine(self) -> SparkEngine:
        return SparkEngine(
            master=self.master,
            conf=self.conf,
            connect=self.connect,
            driver_memory=self.driver_memory,
            memory_gb=self.memory_gb,
            class_archive=self.class_archive,
        )


class KeptSpark:
    def __init__(self) -> None:
        self._unused = threading.Condition()
        self._settings: SparkSettings | None = None
        self._engine: SparkEngine | None = None
        self._users: Counter[int] = Counter()  # by thread

    def borrow(self, settings: SparkSettings) -> Engine:
        """An engine whose `close` gives it back."""
        me = threading.get_ident()
        with self._unused:
            if me in self._users and settings != self._settings:
                return settings.make_engine()  # a call within a call: waiting for itself, it would wait forever
            self._unused.wait_for(lambda: not self._users or settings == self._settings)
            if (
                self._engine is not None
                and not self._users
                and not (settings == self._settings and self._engine.is_usable)
            ):
                self._stop()
            if self._engine is None:
                self._settings, self._engine = settings, settings.make_engine()
            self._users[me] += 1
            return _Borrowed(self._engine, lambda: self._give_back(me))

    def stop(self) -> None:
        """Stop it once nobody uses it."""
        with self._unused:
            if threading.get_ident() in self._users:
                raise BadInput("Spark cannot be stopped by a call that runs on it.", hint="Stop it after the call.")
            self._unused.wait_for(lambda: not self._users)
            self._stop()

    def stop_at_exit(self) -> None:
        """Whoever still uses it is a daemon thread, which ends with the process."""
        with contextlib.suppress(Exception):
            self._stop()

    def forget(self) -> None:
        """In a process that was forked: the Spark is its parent's."""
        self.__init__()  # type: ignore[misc]

    def _stop(self) -> None:
        engine, self._engine, self._settings = self._engine, None, None
        if engine is not None:
            engine.close()

    def _give_back(self, user: int) -> None:
        with self._unused:
            self._users[user] -= 1
            self._users += Counter()  # drops those that are zero
            self._unused.notify_all()


class _Borrowed:
    """A shared engine as one call sees it."""

    def __init__(self, engine: SparkEngine, give_back: Callable[[], None]) -> None:
        self._engine = engine
        self._give_back: Callable[[], None] | None = give_back

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def attempts(self) -> int:
        return self._engine.attempts

    @property
    def settle_seconds(self) -> float:
        return self._engine.settle_seconds

    @property
    def resources(self) -> Resources:
        return self._engine.resources

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        return self._engine.run(tasks, storage, cancel=cancel, max_parallelism=max_parallelism)

    def close(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


kept_spark = KeptSpark()
atexit.register(kept_spark.stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=kept_spark.forget)
