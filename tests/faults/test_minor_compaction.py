"""A minor compaction ends committed once or untouched whichever call fails, and leaves nothing behind [I6 I7]."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.events_table import options
from tests.faults.lab import EVERYTHING, Lab, check
from tests.faults.layer import Layer, Wire, at, choose
from tests.seed import SEED
from tidyberg.model.options import Strategy

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes

DATA_FILES, VECTORS = 5, 4


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_minor_compaction_ends_committed_once_or_untouched_whichever_call_fails(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 3, options(Strategy.DELETES_ONLY), live_files=DATA_FILES + VECTORS)
    recorded = lab.compact()
    assert recorded.result == "committed"
    assert {call.wire for call, _ in recorded.layer.calls} == set(Wire)
    rng = random.Random(SEED)
    faults = list(choose(recorded.layer.calls, None if EVERYTHING else rng))
    ends: Counter[int] = Counter()
    for number, (call, kind) in enumerate(faults if EVERYTHING else rng.sample(faults, 16)):
        lab.restore()
        outcome = lab.compact(Layer(at(call, kind)))
        ends[check(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(f"{ends[1]} committed, {ends[0]} untouched")  # noqa: T201
    assert ends[0]
