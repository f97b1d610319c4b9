"""Sorts groups that may be larger than the memory of a task: samples them, then shuffles those that are."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema

from tidyberg.execute.engine import CancelToken, Engine, error_of
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.execute.tasks.range_sort import cut_tasks, fits_one_task, reduce_tasks, sample_tasks, shuffle_job
from tidyberg.execute.tasks.scratch_need import scratch_need
from tidyberg.failures import KernelFailure
from tidyberg.model.options import PlanOptions, cores_of_task
from tidyberg.model.shuffle import ShuffleJob
from tidyberg.model.sizes import GB
from tidyberg.model.task import SampleResult, Task, TaskResult
from tidyberg.storage.access import StorageAccess
from tidyberg.verify.bounds import bounded_columns
from tidyberg.verify.lineage import LINEAGE_LEAVES
from tidyberg.verify.parts import shuffled

_COPIES = 4


@dataclass(frozen=True)
class SortedGroups:
    """The groups of a round that may have to be sorted by a shuffle."""

    tasks: Sequence[Task]  # whole ones
    schema: Schema
    options: PlanOptions

    def run(self, engine: Engine, storage: StorageAccess, cancel: CancelToken) -> Generator[TaskResult, None, None]:
        """Yields the result of each group. The run starts with the first `next`."""
        if not self.tasks:
            return
        samples = self._samples(engine, storage, cancel)
        memory = _memory_of_task(engine)
        large: list[Task] = []
        small: list[Task] = []
        for task in self.tasks:
            most_bytes = min(memory, task.memory_bytes, engine.task_memory_bytes or task.memory_bytes)
            fits = fits_one_task(task, samples[task.group_id], most_bytes)
            (small if fits else large).append(task)
        most = self.options.max_parallelism
        alone = with_delete_contents(
            [replace(task, parts=1) for task in small], storage, per_task=self.options.inline_delete_size
        )
        with closing(engine.run(alone, storage, cancel=cancel, max_parallelism=most)) as results:
            for result in results:
                assert isinstance(result, TaskResult)
                yield result
        reduces = sum(map(reduce_tasks, large))  # engines run several shuffles at the same time
        jobs = [self._job(task, samples[task.group_id], engine, storage, reduces) for task in large]
        known = bounded_columns(self.schema) | LINEAGE_LEAVES
        by_group = {task.group_id: task for task in large}
        with closing(engine.shuffle(jobs, storage, cancel=cancel, max_parallelism=most)) as shuffles:
            for shuffle in shuffles:
                yield shuffled(by_group[shuffle.group_id], shuffle, known)

    def _samples(self, engine: Engine, storage: StorageAccess, cancel: CancelToken) -> dict[int, list[SampleResult]]:
        cores = engine.resources.cores
        each = max(1, -(-2 * cores // len(self.tasks)))
        tasks = [part for task in self.tasks for part in sample_tasks(task, each)]
        found: dict[int, list[SampleResult]] = {}
        run = engine.run(tasks, storage, cancel=cancel, max_parallelism=self.options.max_parallelism)
        with closing(run) as results:
            for result in results:
                assert isinstance(result, SampleResult)
                found.setdefault(result.group_id, []).append(result)
        return found

    def _job(
        self, task: Task, samples: Sequence[SampleResult], engine: Engine, storage: StorageAccess, reduces: int
    ) -> ShuffleJob:
        cores = engine.resources.cores
        limit = self.options.inline_delete_size
        cuts = with_delete_contents(cut_tasks(task, cores), storage, per_task=limit)
        each = cores_of_task(cores, reduces)
        try:
            job = shuffle_job(task, cuts, samples, cores=each, memory_bytes=_memory_of_task(engine))
        except KernelFailure as failure:  # kernels divide the sample, here and not on a worker
            raise error_of(failure) from failure
        return replace(job, scratch=scratch_need(task, samples))


def _memory_of_task(engine: Engine) -> int:
    """Returns how much memory rows may take in one task, which holds them a few times while it sorts and writes."""
    return int(engine.resources.memory_gb * GB / max(1, engine.resources.cores) / _COPIES)
