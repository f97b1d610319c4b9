"""The job store: jobs survive, and a table belongs to one living job at a time."""

import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidyberg.errors import ConfigurationError
from tidyberg.model.job import CompactionStats, Intent, Job, JobStatus, Owner, Progress, Stage
from tidyberg.model.table import TableRef
from tidyberg.model.task import ColumnFacts, TaskResult, WrittenFile
from tidyberg.record.process import is_alive, this_process
from tidyberg.record.sqlite import SqliteStore
from tidyberg.record.store import Finished

HERE = Owner("here", 1, 1.0)
ELSEWHERE = Owner("elsewhere", 2, 1.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "state" / "jobs.db", lambda owner: True if owner == HERE else None)
    yield opened
    opened.close()


def job(job_id: str = "a", table: str = "db.events", created_ms: int = 1) -> Job:
    return Job(
        job_id=job_id,
        table=TableRef.parse(table, "lab"),
        table_uuid="uuid",
        branch="main",
        strategy="auto",
        options={"target_file_size": 1},
        status=JobStatus.RUNNING,
        stage=Stage.OBSERVE,
        engine="inline",
        created_ms=created_ms,
    )


def test_a_job_comes_back_as_it_was_saved(store: SqliteStore) -> None:
    saved = replace(
        job(),
        owner=HERE,
        progress=Progress(groups_completed=2),
        intent=Intent("a", 7, {1: "s3://bucket/data"}, 4, {1: 2}, 0.5),
        stats=CompactionStats(15, 2, 13, 13, 52428800, 50331648, 2097152, 10, 2340.56, 0),
        notes=("one", "two"),
    )
    store.save(saved)
    assert store.get("a") == saved
    assert store.get("b") is None


def test_jobs_are_found_by_table_newest_first(store: SqliteStore) -> None:
    for number, table in enumerate(["db.events", "db.other", "db.events"]):
        store.save(job(str(number), table, created_ms=number))
    assert [found.job_id for found in store.find(table=TableRef.parse("db.events", "lab"))] == ["2", "0"]
    assert [found.job_id for found in store.find(limit=2)] == ["2", "1"]


def test_unfinished_are_running_jobs_and_unresolved_ones(store: SqliteStore) -> None:
    store.save(job("running"))
    store.save(replace(job("done"), status=JobStatus.SUCCEEDED))
    store.save(replace(job("unknown"), status=JobStatus.FAILED, unresolved=True))
    assert {found.job_id for found in store.find(unfinished=True)} == {"running", "unknown"}


def test_a_table_held_by_a_living_process_stays_held_beyond_its_lease(store: SqliteStore) -> None:
    assert store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10) is None
    assert store.acquire("t", "b", HERE, now_ms=1000, ttl_ms=10) == "a"


def test_a_table_of_a_job_that_ended_is_free_when_the_lease_ends_though_its_process_lives(store: SqliteStore) -> None:
    """It could not release the table when it ended, and a service lives on."""
    assert store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10) is None
    store.save(job("a"))
    assert store.acquire("t", "b", HERE, now_ms=11, ttl_ms=10) == "a"
    store.save(replace(job("a"), status=JobStatus.FAILED))
    assert store.acquire("t", "b", HERE, now_ms=9, ttl_ms=10) == "a"
    assert store.acquire("t", "b", HERE, now_ms=11, ttl_ms=10) is None


def test_a_table_held_elsewhere_is_free_when_the_lease_ends(store: SqliteStore) -> None:
    assert store.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10) is None
    assert store.acquire("t", "b", HERE, now_ms=5, ttl_ms=10) == "a"
    assert store.acquire("t", "b", HERE, now_ms=11, ttl_ms=10) is None


def test_who_lost_the_lease_cannot_renew_it(store: SqliteStore) -> None:
    store.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10)
    assert store.renew("t", "a", now_ms=5, ttl_ms=10)
    store.acquire("t", "b", HERE, now_ms=100, ttl_ms=10)
    assert not store.renew("t", "a", now_ms=101, ttl_ms=10)
    store.release("t", "a")  # releases nothing of b's
    assert store.renew("t", "b", now_ms=102, ttl_ms=10)


def test_a_table_held_by_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", lambda _: False)
    store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10**9)
    assert store.acquire("t", "b", HERE, now_ms=1, ttl_ms=10) is None
    store.close()


def test_only_one_of_many_gets_the_table(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "jobs.db", lambda _: True) for _ in range(8)]
    winners: list[int] = []

    def race(number: int) -> None:
        if stores[number].acquire("t", str(number), HERE, now_ms=0, ttl_ms=1000) is None:
            winners.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert len(winners) == 1


def test_noted_paths_are_kept_until_forgotten(store: SqliteStore) -> None:
    store.note_paths("a", ["x", "y"])
    store.note_paths("a", ["x"])
    assert store.paths("a") == ["x", "y"]
    store.forget_paths("a")
    assert store.paths("a") == []


def finished(group_id: int, **changes: Any) -> Finished:
    file = WrittenFile("x", 9, 1, {1: 4}, {1: 1}, {1: 0}, {}, {1: b"\xff\x00"}, {1: b"\x80"}, (4, 8), **changes)
    facts = {1: ColumnFacts(1, None, b"\xfe", None)}
    return Finished(TaskResult("a", group_id, 0, (file,), 1, 0, 1, 7, 9, 0.5, 3, facts, facts, "ab", ("w",)), 5)


def test_finished_groups_come_back_byte_for_byte(store: SqliteStore) -> None:
    store.save_finished("a", finished(1))
    store.save_finished("a", finished(0))
    assert store.finished("a") == [finished(0), finished(1)]
    assert store.finished("b") == []


def test_partition_values_that_would_lose_their_type_are_not_kept(store: SqliteStore) -> None:
    store.save_finished("a", finished(1, partition=(Decimal("1.50"),)))
    assert store.finished("a") == []


def test_what_is_too_large_is_not_kept(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.record.documents.MOST_RESULT_BYTES", 10)
    monkeypatch.setattr("tidyberg.record.documents.MOST_PLAN_BYTES", 10)
    store.save_finished("a", finished(1))
    store.save_plan("a", "{}")
    store.save_plan("a", "a plan of more than ten bytes")
    assert store.finished("a") == []
    assert store.plan("a") is None


def test_only_who_holds_the_table_may_withdraw_finished_groups(store: SqliteStore) -> None:
    store.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10)
    for group_id in range(3):
        store.save_finished("a", finished(group_id))
    assert store.withdraw("t", "a", "a", [1])
    assert [done.result.group_id for done in store.finished("a")] == [0, 2]
    store.acquire("t", "b", HERE, now_ms=100, ttl_ms=10)
    assert not store.withdraw("t", "a", "a")
    assert len(store.finished("a")) == 2
    store.forget("a")
    assert store.finished("a") == []


def test_a_store_that_cannot_be_opened_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"store\.path"):
        SqliteStore(tmp_path / "file" / "jobs.db", is_alive)


def test_a_store_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("not a database, but long enough to be one " * 100)
    with pytest.raises(ConfigurationError, match=r"cannot be opened"):
        SqliteStore(tmp_path / "jobs.db", is_alive)


def test_this_process_is_alive_and_its_pid_in_another_life_is_not() -> None:
    assert is_alive(this_process()) is True
    assert is_alive(replace(this_process(), started=1.5)) is False
    assert is_alive(replace(this_process(), host="elsewhere")) is None
    assert is_alive(Owner(this_process().host, 2**22 + 1, 5.0)) is False


def test_sqlite_is_new_enough_for_the_store() -> None:
    assert sqlite3.sqlite_version_info >= (3, 24)
