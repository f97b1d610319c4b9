"""The function that Spark runs in its Python workers. It is pickled by value, and imports the shipped kernels there."""

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidyberg.execute.engine import AnyResult, AnyTask
from tidyberg.failures import KernelFailure
from tidyberg.model.shuffle import ShuffleResult
from tidyberg.storage.access import StorageAccess

OUTCOME_SCHEMA = "outcome binary"

Work = Callable[[Iterable[int]], Iterator[bytes]]  # runs the tasks of the partitions with these numbers


@dataclass(frozen=True)
class TaskOutcome:
    """The result or the failure of one task on an executor."""

    position: int
    result: AnyResult | ShuffleResult | None
    failure: KernelFailure | None


def pack(task: AnyTask) -> bytes:
    """Serialize and compress a task. Paths and schemas compress well."""
    return zlib.compress(pickle.dumps(task, pickle.HIGHEST_PROTOCOL), 6)


def make_worker(partitions: Sequence[Sequence[tuple[int, AnyTask]]], storage: StorageAccess, attempts: int) -> Work:
    """Return a function that takes partition numbers and runs their tasks one after the other."""
    shipped = [[(position, pack(task)) for position, task in partition] for partition in partitions]

    def work(numbers: Iterable[int]) -> Iterator[bytes]:
        # Imports must be here, because the executor that unpickles the function has only the shipped archive.
        from pyspark import TaskContext

        from tidyberg.execute.kernel.remote import run_packed, tune_worker

        tune_worker()
        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        for number in numbers:
            for position, packed in shipped[number]:
                yield run_packed(position, packed, attempt, attempts, storage)

    return work


def in_batches(work: Work) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Adapt a worker function to `mapInArrow`."""

    def work_in_batches(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for outcome in work(batch.column(0).to_pylist()):
                yield pa.RecordBatch.from_arrays([pa.array([outcome], pa.binary())], names=["outcome"])

    return work_in_batches


def import_kernels(numbers: Iterable[int]) -> Iterator[bytes]:  # noqa: ARG001
    """Import the kernels in a worker, so that it is ready for its first task."""
    from tidyberg.execute.kernel.remote import tune_worker

    tune_worker()
    return iter(())


def in_own_worker(work: Work) -> Work:
    """Adapt a worker function to workers that run only our tasks."""

    def work_alone(numbers: Iterable[int]) -> Iterator[bytes]:
        from tidyberg.execute.kernel.without_pandas import use_arrow_without_pandas

        use_arrow_without_pandas()
        return work(numbers)

    return work_alone


def unpack_outcome(data: bytes) -> TaskOutcome:
    position, result, failure = pickle.loads(data)  # noqa: S301 - written by our own worker function
    return TaskOutcome(position, result, failure)
