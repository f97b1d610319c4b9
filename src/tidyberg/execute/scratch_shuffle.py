"""Shuffles through a directory that all workers share: first all map tasks run, then all reduce tasks.

An attempt of a map task writes its chunks to a file of its own. Reduce tasks get only the files that results name, so
chunks of attempts that failed are never seen.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from tidyberg.execute.engine import AnyTask, Results, ShuffleResults
from tidyberg.execute.scratch_directories import remove_directory, scratch_directory
from tidyberg.execute.scratch_space import refuse_without_space
from tidyberg.model.shuffle import (
    ScratchMapResult,
    ScratchMapTask,
    ScratchReduceResult,
    ScratchReduceTask,
    ShuffleJob,
    ShuffleResult,
)

_Run = Callable[[Sequence[AnyTask]], Results]


def shuffle_through_scratch(jobs: Sequence[ShuffleJob], run: _Run, parent: str | None = None) -> ShuffleResults:
    """Runs the shuffles one after the other, so that the chunks of only one are on disk."""
    if not jobs:
        return
    with scratch_directory(parent) as scratch:
        refuse_without_space(jobs, scratch.parent)
        for position, job in enumerate(jobs):
            directory = scratch / f"{position:06d}"
            directory.mkdir()
            result = _shuffle(job, directory, run)
            remove_directory(directory)
            yield result


def _shuffle(job: ShuffleJob, directory: Path, run: _Run) -> ShuffleResult:
    maps: dict[int, ScratchMapResult] = {}
    tasks = [
        ScratchMapTask(job.job_id, job.group_id, number, task, len(job.reduces), str(directory))
        for number, task in enumerate(job.maps)
    ]
    with closing(run(tasks)) as results:
        for result in results:
            assert isinstance(result, ScratchMapResult)
            maps[result.number] = result
    reduces: dict[int, ScratchReduceResult] = {}
    merges = [
        ScratchReduceTask(
            job.job_id,
            job.group_id,
            number,
            task,
            tuple(maps[m].files[number] for m in range(len(maps)) if number in maps[m].files),
        )
        for number, task in enumerate(job.reduces)
    ]
    with closing(run(merges)) as results:
        for result in results:
            assert isinstance(result, ScratchReduceResult)
            reduces[result.number] = result
    return ShuffleResult(
        job.job_id,
        job.group_id,
        tuple(maps[number].report for number in range(len(job.maps))),
        tuple(reduces[number].result for number in range(len(job.reduces))),
    )
