"""A short load test of a real service, on each kind of store. `make bench-load` runs the long one."""

from pathlib import Path

import pytest
from benchmarks.load import Load, measure


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_no_job_is_lost_or_doubled_under_load(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    redis = request.getfixturevalue("redis_server") if store == "redis" else None
    patient = (("TIDYBERG_SERVER__MAX_WAIT_SECONDS", "60"),)  # a busy machine would refuse some
    load = Load(rate=100, seconds=3, connections=50, workers=1, tables=5, environment=patient)
    outcome = measure(tmp_path, load, redis.url if redis else None)
    assert outcome.problems() == []
    assert len(outcome.kept) == load.submissions
