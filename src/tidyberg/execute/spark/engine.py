"""Runs tasks on Spark: a local Spark, a cluster, the caller's session, or Spark Connect."""

import contextlib
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidyberg.errors import ConfigurationError, EngineError
from tidyberg.execute.engine import (
    APP_NAME,
    SPARK_CONNECT,
    AnyTask,
    CancelToken,
    Results,
    ShuffleResults,
    use_idle_cores,
)
from tidyberg.execute.kernel.memory import rows_within
from tidyberg.execute.scratch_directories import scratch_directory
from tidyberg.execute.scratch_shuffle import ScratchShuffles
from tidyberg.execute.spark.class_archive import find_archive, make_later
from tidyberg.execute.spark.launch import Launch, launched, spark_home
from tidyberg.execute.spark.private import active_context
from tidyberg.execute.spark.run import (
    ConnectHandle,
    Handle,
    LocalHandle,
    SessionHandle,
    SparkRun,
    TasksJob,
    split_into_jobs,
)
from tidyberg.execute.spark.session import (
    engine_launch,
    forget,
    is_alive,
    is_connect,
    local_cores,
    retrying_master,
    session_of,
    session_settings,
    setting_of,
    start_classic,
    start_connect,
    stop_classic,
    worker_memory,
)
from tidyberg.execute.spark.shipping import write_archive
from tidyberg.execute.spark.shuffle import SparkShuffle
from tidyberg.model.options import Resources
from tidyberg.model.shuffle import ShuffleJob
from tidyberg.storage.access import StorageAccess

_SHUFFLES_AT_ONCE = 4  # one shuffle often leaves cores idle at the end of its stages
_LOST_ATTEMPTS = 4  # attempts that do not count as failures: speculation, lost executors


class SparkEngine:
    """Starts Spark at the first run, or uses the given session or Connect address."""

    def __init__(
        self,
        master: str = "local[*]",
        *,
        conf: Mapping[str, str] | None = None,
        session: Any = None,
        connect: str | None = None,
        driver_memory: str = "1g",
        memory_gb: float = 4.0,
        app_name: str = APP_NAME,
        class_archive: bool = False,
    ) -> None:
        if session is not None and connect is not None:
            raise ConfigurationError("Give SparkEngine a session or a Connect address, not both.")
        self._master = retrying_master(master)
        self._conf = dict(conf or {})
        self._connect = connect
        self._driver_memory = driver_memory
        self._app_name = app_name
        self._class_archive = class_archive
        self._has_run = False
        self._spark = session  # or its context, if Spark is local and our own
        self._owns_spark = session is None
        self._shipped = False
        self._closing = False
        self._lock = threading.Lock()
        self._launch: Launch | None = None  # set while `start_in_background` is running
        self._background_start: threading.Thread | None = None
        self._scratch = contextlib.ExitStack()
        weakref.finalize(self, self._scratch.close)  # also at the end of a process that does not close the engine
        self._scratch_directory: Path | None = None
        self._is_own_local = session is None and connect is None and local_cores(self._master) is not None
        self._cores = self._find_cores()
        self._attempts: int | None = None
        name = SPARK_CONNECT if connect is not None else "spark session" if session is not None else master
        self.resources = Resources(cores=self._cores or 2, memory_gb=memory_gb, name=name)

    @property
    def name(self) -> str:
        return "spark"

    @property
    def attempts(self) -> int:
        """This never changes once read: it is recorded before a run, and workers refuse further attempts [I6]."""
        if self._attempts is None:
            failures = int(self._setting("spark.task.maxFailures") or 4)
            self._attempts = failures + (0 if self._is_own_local else _LOST_ATTEMPTS)
        return self._attempts

    @property
    def task_memory_bytes(self) -> int | None:
        limit = worker_memory(self._setting("spark.executor.pyspark.memory"))
        return None if limit is None else rows_within(limit)

    @property
    def settle_seconds(self) -> float:
        """Measured: workers wrote up to 1.8 s after a cancel with our kill timeout, 3.7 s with Spark's own."""
        return 2.5 if self._is_own_local else 5.0

    @property
    def is_usable(self) -> bool:
        """Whether a run can use or start a Spark. It cannot if the caller's Spark has been stopped."""
        return self._spark is None or self._owns_spark or is_alive(self._spark)

    def start(self) -> None:
        """Start Spark now, or again if it has died. A run does this by itself."""
        with self._lock:
            if self._spark is not None and self._owns_spark and not is_alive(self._spark):
                forget(self._spark)
                self._spark, self._shipped = None, False
            if self._spark is None:
                self._spark = self._start()

    def start_in_background(self) -> None:
        """Start Spark in the background. If that fails, the first run reports why."""
        if self._spark is not None or self._connect is not None or self._background_start is not None:
            return
        if "pyspark" in sys.modules and active_context() is not None:
            return
        launch = engine_launch(
            self._master, self._driver_memory, self._conf, self._app_name, class_archive=self._class_archive
        )
        with contextlib.suppress(OSError, EngineError):
            self._launch = launched(*launch, self._directory() / "spark.log")
            self._background_start = threading.Thread(
                target=self._start_quietly, name="tidyberg-spark-start", daemon=True
            )
            self._background_start.start()

    def _start_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self.start()
            if self._is_own_local and not self._closing:
                LocalHandle(self._spark).warm_up(self._cores or 1)

    def close(self) -> None:
        self._closing = True
        if (launch := self._launch) is not None:
            launch.abandon()  # it may still be starting, and nobody needs it
        with self._lock:
            spark, self._spark = self._spark, None if self._owns_spark else self._spark
            if spark is not None and self._owns_spark:
                if is_connect(spark):
                    spark.stop()
                elif is_alive(spark):
                    stop_classic(spark)
                    if self._class_archive and self._is_own_local and self._has_run:
                        make_later(find_archive(spark_home()))
                else:
                    forget(spark)
            self._shipped = False
            self._scratch.close()
            self._scratch_directory = None
        if self._background_start is not None:
            self._background_start.join()
        self._background_start, self._closing = None, False

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        cancel.raise_if_cancelled()
        if not tasks:
            return
        self.start()
        handle = self._handle()
        tasks = use_idle_cores(tasks, self._cores if max_parallelism is None else None, self._cores_of_executor())
        threads, jobs = split_into_jobs(tasks, self._cores, max_parallelism)
        tasks_jobs = [TasksJob(handle, partitions, storage, self.attempts) for partitions in jobs]
        yield from SparkRun(handle, tasks_jobs, cancel).results(threads, len(tasks))
        self._has_run = True

    def shuffle(
        self,
        jobs: Sequence[ShuffleJob],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> ShuffleResults:
        cancel.raise_if_cancelled()
        if not jobs:
            return
        self.start()
        if self._is_own_local:  # its workers share the disk of this machine

            def run(tasks: Sequence[AnyTask]) -> Results:
                return self.run(tasks, storage, cancel=cancel, max_parallelism=max_parallelism)

            parent = self._conf.get("spark.local.dir", "").split(",")[0] or None
            yield from ScratchShuffles(run, parent, max_parallelism or self._cores or 1).results(jobs)
            return
        handle = self._handle()
        assert isinstance(handle, SessionHandle)
        shuffles = [SparkShuffle(handle, job, storage, max_parallelism) for job in jobs]
        threads = 1 if max_parallelism is not None else min(len(jobs), _SHUFFLES_AT_ONCE)
        yield from SparkRun(handle, shuffles, cancel).results(threads, len(jobs))

    def _start(self) -> Any:
        if self._connect is not None:
            return start_connect(self._connect, self._app_name)
        shared = active_context()
        if shared is not None:
            # A process has only one Spark, so use the caller's and leave it running.
            self._owns_spark = self._is_own_local = False
            return session_of(shared)
        settings = session_settings(self._master, self._driver_memory, self._conf)
        log = self._directory() / "spark.log"
        try:
            context = start_classic(
                self._master, self._app_name, settings, log, self._launch, class_archive=self._class_archive
            )
        finally:
            self._launch = None
        return context if self._is_own_local else session_of(context)

    def _handle(self) -> Handle:
        """Return the handle of one run, and ship the kernels to the executors."""
        if self._is_own_local:
            return LocalHandle(self._spark)  # its workers import the installed package
        if is_connect(self._spark):
            self._ship(self._spark)
            return ConnectHandle(self._spark)
        # Classic Spark cancels whole sessions, so every run has its own session.
        own = self._spark.newSession()
        self._ship(own)
        return SessionHandle(own)

    def _ship(self, session: Any) -> None:
        if is_connect(session) and self._shipped:
            return
        with self._lock:  # several threads may run tasks
            archive = write_archive(self._directory())
            session.addArtifacts(str(archive), pyfile=True)
            self._shipped = True

    def _setting(self, name: str) -> str | None:
        """Return a setting of the running Spark, or of the configuration. Connect servers may hide some."""
        if self._spark is not None:
            with contextlib.suppress(Exception):
                return setting_of(self._spark, name)
        return self._conf.get(name)

    def _find_cores(self) -> int | None:
        """Return the number of cores for tasks, or None if only the cluster knows it."""
        own_master = self._master if self._spark is None and self._connect is None else ""
        cores = local_cores(self._setting("spark.master") or own_master)
        if cores is not None:
            return cores
        instances, each = self._setting("spark.executor.instances"), self._setting("spark.executor.cores")
        if instances and each:
            return int(instances) * int(each)
        most = self._setting("spark.cores.max")
        return int(most) if most else None

    def _cores_of_executor(self) -> int | None:
        """Return the most cores that one task can use, or None if there is no such limit."""
        each = self._setting("spark.executor.cores")
        return int(each) if each and not self._is_own_local else None

    def _directory(self) -> Path:
        if self._scratch_directory is None:
            self._scratch_directory = self._scratch.enter_context(scratch_directory(kind="spark"))
        return self._scratch_directory
