"""The job store: jobs survive, and a table belongs to one living job at a time."""

import threading
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.builders.job_records import ELSEWHERE, HERE, job
from tests.builders.job_stores import Open
from tidyberg.model.job import CompactionStats, Intent, JobStatus, Progress
from tidyberg.model.table import TableRef
from tidyberg.model.task import ColumnFacts, TaskResult, WrittenFile
from tidyberg.record.records import Records
from tidyberg.record.store import Finished, JobStore


@pytest.fixture
def store(records: Records) -> JobStore:
    return records.store


def test_a_job_comes_back_as_it_was_saved(store: JobStore) -> None:
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


def test_jobs_are_found_by_table_newest_first(store: JobStore) -> None:
    for number, table in enumerate(["db.events", "db.other", "db.events"]):
        store.save(job(str(number), table, created_ms=number))
    assert [found.job_id for found in store.find(table=TableRef.parse("db.events", "lab"))] == ["2", "0"]
    assert [found.job_id for found in store.find(limit=2)] == ["2", "1"]


def test_unfinished_are_running_jobs_and_unresolved_ones(store: JobStore) -> None:
    store.save(job("running"))
    store.save(replace(job("done"), status=JobStatus.SUCCEEDED))
    store.save(replace(job("unknown"), status=JobStatus.FAILED, unresolved=True))
    assert {found.job_id for found in store.find(unfinished=True)} == {"running", "unknown"}


def test_a_table_held_by_a_living_process_is_free_when_the_lease_ends(store: JobStore) -> None:
    """It may be stopped for hours, or could not release the table when its job ended."""
    assert store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10) is None
    assert store.acquire("t", "b", HERE, now_ms=9, ttl_ms=10) == "a"
    assert store.acquire("t", "b", HERE, now_ms=10, ttl_ms=10) is None


def test_a_job_that_lost_its_table_records_nothing(store: JobStore) -> None:
    store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10)
    mine = replace(job("a"), table_uuid="t")
    assert store.save(mine, holder="a")
    store.save_finished("a", finished(0), table_uuid="t")
    store.acquire("t", "b", HERE, now_ms=100, ttl_ms=10)
    settled = replace(mine, status=JobStatus.FAILED)
    assert store.save(settled, holder="b"), "who has the table settles the job that lost it"
    assert not store.save(mine, holder="a")
    store.save_finished("a", finished(1), table_uuid="t")
    assert store.get("a") == settled
    assert store.finished("a") == [finished(0)]
    store.release("t", "b")
    assert not store.save(mine, holder="a"), "a free table is not a's either"


def test_a_table_held_on_another_machine_is_free_when_the_lease_ends(store: JobStore) -> None:
    assert store.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10) is None
    assert store.acquire("t", "b", HERE, now_ms=5, ttl_ms=10) == "a"
    assert store.acquire("t", "b", HERE, now_ms=11, ttl_ms=10) is None


def test_a_lost_lease_cannot_be_renewed(store: JobStore) -> None:
    store.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10)
    assert store.renew("t", "a", now_ms=5, ttl_ms=10)
    store.acquire("t", "b", HERE, now_ms=100, ttl_ms=10)
    assert not store.renew("t", "a", now_ms=101, ttl_ms=10)
    store.release("t", "a")  # releases nothing of b's
    assert store.renew("t", "b", now_ms=102, ttl_ms=10)


def test_a_table_held_by_a_dead_process_is_free_at_once(open_records: Open) -> None:
    store = open_records(lambda _: False).store
    store.acquire("t", "a", HERE, now_ms=0, ttl_ms=10**9)
    assert store.acquire("t", "b", HERE, now_ms=1, ttl_ms=10) is None


def test_only_one_of_many_gets_the_table(open_records: Open) -> None:
    stores = [open_records(lambda _: True).store for _ in range(8)]
    winners: list[int] = []

    def race(number: int) -> None:
        if stores[number].acquire("t", str(number), HERE, now_ms=0, ttl_ms=1000) is None:
            winners.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1


def test_noted_paths_are_kept_until_forgotten(store: JobStore) -> None:
    store.note_paths("a", ["x", "y"])
    store.note_paths("a", ["x"])
    assert store.paths("a") == ["x", "y"]
    store.forget_paths("a")
    assert store.paths("a") == []


def finished(group_id: int, **changes: Any) -> Finished:
    file = WrittenFile("x", 9, 1, {1: 4}, {1: 1}, {1: 0}, {}, {1: b"\xff\x00"}, {1: b"\x80"}, (4, 8), **changes)
    facts = {1: ColumnFacts(1, None, b"\xfe", None)}
    return Finished(TaskResult("a", group_id, 0, (file,), 1, 0, 1, 7, 9, 0.5, 3, facts, facts, "ab", ("w",)), 5)


def test_finished_groups_come_back_byte_for_byte(store: JobStore) -> None:
    store.save_finished("a", finished(1))
    store.save_finished("a", finished(0))
    assert store.finished("a") == [finished(0), finished(1)]
    assert store.finished("b") == []


def test_partition_values_that_would_lose_their_type_are_not_kept(store: JobStore) -> None:
    store.save_finished("a", finished(1, partition=(Decimal("1.50"),)))
    assert store.finished("a") == []


def test_plans_and_results_that_are_too_large_are_not_kept(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.record.documents.MOST_RESULT_BYTES", 10)
    monkeypatch.setattr("tidyberg.record.documents.MOST_PLAN_BYTES", 10)
    store.save_finished("a", finished(1))
    store.save_plan("a", "{}")
    store.save_plan("a", "a plan of more than ten bytes")
    assert store.finished("a") == []
    assert store.plan("a") is None


def test_only_the_holder_of_the_table_may_withdraw_finished_groups(store: JobStore) -> None:
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


def test_what_ended_long_ago_is_forgotten_with_all_that_is_kept_of_it(store: JobStore) -> None:
    for number, job_id in enumerate(["old", "older", "new"]):
        store.save(
            replace(job(job_id), status=JobStatus.SUCCEEDED, created_ms=3 - number, finished_ms=[20, 10, 30][number])
        )
        store.note_paths(job_id, ["x"])
        store.save_plan(job_id, "{}")
        store.save_finished(job_id, finished(0))
    assert store.prune(ended_before_ms=30) == 2
    assert [kept.job_id for kept in store.find()] == ["new"]
    for job_id, is_kept in {"old": False, "new": True}.items():
        assert [bool(store.get(job_id)), bool(store.paths(job_id)), bool(store.plan(job_id))] == [is_kept] * 3
        assert bool(store.finished(job_id)) is is_kept


def test_jobs_are_deleted_in_small_steps_oldest_first(store: JobStore) -> None:
    for number in range(5):
        store.save(replace(job(str(number), created_ms=number), status=JobStatus.FAILED, finished_ms=10 + number))
    assert store.prune(ended_before_ms=100, at_most=2) == 2
    assert [kept.job_id for kept in store.find()] == ["4", "3", "2"]


def test_running_and_unresolved_jobs_and_holders_of_tables_are_never_deleted(store: JobStore) -> None:
    store.save(job("running"))
    store.save(replace(job("unknown"), status=JobStatus.FAILED, unresolved=True, finished_ms=2))
    store.save(replace(job("holds"), status=JobStatus.SUCCEEDED, finished_ms=2))
    store.acquire("t", "holds", ELSEWHERE, now_ms=0, ttl_ms=10)
    assert store.prune(ended_before_ms=100) == 0
    assert len(store.find()) == 3
    store.release("t", "holds")
    assert store.prune(ended_before_ms=100) == 1


def test_tables_of_one_name_in_two_catalogs_are_two(store: JobStore) -> None:
    store.save(job("a"))
    assert store.find(table=TableRef.parse("db.events", "other")) == []


def test_a_job_is_replaced_by_what_is_saved_later(store: JobStore) -> None:
    store.save(job("a"))
    store.save(replace(job("a"), status=JobStatus.CANCELLED, submission_id="s"))
    assert [found.status for found in store.find()] == [JobStatus.CANCELLED]
    assert store.find(unfinished=True) == []


def test_a_plan_is_replaced_and_forgotten(store: JobStore) -> None:
    store.save_plan("a", "one")
    store.save_plan("a", "two")
    assert store.plan("a") == "two"
    store.forget("a")
    assert store.plan("a") is None


def test_every_connection_sees_what_one_wrote(open_records: Open) -> None:
    first, second = open_records().store, open_records().store
    first.save(job("a"))
    first.note_paths("a", ["x"])
    assert second.get("a") == first.get("a")
    assert second.paths("a") == ["x"]
    assert second.acquire("t", "a", ELSEWHERE, now_ms=0, ttl_ms=10) is None
    assert first.acquire("t", "b", ELSEWHERE, now_ms=1, ttl_ms=10) == "a"
    assert first.renew("t", "a", now_ms=2, ttl_ms=10)
