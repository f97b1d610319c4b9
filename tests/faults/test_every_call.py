"""Each I/O call of a job goes wrong in turn: the table was committed to once or not at all, and nothing is left.

`make test` lets every other call go wrong in one way that the seed picks, on one of the tables, and some calls of jobs
with several commits; with TEST_LONG every call goes wrong in every way on all of them.
"""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.events_table import options
from tests.faults.lab import EVERYTHING, Lab, check
from tests.faults.layer import Call, Kind, Layer, Wire, at, choose
from tests.seed import SEED
from tidyberg.model.options import RewriteMode

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes

VERSIONS = (2, 3)
COMMIT = Call(Wire.CATALOG, "commit", "", 0)


def chosen(recorded: Layer, lab: Lab) -> list[tuple[Call, Kind]]:
    if EVERYTHING:
        return list(choose(recorded.calls, None))
    rng = random.Random(SEED)
    first = VERSIONS.index(lab.format_version) + SEED % 4
    return list(choose(recorded.calls, rng))[first % 4 :: 4]


def sampled(recorded: Layer) -> list[tuple[Call, Kind]]:
    """Of a job with several commits: most of them after the first, for what comes before is as in any job."""
    if EVERYTHING:
        return list(choose(recorded.calls, None))
    rng = random.Random(SEED)
    faults = list(choose(recorded.calls, rng))
    first = [call for call, _ in faults].index(COMMIT)
    return [*rng.sample(faults[:first], 5), *rng.sample(faults[first:], 15)]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_ends_committed_once_or_untouched_whichever_call_fails(tmp_path: Path, version: int) -> None:
    lab = Lab(tmp_path, version)
    recorded = lab.compact()
    assert recorded.result == "committed"
    assert {call.wire for call, _ in recorded.layer.calls} == set(Wire)
    ends: Counter[int] = Counter()
    for call, kind in chosen(recorded.layer, lab):
        lab.restore()
        ends[check(lab, lab.compact(Layer(at(call, kind))), (call, kind))] += 1
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends[1]
    assert ends[0]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("version", VERSIONS if EVERYTHING else [VERSIONS[SEED % len(VERSIONS)]])
@pytest.mark.parametrize("what", ["in chunks", "planned again"])
def test_a_job_of_several_commits_loses_and_repeats_none_whichever_call_fails(
    tmp_path: Path, what: str, version: int
) -> None:
    how = replace(options(), commit_every=1 if what == "in chunks" else None)
    lab = Lab(tmp_path, version, how, commits=2, has_writer=what == "planned again")
    recorded = lab.compact()
    assert recorded.result == "committed"
    assert (recorded.rows != lab.rows) == lab.has_writer
    ends: Counter[int] = Counter()
    for number, (call, kind) in enumerate(sampled(recorded.layer)):
        lab.restore()
        outcome = lab.compact(Layer(at(call, kind)))
        ends[check(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(f"{ends[2]} committed, {ends[1]} in part, {ends[0]} untouched")  # noqa: T201
    assert ends[1]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("where", ["on a disk", "elsewhere"])
def test_a_job_that_copies_ends_committed_once_or_untouched_whichever_call_fails(tmp_path: Path, where: str) -> None:
    how = replace(options(), mode=RewriteMode.COPY)
    lab = Lab(tmp_path, 2, how, has_deletes=False, on_disk=where == "on a disk")
    recorded = lab.compact()
    assert recorded.result == "committed"
    rng = random.Random(SEED)
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else rng))
    # What is done before and after a task is the same as in any job.
    of_tasks = [fault for fault in faults if fault[0].wire is Wire.KERNEL]
    copying = [fault for fault in of_tasks if fault[0].operation == ("copy" if lab.on_disk else "write")]
    assert copying, "bytes were copied"
    ends: Counter[int] = Counter()
    for number, (call, kind) in enumerate(faults if EVERYTHING else [*copying, *rng.sample(of_tasks, 6)]):
        lab.restore()
        outcome = lab.compact(Layer(at(call, kind)))
        ends[check(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends[0]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("died", ["before its commit", "after its commit"])
def test_recovery_can_fail_at_any_call_and_be_repeated(tmp_path: Path, died: str) -> None:
    lab = Lab(tmp_path, VERSIONS[SEED % len(VERSIONS)])
    calls = [call for call, _ in lab.compact().layer.calls]
    last = calls.index(COMMIT) + (died == "after its commit")
    lab.restore()
    assert lab.compact(Layer(at(calls[last], Kind.CRASH))).layer.is_dead
    lab.keep()
    recorded = lab.recover()
    assert recorded.result is not None
    assert ("had committed" if died == "after its commit" else "had not committed") in recorded.result
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else random.Random(SEED)))
    for call, kind in faults if EVERYTHING else faults[SEED % 2 :: 2]:
        lab.restore()
        outcome = lab.recover(Layer(at(call, kind)))
        assert check(lab, outcome, (call, kind)) == (died == "after its commit")
