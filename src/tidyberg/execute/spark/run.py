"""Runs tasks as Spark jobs: threads submit the jobs, and the caller's thread gathers the results."""

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Generator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol

from tidyberg.errors import Cancelled, EngineError, TidybergError
from tidyberg.execute.engine import AnyTask, CancelToken, error_of
from tidyberg.execute.spark.session import first_line
from tidyberg.execute.spark.worker import (
    OUTCOME_SCHEMA,
    TaskOutcome,
    Work,
    import_kernels,
    in_batches,
    in_own_worker,
    make_worker,
    unpack_outcome,
)
from tidyberg.failures import find_failure
from tidyberg.model.words import plural
from tidyberg.storage.access import StorageAccess

_POLL_SECONDS = 0.1
_MOST_THREADS = 32  # the most Spark jobs at once
_MOST_JOBS = 150  # the most Spark jobs per run: a job costs the JVM at least 20 ms, a task 1 ms
_FEW_JOBS = 48  # enough jobs for progress, and for balanced cores at the end
_WORTH_A_JOB = 32 * 1024 * 1024  # input bytes that take a few tenths of a second
_OPENING = 80 * 1024  # the cost of opening a file, in bytes read
_CLUSTER_SLOTS = 32  # tasks at once for a cluster of unknown size
_SHOWN_FILES = 3  # files named in a message
_INTERRUPT_SECONDS = 10.0  # how long to wait until Spark has cancelled jobs


class Handle(Protocol):
    """The Spark of one run. Many threads submit, and another one interrupts."""

    def collect(self, work: Work, partitions: int) -> list[TaskOutcome]:
        """Run a Spark job and return its outcomes. The submitting thread calls this."""

    def interrupt(self) -> None: ...


class SessionHandle:
    """A session that only this run uses."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def collect(self, work: Work, partitions: int) -> list[TaskOutcome]:
        numbers = self._session.range(0, partitions, 1, partitions)
        rows = numbers.mapInArrow(in_batches(work), OUTCOME_SCHEMA).collect()
        return [unpack_outcome(bytes(row[0])) for row in rows]

    def shuffle(self, map_tasks: int, maps: Any, reduce_tasks: int, reduces: Any, schema: str) -> list[Any]:
        """Run a Spark job with a shuffle and return its rows. The first column of `schema` is the partition."""
        numbers = self._session.range(0, map_tasks, 1, map_tasks)
        sent = numbers.mapInArrow(maps, schema)
        sent = sent.repartitionById(reduce_tasks, sent[schema.split()[0]])
        return list(sent.mapInArrow(reduces, schema).collect())

    def interrupt(self) -> None:
        self._session.interruptAll()


class ConnectHandle(SessionHandle):
    """A Spark Connect session. Connect cancels by tag, and tags belong to the submitting thread."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._tag = _new_tag()

    def collect(self, work: Work, partitions: int) -> list[TaskOutcome]:
        self._session.addTag(self._tag)
        return super().collect(work, partitions)

    def shuffle(self, map_tasks: int, maps: Any, reduce_tasks: int, reduces: Any, schema: str) -> list[Any]:
        self._session.addTag(self._tag)
        return super().shuffle(map_tasks, maps, reduce_tasks, reduces, schema)

    def interrupt(self) -> None:
        self._session.interruptTag(self._tag)


class LocalHandle:
    """The context of our own local Spark. Without SQL it starts faster, and jobs cost its JVM less."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._tag = _new_tag()

    def collect(self, work: Work, partitions: int) -> list[TaskOutcome]:
        self._context.addJobTag(self._tag)
        numbers = self._context.parallelize(range(partitions), partitions)
        return [unpack_outcome(outcome) for outcome in numbers.mapPartitions(in_own_worker(work)).collect()]

    def warm_up(self, workers: int) -> None:
        """Start Python workers and import the kernels in them, before the first task needs them."""
        numbers = self._context.parallelize(range(workers), workers)
        numbers.mapPartitions(in_own_worker(import_kernels)).collect()

    def interrupt(self) -> None:
        self._context.cancelJobsWithTag(self._tag)


def _new_tag() -> str:
    return f"tidyberg-{uuid.uuid4().hex}"


Partition = list[tuple[int, AnyTask]]  # the tasks that one Spark task runs, with their positions


def split_into_jobs(
    tasks: Sequence[AnyTask], cores: int | None, max_parallelism: int | None
) -> tuple[int, list[list[Partition]]]:
    """Return the number of submitting threads, and the Spark jobs as lists of partitions, largest work first.

    A few tasks, or large ones, get one Spark job each, so that progress is visible. Many small tasks share jobs, so
    that the driver keeps up. Threads times partitions per job never exceed `max_parallelism`.
    """
    slots = max_parallelism or (cores + 1 if cores is not None else _CLUSTER_SLOTS)
    slots = min(slots, len(tasks))
    threads = min(slots, _MOST_THREADS)
    partitions = slots // threads
    work = [_work(task) for task in tasks]
    enough = min(_WORTH_A_JOB, sum(work) / max(_FEW_JOBS, 4 * threads))
    enough = max(enough, sum(work) / (_MOST_JOBS - 1))  # all jobs except the last have at least this
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


class SparkJob(Protocol):
    """Work that is submitted to Spark at once."""

    @property
    def files(self) -> list[str]:
        """The files that it reads, for messages."""

    def collect(self) -> list[TaskOutcome]: ...


@dataclass(frozen=True)
class TasksJob:
    """A Spark job that runs tasks, without a shuffle."""

    handle: Handle
    partitions: list[Partition]
    storage: StorageAccess
    attempts: int

    @property
    def files(self) -> list[str]:
        return [file.path for partition in self.partitions for _, task in partition for file in task.inputs]

    def collect(self) -> list[TaskOutcome]:
        work = make_worker(self.partitions, self.storage, self.attempts)
        return self.handle.collect(work, len(self.partitions))


@dataclass(frozen=True)
class _Failed:
    """A Spark job that ended with an error."""

    error: BaseException
    job: SparkJob


class SparkRun:
    """One call of `run` or `shuffle`: threads submit Spark jobs, and the caller's thread yields what they report."""

    def __init__(self, handle: Handle, jobs: Sequence[SparkJob], cancel: CancelToken) -> None:
        self._handle = handle
        self._cancel = cancel
        self._stopping = threading.Event()
        self._waiting: queue.SimpleQueue[SparkJob] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[list[TaskOutcome] | _Failed] = queue.SimpleQueue()
        for job in jobs:
            self._waiting.put(job)

    def results(self, threads: int, tasks: int) -> Generator[Any, None, None]:
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
                job = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put(job.collect())
            except BaseException as error:  # noqa: BLE001 - whatever it was, the caller's thread raises it
                self._done.put(_Failed(error, job))
                return

    def _gathered(self, tasks: int) -> Generator[Any, None, None]:
        count = 0
        while count < tasks:
            self._cancel.raise_if_cancelled()
            try:
                outcomes = self._done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            # The exception for a cancelled job depends on the mode of Spark, so check our own flag.
            self._cancel.raise_if_cancelled()
            if isinstance(outcomes, _Failed):
                raise error_from_spark(outcomes.error, outcomes.job.files) from outcomes.error
            for outcome in outcomes:
                if outcome.failure is not None:
                    raise error_of(outcome.failure) from outcome.failure
                assert outcome.result is not None
                count += 1
                yield outcome.result

    def _interrupt(self, workers: list[threading.Thread]) -> None:
        """Interrupt until every thread has ended, because a thread may submit a job after an interrupt."""
        self._stopping.set()
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # a dead Spark has nothing to interrupt
                self._handle.interrupt()
            for worker in workers:
                worker.join(timeout=_POLL_SECONDS)


def error_from_spark(error: BaseException, files: Sequence[str] = ()) -> TidybergError:
    """Convert an exception of Spark to tidyberg's error. The exception stays its cause."""
    if isinstance(error, TidybergError):
        return error
    text = str(error)
    failure = find_failure(text)
    if failure is not None:
        return error_of(failure)
    if "SPARK_JOB_CANCELLED" in text or "OPERATION_CANCELED" in text:
        return Cancelled("Spark cancelled the job: somebody else stopped it or its session.")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "ModuleNotFoundError" in text:
        missing = next((line for line in lines if "ModuleNotFoundError" in line), "")
        return EngineError(
            f"An executor lacks a module: {first_line(missing)}", hint="Executors need pyarrow and numpy."
        )
    if "Python worker exited unexpectedly" in text or "Python worker died" in text.lower():
        return EngineError(
            f"A Python worker died several times while it ran a group{_reading(files)}.",
            hint="It may have run out of memory: lower max_parallelism or the row-group size.",
        )
    said = next((line for line in lines if "Error" in line or "Exception" in line), lines[0] if lines else "")
    return EngineError(f"Spark failed to run a group: {first_line(said) or type(error).__name__}")


def _reading(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = f" and {plural(len(files) - _SHOWN_FILES, 'more file')}" if len(files) > _SHOWN_FILES else ""
    return f", of {', '.join(files[:_SHOWN_FILES])}{more}"
