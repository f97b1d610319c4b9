"""Shuffles through a directory that all workers share: the map tasks of a shuffle run first, then its reduce tasks.

An attempt of a map task writes its chunks to a file of its own. Reduce tasks get only the files that results name, so
chunks of attempts that failed are never seen.

A stage of one shuffle ends when its last task does, and most cores are idle until then. So shuffles that are small
together form a batch, whose stages run together. The reduce tasks of a batch run with the map tasks of the next one.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tidyberg.execute.engine import AnyTask, Results, ShuffleResults
from tidyberg.execute.scratch_directories import remove_directory, scratch_directory
from tidyberg.execute.scratch_space import free_bytes, refuse_without_space
from tidyberg.model.shuffle import (
    ScratchMapResult,
    ScratchMapTask,
    ScratchReduceResult,
    ScratchReduceTask,
    ShuffleJob,
    ShuffleResult,
)
from tidyberg.model.sizes import GB

_Run = Callable[[Sequence[AnyTask]], Results]
_BYTES_PER_CORE = 2 * GB  # of chunks on disk; enough tasks for a core, and most chunks stay in the page cache
_SHARE_OF_FREE = 0.5  # of the disk, because other processes and the outputs may need the rest
_BYTES_PER_BYTE = 3  # of a shuffle that does not say what it needs: rows in memory, per byte of an input


@dataclass(frozen=True)
class ScratchShuffles:
    """Runs shuffles through a directory. `run` is that of an engine."""

    run: _Run
    parent: str | None = None  # None: the directory for temporary files
    cores: int = 0  # that run tasks; 0: shuffles run one after the other

    def results(self, jobs: Sequence[ShuffleJob]) -> ShuffleResults:
        """Yields the result of each shuffle when its last reduce task has finished. Its chunks are removed then."""
        if not jobs:
            return
        with scratch_directory(self.parent) as scratch:
            refuse_without_space(jobs, scratch.parent)
            limit = min(self.cores * _BYTES_PER_CORE, int(_SHARE_OF_FREE * free_bytes(scratch.parent)))
            waiting = [[_Shuffle(p, jobs[p], scratch) for p in batch] for batch in batches(jobs, limit // 2)]
            mapped: list[_Shuffle] = []
            while waiting or mapped:
                beginning: list[_Shuffle] = []
                if waiting and (not mapped or _bytes_of(mapped) + _bytes_of(waiting[0]) <= limit):
                    beginning = waiting.pop(0)
                yield from self._stage(mapped, beginning)
                mapped = beginning

    def _stage(self, mapped: Sequence["_Shuffle"], beginning: Sequence["_Shuffle"]) -> ShuffleResults:
        """Runs the reduce tasks of some shuffles together with the map tasks of others."""
        shuffles = {shuffle.position: shuffle for shuffle in (*mapped, *beginning)}
        reduces: list[AnyTask] = [task for shuffle in mapped for task in shuffle.reduce_tasks()]
        maps: list[AnyTask] = [task for shuffle in beginning for task in shuffle.map_tasks()]
        with closing(self.run([*reduces, *maps])) as results:
            for result in results:
                shuffle = shuffles[result.group_id]
                if isinstance(result, ScratchMapResult):
                    shuffle.maps[result.number] = result
                    continue
                assert isinstance(result, ScratchReduceResult)
                shuffle.reduces[result.number] = result
                if len(shuffle.reduces) == len(shuffle.job.reduces):
                    remove_directory(shuffle.directory)
                    yield shuffle.result()


def batches(jobs: Sequence[ShuffleJob], limit: int) -> list[list[int]]:
    """Returns the positions of shuffles that are small together, in their order. A larger one is alone."""
    found: list[list[int]] = []
    size = 0
    for position, job in enumerate(jobs):
        more = likely_bytes(job)
        if not found or size + more > limit:
            found.append([])
            size = 0
        found[-1].append(position)
        size += more
    return found


def likely_bytes(job: ShuffleJob) -> int:
    if job.scratch is not None:
        return job.scratch.likely
    return _BYTES_PER_BYTE * sum(file.bytes_taken for task in job.maps for file in task.inputs)


@dataclass
class _Shuffle:
    """One shuffle and the results of its tasks so far. Its position tells its tasks from those of the others."""

    position: int
    job: ShuffleJob
    parent: Path
    maps: dict[int, ScratchMapResult] = field(default_factory=dict)
    reduces: dict[int, ScratchReduceResult] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.parent / f"{self.position:06d}"

    @property
    def bytes(self) -> int:
        """The size of the chunks, or an estimate before the map tasks have run."""
        if not self.maps:
            return likely_bytes(self.job)
        files = (file for result in self.maps.values() for file in result.files.values())
        return sum(size for file in files for _, _, size in file.places)

    def map_tasks(self) -> list[ScratchMapTask]:
        self.directory.mkdir()
        job = self.job
        return [
            ScratchMapTask(job.job_id, self.position, number, task, len(job.reduces), str(self.directory))
            for number, task in enumerate(job.maps)
        ]

    def reduce_tasks(self) -> list[ScratchReduceTask]:
        job = self.job
        maps = [self.maps[number] for number in range(len(job.maps))]
        return [
            ScratchReduceTask(
                job.job_id,
                self.position,
                number,
                task,
                tuple(result.files[number] for result in maps if number in result.files),
            )
            for number, task in enumerate(job.reduces)
        ]

    def result(self) -> ShuffleResult:
        job = self.job
        return ShuffleResult(
            job.job_id,
            job.group_id,
            tuple(self.maps[number].report for number in range(len(job.maps))),
            tuple(self.reduces[number].result for number in range(len(job.reduces))),
        )


def _bytes_of(shuffles: Sequence[_Shuffle]) -> int:
    return sum(shuffle.bytes for shuffle in shuffles)
