"""Each I/O call of a job that sorts by a shuffle goes wrong in turn: committed once or not at all, nothing is left."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.events_table import options
from tests.builders.sorted_plans import shuffle_small_groups
from tests.faults.lab import EVERYTHING, PARTITIONS, Lab, check
from tests.faults.layer import Layer, Wire, at, choose
from tests.seed import SEED
from tidyberg.execute.kernel.range_sort.merge import MergeRanges
from tidyberg.model.options import Strategy
from tidyberg.model.shuffle import ArrivedChunks, ShuffleAttempt
from tidyberg.model.task import TaskResult

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("format_version", "boundaries"), [(2, None), (3, None), (3, "3")])
def test_a_job_that_sorts_ends_committed_once_or_untouched_whichever_call_fails(
    tmp_path: Path, format_version: int, boundaries: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffle_small_groups(monkeypatch)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    merged: list[int | None] = []
    reduce = MergeRanges.reduce

    def counted(task: MergeRanges, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> TaskResult:
        merged.append(task.task.part)
        return reduce(task, chunks, attempt)

    monkeypatch.setattr(MergeRanges, "reduce", counted)
    how = replace(options(), strategy=Strategy.SORT, sort="amount desc, id", max_overlap_depth=1, boundaries=boundaries)
    files = PARTITIONS if boundaries is None else 2 * PARTITIONS  # each partition is cut once
    lab = Lab(tmp_path / "lab", format_version, how, live_files=files)
    recorded = lab.compact()
    assert recorded.result == "committed"
    assert merged
    rng = random.Random(SEED)
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else rng))
    # What is done before and after a task is the same as in any job.
    of_tasks = [fault for fault in faults if fault[0].wire is Wire.KERNEL]
    ends: Counter[int] = Counter()
    for call, kind in of_tasks if EVERYTHING else rng.sample(of_tasks, 8):
        lab.restore()
        ends[check(lab, lab.compact(Layer(at(call, kind))), (call, kind))] += 1
        assert not list(scratch.glob("tidyberg-shuffle-*/*/*"))
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends
