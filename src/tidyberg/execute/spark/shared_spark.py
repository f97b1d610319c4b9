"""Keeps one Spark for all calls in a process. The first call starts it. It stops on request or at exit.

PySpark allows one Spark per process. So calls with the same settings share it, also from several threads. A call with
other settings waits until nobody uses it, and then replaces it.
"""

import atexit
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidyberg.errors import BadInput
from tidyberg.execute.engine import AnyTask, CancelToken, Engine, Results, ShuffleResults
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.model.options import Resources
from tidyberg.model.shuffle import ShuffleJob
from tidyberg.storage.access import StorageAccess


@dataclass(frozen=True)
class SparkSettings:
    """The settings by which one Spark differs from another."""

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


class SharedSpark:
    def __init__(self) -> None:
        self._unused = threading.Condition()
        self._settings: SparkSettings | None = None
        self._engine: SparkEngine | None = None
        self._users: Counter[int] = Counter()  # the number of calls by thread

    def borrow(self, settings: SparkSettings) -> Engine:
        """Return an engine. Its `close` returns it."""
        me = threading.get_ident()
        with self._unused:
            if me in self._users and settings != self._settings:
                return settings.make_engine()  # a nested call, which would wait for itself forever
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
        """Stop Spark when nobody uses it."""
        with self._unused:
            if threading.get_ident() in self._users:
                raise BadInput("Spark cannot be stopped by a call that runs on it.", hint="Stop it after the call.")
            self._unused.wait_for(lambda: not self._users)
            self._stop()

    def stop_at_exit(self) -> None:
        """Stop Spark without waiting. Only daemon threads can still use it, and they end with the process."""
        with contextlib.suppress(Exception):
            self._stop()

    def forget(self) -> None:
        """Forget Spark in a forked process, because it belongs to the parent."""
        self.__init__()  # type: ignore[misc]

    def _stop(self) -> None:
        engine, self._engine, self._settings = self._engine, None, None
        if engine is not None:
            engine.close()

    def _give_back(self, user: int) -> None:
        with self._unused:
            self._users[user] -= 1
            self._users += Counter()  # drops zero counts
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
    def task_memory_bytes(self) -> int | None:
        return self._engine.task_memory_bytes

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

    def shuffle(
        self,
        jobs: Sequence[ShuffleJob],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> ShuffleResults:
        return self._engine.shuffle(jobs, storage, cancel=cancel, max_parallelism=max_parallelism)

    def close(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


shared_spark = SharedSpark()
atexit.register(shared_spark.stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared_spark.forget)
