"""One run on Spark: spreads tasks over Spark jobs, submits them from threads, and yields their results."""

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol

from tidyberg.errors import Cancelled, EngineError, TidybergError
from tidyberg.execute.engine import AnyTask, CancelToken, Results, error_of
from tidyberg.execute.spark.session import first_line
from tidyberg.execute.spark.worker import (
    OUTCOME_SCHEMA,
    Outcome,
    Work,
    import_kernels,
    in_batches,
    in_own_worker,
    make_worker,
    unpack_outcome,
)
from tidyberg.failures import find_failure
from tidyberg.model.task import StorageAccess
from tidyberg.model.words import plural

_POLL_SECONDS = 0.1
_MOST_THREADS = 32  # Spark jobs at a time
_MOST_JOBS = 150  # Spark jobs a run: each costs the JVM 20 ms and more, a task within one costs 1 ms
_FEW_JOBS = 48  # enough for progress, and for no core to wait long at the end
_WORTH_A_JOB = 32 * 1024 * 1024  # bytes of input: some tenths of a second of work
_OPENING = 80 * 1024  # what opening a file costs, in bytes that could be read meanwhile
_CLUSTER_SLOTS = 32  # tasks to offer a cluster whose size is unknown
_SHOWN_FILES = 3  # in a message
_INTERRUPT_SECONDS = 10.0  # how long to wait for Spark to give up cancelled jobs


class Handle(Protocol):
    """The interface to Spark of one run. Many threads submit, another one interrupts."""

    def collect(self, work: Work, partitions: int) -> list[Outcome]:
        """Called in the thread that submits."""

    def interrupt(self) -> None: ...


class SessionHandle:
    """A session for this run only."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def collect(self, work: Work, partitions: int) -> list[Outcome]:
        numbers = self._session.range(0, partitions, 1, partitions)
        rows = numbers.mapInArrow(in_batches(work), OUTCOME_SCHEMA).collect()
        return [unpack_outcome(bytes(row[0])) for row in rows]

    def interrupt(self) -> None:
        self._session.interruptAll()


class ConnectHandle(SessionHandle):
    """Connect cancels by tag; tags belong to the thread that submits."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._tag = _new_tag()

    def collect(self, work: Work, partitions: int) -> list[Outcome]:
        self._session.addTag(self._tag)
        return super().collect(work, partitions)

    def interrupt(self) -> None:
        self._session.interruptTag(self._tag)


class LocalHandle:
    """The context of a Spark of our own on this machine: without SQL it starts sooner, and jobs cost its JVM less."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._tag = _new_tag()

    def collect(self, work: Work, partitions: int) -> list[Outcome]:
        self._context.addJobTag(self._tag)
        numbers = self._context.parallelize(range(partitions), partitions)
        return [unpack_outcome(outcome) for outcome in numbers.mapPartitions(in_own_worker(work)).collect()]

    def warm_up(self, workers: int) -> None:
        """Starts Python workers and lets them import the kernels before the first task needs them."""
        numbers = self._context.parallelize(range(workers), workers)
        numbers.mapPartitions(in_own_worker(import_kernels)).collect()

    def interrupt(self) -> None:
        self._context.cancelJobsWithTag(self._tag)


def _new_tag() -> str:
    return f"tidyberg-{uuid.uuid4().hex}"


Partition = list[tuple[int, AnyTask]]  # tasks that one Spark task runs in turn, with their positions


def split_into_jobs(
    tasks: Sequence[AnyTask], cores: int | None, max_parallelism: int | None
) -> tuple[int, list[list[Partition]]]:
    """Threads to submit from, and Spark jobs: lists of partitions, largest work first.

    Few tasks, and large ones, get a Spark job each, so that progress comes per task; small ones and thousands share
    jobs, so that the driver keeps up. Threads times partitions per job never exceed `max_parallelism`.
    """
    slots = max_parallelism or (cores + 1 if cores is not None else _CLUSTER_SLOTS)
    slots = min(slots, len(tasks))
    threads = min(slots, _MOST_THREADS)
    partitions = slots // threads
    work = [_work(task) for task in tasks]
    enough = min(_WORTH_A_JOB, sum(work) / max(_FEW_JOBS, 4 * threads))
    enough = max(enough, sum(work) / (_MOST_JOBS - 1))  # all jobs but the last get that much
    jobs = []
    chunk: list[int] = []
    gathered = 0
    for position in sorted(range(len(tasks)), key=lambda position: -work[position]):
        chunk.append(position)
        gathered += work[position]
        if len(chunk) >= partitions and (len(tasks) <= _FEW_JOBS or gathered >= enough):
            jobs.append(_partitions(tasks, chunk, partitions))
            chunk, gathered = [], 0
    if chunk:
        jobs.append(_partitions(tasks, chunk, partitions))
    return threads, jobs


def _partitions(tasks: Sequence[AnyTask], chunk: Sequence[int], most: int) -> list[Partition]:
    count = min(most, len(chunk))
    return [[(p, tasks[p]) for p in chunk[number::count]] for number in range(count)]


def _work(task: AnyTask) -> int:
    return sum(file.bytes_taken + _OPENING for file in task.inputs)


@dataclass(frozen=True)
class _Failed:
    """A Spark job that failed, and its tasks."""

    error: BaseException
    partitions: list[Partition]

    @property
    def files(self) -> list[str]:
        return [file.path for partition in self.partitions for _, task in partition for file in task.inputs]


class SparkRun:
    """One call of `run`: threads submit Spark jobs, and the caller's thread yields what they report."""

    def __init__(
        self,
        handle: Handle,
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
        self._done: queue.SimpleQueue[list[Outcome] | _Failed] = queue.SimpleQueue()
        for job in jobs:
            self._waiting.put(job)

    def results(self, threads: int, tasks: int) -> Results:
        """Whatever ends the generator before its last result, an error or `close`, interrupts the Spark jobs."""
        workers = [
            threading.Thread(
                target=copy_context().run, args=(self._submit,), name=f"tidyberg-spark-{number}", daemon=True
            )
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        try:
            yield from self._gathered(tasks)
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
                self._done.put(_Failed(error, partitions))
                return

    def _gathered(self, tasks: int) -> Results:
        count = 0
        while count < tasks:
            self._cancel.raise_if_cancelled()
            try:
                outcomes = self._done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            # Spark's exceptions for a cancel differ by mode: our own flag knows better.
            self._cancel.raise_if_cancelled()
            if isinstance(outcomes, _Failed):
                raise error_from_spark(outcomes.error, outcomes.files) from outcomes.error
            for outcome in outcomes:
                if outcome.failure is not None:
                    raise error_of(outcome.failure) from outcome.failure
                assert outcome.result is not None
                count += 1
                yield outcome.result

    def _interrupt(self, workers: list[threading.Thread]) -> None:
        """Interrupts until every thread has returned, because one of them may have been about to submit."""
        self._stopping.set()
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # a Spark that is gone has nothing left to interrupt
                self._handle.interrupt()
            for worker in workers:
                worker.join(timeout=_POLL_SECONDS)


def error_from_spark(error: BaseException, files: Sequence[str] = ()) -> TidybergError:
    """tidyberg's error for what Spark raised over these files; the whole story stays in its cause."""
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
            f"A Python worker died again and again while it ran a group{_reading(files)}.",
            hint="It may have run out of memory: lower max_parallelism or the row-group size.",
        )
    said = next((line for line in lines if "Error" in line or "Exception" in line), lines[0] if lines else "")
    return EngineError(f"Spark failed to run a group: {first_line(said) or type(error).__name__}")


def _reading(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = f" and {plural(len(files) - _SHOWN_FILES, 'more file')}" if len(files) > _SHOWN_FILES else ""
    return f", of {', '.join(files[:_SHOWN_FILES])}{more}"
