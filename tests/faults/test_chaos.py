"""One request in ten to the catalog and one in twenty to storage fails, over many jobs."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.lab import Lab
from tests.faults.layer import Layer, Wire, at_random
from tests.seed import SEED

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes

JOBS = int(os.environ.get("TEST_CHAOS_JOBS", "500" if os.environ.get("TEST_LONG") else "30"))
RATES = {Wire.CATALOG: 0.10, Wire.FILES: 0.05, Wire.KERNEL: 0.05}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_jobs_and_recovery_succeed_while_requests_keep_failing(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    labs = [Lab(tmp_path / str(version), version) for version in (2, 3)]
    ends: Counter[str] = Counter()
    for number in range(JOBS):
        lab = labs[number % 2]
        lab.restore()
        # Few jobs get through at the full rates: every second one meets a tenth of them.
        scale = 1.0 if number % 4 < 2 else 0.1
        decide = at_random(rng, {wire: rate * scale for wire, rate in RATES.items()})
        outcome = lab.compact(Layer(decide))
        said = outcome.result or type(outcome.error).__name__
        lab.recover(Layer(decide))
        try:
            committed = lab.check(outcome)
        except AssertionError as problem:
            raise AssertionError(f"seed {SEED}, job {number}, which ended with {said}: {problem}") from outcome.error
        ends[f"{said}, {'committed' if committed else 'untouched'}"] += 1
    print(dict(ends))  # noqa: T201
    assert ends["committed, committed"]
