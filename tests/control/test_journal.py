"""A job that lost its table cannot change what its successor recorded about it [I7]."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.job_records import HERE, job
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.model.job import JobStatus, Stage
from tidyberg.record.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "jobs.db", lambda _: None)) as opened:
        yield opened


def test_a_job_that_lost_its_table_no_longer_changes_its_record(store: SqliteStore) -> None:
    mine = replace(job("a"), table_uuid="t")
    assert store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10) is None
    lease = Lease(store, mine, HERE, lambda: 0)
    record = JobRecord(store, mine, lease, scrub=str)
    record.update(stage=Stage.PLAN)
    assert not lease.lost

    assert store.acquire("t", "b", HERE, now_ms=100, ttl_ms=10) is None
    settled = replace(mine, status=JobStatus.FAILED)
    assert store.save(settled, holder="b")
    record.update(stage=Stage.EXECUTE)
    assert store.get("a") == settled
    assert lease.lost
