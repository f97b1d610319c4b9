"""A compaction that joins ends committed once or untouched whichever call fails, and leaves nothing behind [I6 I7]."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.events_table import options
from tests.faults.lab import EVERYTHING, Lab, check
from tests.faults.layer import Layer, at, choose
from tests.seed import SEED

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_compaction_that_joins_ends_committed_once_or_untouched_whichever_call_fails(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 3, replace(options(), join_delete_size=1))
    recorded = lab.compact()
    assert recorded.result == "committed"
    rng = random.Random(SEED)
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else rng))
    of_joins = [(call, kind) for call, kind in faults if "-j0000" in call.what]
    assert of_joins
    ends: Counter[int] = Counter()
    chosen = faults if EVERYTHING else [*rng.sample(of_joins, 8), *rng.sample(faults, 4)]
    for number, (call, kind) in enumerate(chosen):
        lab.restore()
        outcome = lab.compact(Layer(at(call, kind)))
        ends[check(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends[1]
