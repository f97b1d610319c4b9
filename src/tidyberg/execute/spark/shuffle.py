"""Shuffles through Spark's own shuffle: a map stage and a reduce stage in one Spark job.

It needs no RDDs, so it also works on Spark Connect and on shared clusters.
"""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

from tidyberg.execute.kernel.shuffle.spark import FAILURE, REPORT, RESULT, ROW_SCHEMA, pack_job
from tidyberg.execute.spark.run import SessionHandle
from tidyberg.execute.spark.worker import TaskOutcome
from tidyberg.model.shuffle import ShuffleJob, ShuffleResult
from tidyberg.storage.access import StorageAccess

_Batches = Callable[[Iterator[Any]], Iterator[Any]]


class SparkShuffle:
    """One shuffle as a Spark job."""

    def __init__(self, handle: SessionHandle, job: ShuffleJob, storage: StorageAccess, most_tasks: int | None) -> None:
        self._handle = handle
        self._job = job
        self._storage = storage
        self._map_tasks = min(len(job.maps), most_tasks or len(job.maps))
        self._reduce_tasks = min(len(job.reduces), most_tasks or len(job.reduces))

    @property
    def files(self) -> list[str]:
        return [file.path for task in self._job.maps for file in task.inputs]

    def collect(self) -> list[TaskOutcome]:
        packed = pack_job(self._job)
        maps = _map_function(packed, len(self._job.maps), self._map_tasks, self._reduce_tasks, self._storage)
        reduces = _reduce_function(packed, self._reduce_tasks, self._storage)
        rows = self._handle.shuffle(self._map_tasks, maps, self._reduce_tasks, reduces, ROW_SCHEMA)
        reports: dict[int, Any] = {}
        results: dict[int, Any] = {}
        for row in rows:
            content = pickle.loads(bytes(row["data"]))  # noqa: S301 - written by our own worker function
            if row["kind"] == FAILURE:
                return [TaskOutcome(0, None, content)]
            if row["kind"] == REPORT:
                reports[row["map"]] = content
            elif row["kind"] == RESULT:
                results[row["reduce"]] = content
        job = self._job
        whole = ShuffleResult(
            job.job_id,
            job.group_id,
            tuple(reports[number] for number in range(len(job.maps))),
            tuple(results[number] for number in range(len(job.reduces))),
        )
        return [TaskOutcome(0, whole, None)]


def _map_function(packed: bytes, maps: int, tasks: int, targets: int, storage: StorageAccess) -> _Batches:
    def map_in_batches(batches: Iterator[Any]) -> Iterator[Any]:
        # Imports must be here, because the executor that unpickles the function has only the shipped archive.
        from pyspark import TaskContext

        from tidyberg.execute.kernel.remote import tune_worker
        from tidyberg.execute.kernel.shuffle.spark import map_rows

        tune_worker()
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from map_rows(packed, range(number, maps, tasks), targets, attempt, storage)

    return map_in_batches


def _reduce_function(packed: bytes, targets: int, storage: StorageAccess) -> _Batches:
    def reduce_in_batches(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from tidyberg.execute.kernel.remote import tune_worker
        from tidyberg.execute.kernel.shuffle.spark import reduce_rows

        tune_worker()
        context = TaskContext.get()
        assert context is not None
        # A lost shuffle file makes Spark repeat a stage, and attempts of the new stage count from 0 again. So names of
        # outputs contain the id of the attempt, which is unique in a Spark application [I5].
        attempt = context.taskAttemptId() % 1_000_000_000
        yield from reduce_rows(packed, batches, context.partitionId(), targets, attempt, storage)

    return reduce_in_batches
