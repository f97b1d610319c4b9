"""Runs tasks on Spark: local, a cluster, a session the caller has, or Spark Connect; one API for all."""

import contextlib
import math
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidyberg.errors import Cancelled, EngineError, TidybergError
from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken, error_of
from tidyberg.execute.kernel.failures import find_failure
from tidyberg.execute.shipping import write_archive
from tidyberg.execute.spark_session import (
    first_line,
    is_connect,
    local_cores,
    retrying_master,
    running_session,
    session_settings,
    start_classic,
    start_connect,
    stop_classic,
)
from tidyberg.execute.worker import OUTCOME_SCHEMA, Outcome, make_worker, pack, unpack_outcome
from tidyberg.model.options import Resources
from tidyberg.model.task import StorageAccess

_POLL_SECONDS = 0.1
_MOST_THREADS = 32  # Spark jobs at a time
_MOST_JOBS = 150  # Spark jobs a run: each costs the driver some milliseconds
_CLUSTER_SLOTS = 32  # tasks to offer a cluster whose size is unknown
_LOST_ATTEMPTS = 4  # attempts beyond failures: speculation, executors that went away
_INTERRUPT_SECONDS = 10.0  # how long to wait for Spark to give up cancelled jobs


class SparkEngine:
    """Starts Spark at the first run, or uses the session or Connect address it was given."""

    def __init__(
        self,
        master: str = "local[*]",
        *,
        conf: Mapping[str, str] | None = None,
        session: Any = None,
        connect: str | None = None,
        driver_memory: str = "1g",
        memory_gb: float = 4.0,
        app_name: str = "tidyberg",
    ) -> None:
        if session is not None and connect is not None:
            raise EngineError("Give SparkEngine a session or a Connect address, not both.")
        self._master = retrying_master(master)
        self._conf = dict(conf or {})
        self._connect = connect
        self._driver_memory = driver_memory
        self._app_name = app_name
        self._session = session
        self._owns_session = session is None
        self._shipped = False
        self._lock = threading.Lock()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._cores = None if session is not None or connect is not None else local_cores(self._master)
        name = "spark connect" if connect is not None else "spark session" if session is not None else master
        self.resources = Resources(cores=self._cores or 2, memory_gb=memory_gb, name=name)

    @property
    def name(self) -> str:
        return "spark"

    @property
    def attempts(self) -> int:
        failures = self._conf.get("spark.task.maxFailures", "4")
        if self._session is not None and not self._owns_session:
            with contextlib.suppress(Exception):  # Connect may keep a server's settings to itself
                failures = self._session.conf.get("spark.task.maxFailures", failures)
        return int(failures) + (0 if self._cores is not None else _LOST_ATTEMPTS)

    @property
    def settle_seconds(self) -> float:
        """Workers were seen writing up to 1.8 s after a cancel with our kill timeout, 3.7 s with Spark's own."""
        return 2.5 if self._owns_session and self._connect is None else 5.0

    def start(self) -> None:
        """Start the session now; a run does it by itself."""
        with self._lock:
            if self._session is None:
                self._session = self._start()

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None if self._owns_session else self._session
            if session is not None and self._owns_session:
                if is_connect(session):
                    session.stop()
                else:
                    stop_classic(session)
            self._shipped = False
            if self._scratch is not None:
                self._scratch.cleanup()
                self._scratch = None

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        on_result: Callable[[AnyResult], None],
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> list[AnyResult]:
        cancel.raise_if_cancelled()
        if not tasks:
            return []
        self.start()
        handle = self._handle()
        threads, jobs = split_into_jobs(tasks, self._cores, max_parallelism)
        run = _Run(handle, jobs, storage, self.attempts, cancel)
        return run.execute(threads, len(tasks), on_result)

    def _start(self) -> Any:
        if self._connect is not None:
            return start_connect(self._connect, self._app_name)
        shared = running_session()
        if shared is not None:
            self._owns_session = False  # a process has one Spark: use the caller's, and leave it running
            return shared
        settings = session_settings(self._master, self._driver_memory, self._conf)
        return start_classic(self._master, self._app_name, settings, self._directory() / "spark.log")

    def _handle(self) -> "_Handle":
        """What one run talks to, with the kernels on their way to the executors."""
        session = self._session
        if is_connect(session):
            self._ship(session)
            return _ConnectHandle(session)
        # Classic Spark cancels by session only, so every run has one of its own.
        own = session.newSession()
        self._ship(own)
        return _Handle(own)

    def _ship(self, session: Any) -> None:
        if self._owns_session and self._cores is not None:
            return  # local workers import the very package that runs here
        if is_connect(session) and self._shipped:
            return
        archive = write_archive(self._directory())
        session.addArtifacts(str(archive), pyfile=True)
        self._shipped = True

    def _directory(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="tidyberg-spark-")
        return Path(self._scratch.name)


class _Handle:
    """A session as one run sees it: submit from many threads, interrupt from another."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def collect(self, work: Callable[[Any], Any], partitions: int) -> list[Outcome]:
        self.enter_thread()
        numbers = self._session.range(0, partitions, 1, partitions)
        rows = numbers.mapInArrow(work, OUTCOME_SCHEMA).collect()
        return [unpack_outcome(bytes(row[0])) for row in rows]

    def enter_thread(self) -> None:
        """Called in the thread that submits."""

    def interrupt(self) -> None:
        self._session.interruptAll()


class _ConnectHandle(_Handle):
    """Connect cancels by tag; tags belong to the thread that submits."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._tag = f"tidyberg-{uuid.uuid4().hex}"

    def enter_thread(self) -> None:
        self._session.addTag(self._tag)

    def interrupt(self) -> None:
        self._session.interruptTag(self._tag)


Partition = list[tuple[int, bytes]]  # tasks that one Spark task runs in turn: position and packed task


def split_into_jobs(
    tasks: Sequence[AnyTask], cores: int | None, max_parallelism: int | None
) -> tuple[int, list[list[Partition]]]:
    """Threads to submit from, and Spark jobs: lists of partitions, largest work first.

    Few tasks get a Spark job each, so that progress comes per task; thousands share jobs, so that the driver
    keeps up. Threads times partitions per job never exceed `max_parallelism`.
    """
    slots = max_parallelism or (cores + 1 if cores is not None else _CLUSTER_SLOTS)
    slots = min(slots, len(tasks))
    threads = min(slots, _MOST_THREADS)
    partitions = slots // threads
    per_job = max(partitions, math.ceil(len(tasks) / _MOST_JOBS))
    order = sorted(range(len(tasks)), key=lambda position: -_work(tasks[position]))
    jobs = []
    for start in range(0, len(order), per_job):
        chunk = order[start : start + per_job]
        count = min(partitions, len(chunk))
        jobs.append([[(p, pack(tasks[p])) for p in chunk[number::count]] for number in range(count)])
    return threads, jobs


def _work(task: AnyTask) -> int:
    return sum(file.size for file in task.inputs)


class _Run:
    """One call of `run`: threads submit Spark jobs, the caller's thread gathers what they report."""

    def __init__(
        self,
        handle: _Handle,
        jobs: list[list[Partition]],
        storage: StorageAccess,
        attempts: int,
        cancel: CancelToken,
    ) -> None:
        self._handle = handle
        self._storage = storage
        self._attempts = attempts
        self._cancel = cancel
        self._stopping = threading.Event()
        self._waiting: queue.SimpleQueue[list[Partition]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[list[Outcome] | BaseException] = queue.SimpleQueue()
        for job in jobs:
            self._waiting.put(job)

    def execute(self, threads: int, tasks: int, on_result: Callable[[AnyResult], None]) -> list[AnyResult]:
        workers = [
            threading.Thread(target=self._submit, name=f"tidyberg-spark-{number}", daemon=True)
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        try:
            return self._gather(tasks, on_result)
        except BaseException:
            self._interrupt(workers)
            raise
        finally:
            self._stopping.set()

    def _submit(self) -> None:
        while not self._stopping.is_set():
            try:
                partitions = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                work = make_worker(partitions, self._storage, self._attempts)
                self._done.put(self._handle.collect(work, len(partitions)))
            except BaseException as error:  # noqa: BLE001 - whatever it was, the caller's thread raises it
                self._done.put(error)
                return

    def _gather(self, tasks: int, on_result: Callable[[AnyResult], None]) -> list[AnyResult]:
        results: dict[int, AnyResult] = {}
        while len(results) < tasks:
            self._cancel.raise_if_cancelled()
            try:
                outcomes = self._done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            # Spark's exceptions for a cancel differ by mode: our own flag knows better.
            self._cancel.raise_if_cancelled()
            if isinstance(outcomes, BaseException):
                raise error_from_spark(outcomes) from outcomes
            for outcome in outcomes:
                if outcome.failure is not None:
                    raise error_of(outcome.failure) from outcome.failure
                assert outcome.result is not None
                results[outcome.position] = outcome.result
                on_result(outcome.result)
        return [results[position] for position in range(tasks)]

    def _interrupt(self, workers: list[threading.Thread]) -> None:
        """Interrupt until every thread is back: one of them may just have been about to submit."""
        self._stopping.set()
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # a Spark that is gone has nothing left to interrupt
                self._handle.interrupt()
            for worker in workers:
                worker.join(timeout=_POLL_SECONDS)


def error_from_spark(error: BaseException) -> TidybergError:
    """tidyberg's error for what Spark raised; the whole story stays in its cause."""
    if isinstance(error, TidybergError):
        return error
    text = str(error)
    failure = find_failure(text)
    if failure is not None:
        return error_of(failure)
    if "SPARK_JOB_CANCELLED" in text or "OPERATION_CANCELED" in text:
        return Cancelled("Spark cancelled the job: someone else stopped it or its session.")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "ModuleNotFoundError" in text:
        missing = next((line for line in lines if "ModuleNotFoundError" in line), "")
        return EngineError(
            f"An executor lacks a module: {first_line(missing)}", hint="Executors need pyarrow and numpy."
        )
    if "Python worker exited unexpectedly" in text or "Python worker died" in text.lower():
        return EngineError(
            "A Python worker died again and again while it ran a group.",
            hint="It may have run out of memory: lower max_parallelism or the row-group size.",
        )
    said = next((line for line in lines if "Error" in line or "Exception" in line), lines[0] if lines else "")
    return EngineError(f"Spark failed to run a group: {first_line(said) or type(error).__name__}")
