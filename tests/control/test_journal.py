"""A job that lost its table cannot change what its successor recorded about it [I7]."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.job_records import HERE, job
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.errors import Conflict
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


@pytest.mark.parametrize(("ttl_ms", "seconds", "asked"), [(60_000, 0.25, 4), (500, 0.0625, 8)])
def test_a_job_that_checks_often_asks_the_store_only_now_and_then(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, ttl_ms: int, seconds: float, asked: int
) -> None:
    """At most once a second, and several times in the time of a lease."""
    now, times = [1000.0], []
    renew = store.renew

    def counted(table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        times.append(now[0])
        return renew(table_uuid, job_id, now_ms=now_ms, ttl_ms=ttl_ms)

    monkeypatch.setattr(store, "renew", counted)
    monkeypatch.setattr("tidyberg.control.lease.time.monotonic", lambda: now[0])
    mine = replace(job("a"), table_uuid="t")
    assert store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10) is None
    record = JobRecord(store, mine, Lease(store, mine, HERE, lambda: 0, ttl_ms=ttl_ms), scrub=str)
    for _ in range(16):
        record.check_ownership(unless_within=1.0)
        now[0] += seconds
    assert len(times) == asked

    assert store.acquire("t", "b", HERE, now_ms=10**6, ttl_ms=10) is None
    now[0] += 1.0
    with pytest.raises(Conflict):
        record.check_ownership(unless_within=1.0)
