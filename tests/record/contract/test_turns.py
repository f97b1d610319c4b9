"""The order of claims: tenants take turns, priorities count within a tenant, a table has one running job."""

from dataclasses import replace

import pytest

from tests.builders.job_stores import Open
from tests.builders.submissions import MANY, fill, submission, take, take_all, token
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Submission
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue
from tidyberg.record.records import Records


@pytest.fixture
def queue(records: Records) -> JobQueue:
    return records.queue


def end(queue: JobQueue, claimed: Submission, now_ms: int = 0) -> None:
    assert queue.finish(claimed.job_id, token(claimed), JobStatus.SUCCEEDED, now_ms=now_ms, changes={})


def test_an_empty_queue_gives_nothing(queue: JobQueue) -> None:
    assert take_all(queue) == []


def test_the_first_to_arrive_is_the_first_to_run_whatever_their_clocks_said(queue: JobQueue) -> None:
    queue.submit(submission("b", "db.one", created_ms=9))
    queue.submit(submission("a", "db.two", created_ms=5))
    assert take_all(queue) == ["b", "a"]


def test_a_higher_priority_goes_first_within_its_tenant(queue: JobQueue) -> None:
    for job_id, priority in {"low": -5, "high": 7, "normal": 0, "high-too": 7}.items():
        queue.submit(submission(job_id, f"db.{job_id}", priority=priority))
    assert take_all(queue) == ["high", "high-too", "normal", "low"]


def test_a_higher_priority_does_not_pass_another_tenants_turn(queue: JobQueue) -> None:
    for number in range(3):
        queue.submit(submission(f"loud-{number}", f"db.l{number}", "loud", priority=100))
    queue.submit(submission("quiet", "db.q", "quiet", priority=-100))
    assert take_all(queue)[:2] == ["loud-0", "quiet"]


def test_a_tenant_with_fewer_running_goes_first(queue: JobQueue) -> None:
    fill(queue, *[(f"a{n}", f"a{n}", "a") for n in range(4)], *[(f"b{n}", f"b{n}", "b") for n in range(2)])
    assert take_all(queue) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_fewer_running_jobs_count_more_than_a_longer_wait(queue: JobQueue) -> None:
    fill(queue, ("a1", "t", "a"), ("a2", "u", "a"), ("a3", "v", "a"))
    assert [take(queue).job_id for _ in range(2)] == ["a1", "a2"]
    fill(queue, ("b1", "w", "b"), ("b2", "x", "b"))
    assert take_all(queue) == ["b1", "b2", "a3"]


def test_with_equally_many_running_jobs_the_tenant_served_longest_ago_goes_first(queue: JobQueue) -> None:
    """With one slot, tenants take turns, however many one of them has waiting."""
    fill(queue, *[(f"a{n}", f"a{n}", "a") for n in range(4)], ("b0", "b0", "b"), ("c0", "c0", "c"), ("b1", "b1", "b"))
    order = []
    for _ in range(7):
        claimed = take(queue, limits=Limits(running=1))
        order.append(claimed.job_id)
        end(queue, claimed)
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_a_tenant_that_comes_back_waits_no_longer_than_others(queue: JobQueue) -> None:
    fill(queue, ("a0", "a0", "a"))
    end(queue, take(queue))
    fill(queue, ("a1", "a1", "a"), ("b0", "b0", "b"))
    assert take_all(queue) == ["b0", "a1"]


def test_a_table_has_at_most_one_running_job(queue: JobQueue) -> None:
    fill(queue, ("first", "t", "a"), ("second", "t", "a"), ("theirs", "t", "b"), ("other", "u", "a"))
    first = take(queue)
    assert (first.job_id, take_all(queue)) == ("first", ["other"])
    end(queue, first)
    assert take_all(queue) == ["theirs"]


def test_tables_of_one_name_in_two_catalogs_or_namespaces_run_at_once(queue: JobQueue) -> None:
    places = [("x", ("a",)), ("y", ("a",)), ("x", ("a.b",)), ("x", ("a", "b"))]
    for number, (catalog, namespace) in enumerate(places):
        queue.submit(replace(submission(str(number)), table=TableRef(catalog, namespace, "t")))
    assert take_all(queue) == ["0", "1", "2", "3"]


def test_the_highest_priority_of_a_busy_table_goes_first_when_it_is_free(queue: JobQueue) -> None:
    fill(queue, ("first", "t", "a"), ("second", "t", "a"))
    first = take(queue)
    queue.submit(submission("urgent", "db.t", "a", priority=50))
    end(queue, first)
    urgent = take(queue)
    end(queue, urgent)
    assert (urgent.job_id, take(queue).job_id) == ("urgent", "second")


def test_the_limit_of_running_jobs_is_kept(queue: JobQueue) -> None:
    fill(queue, *[(str(n), str(n), str(n)) for n in range(5)])
    limits = Limits(running=3)
    first = take(queue, limits=limits)
    assert len(take_all(queue, limits=limits)) == 2
    end(queue, first)
    assert len(take_all(queue, limits=limits)) == 1
    assert take_all(queue, limits=Limits(running=0)) == []


def test_no_tenant_runs_more_than_its_limit(queue: JobQueue) -> None:
    fill(queue, *[(f"{tenant}{n}", f"{tenant}{n}", tenant) for tenant in "abc" for n in range(4)])
    limits = Limits(running=100, running_per_tenant=2, of_tenant={"a": 3, "b": 0})
    taken = take_all(queue, limits=limits)
    assert sorted(taken) == ["a0", "a1", "a2", "c0", "c1"]


def test_a_postponed_submission_waits_for_its_time_and_delays_no_other(queue: JobQueue) -> None:
    queue.submit(submission("later", "db.t", priority=100, not_before_ms=50))
    queue.submit(submission("now", "db.t"))
    queue.submit(submission("next", "db.t"))
    now = take(queue, now_ms=49)
    end(queue, now)
    assert (now.job_id, take(queue, now_ms=50).job_id) == ("now", "later")


def test_a_claim_names_its_worker_and_start_time(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "a"))
    claimed = queue.claim("me", now_ms=70, ttl_ms=30, limits=MANY)
    assert claimed is not None
    assert claimed.claim is not None
    assert (claimed.claim.worker, claimed.claim.expires_ms) == ("me", 100)
    assert (claimed.status, claimed.started_ms, claimed.attempts) == (JobStatus.RUNNING, 70, 1)
    assert queue.submission("a") == claimed


def test_each_claim_has_a_higher_token_than_all_before(queue: JobQueue) -> None:
    fill(queue, *[(str(n), str(n), str(n % 2)) for n in range(3)])
    tokens = [token(take(queue, now_ms=0, ttl_ms=10)) for _ in range(3)]
    tokens += [token(take(queue, now_ms=20, ttl_ms=10)) for _ in range(3)]
    assert tokens == sorted(set(tokens))
    assert tokens[0] > 0


def test_an_expired_claim_goes_to_the_next_worker_before_all_others(queue: JobQueue) -> None:
    queue.submit(submission("lost", "db.t"))
    first = take(queue, now_ms=0, ttl_ms=10)
    queue.submit(submission("urgent", "db.u", "b", priority=100))
    assert queue.claim("other", now_ms=9, ttl_ms=10, limits=Limits(running=1)) is None
    second = take(queue, now_ms=10, limits=Limits(running=1))
    assert (second.job_id, second.attempts, second.started_ms) == ("lost", 1, 0), "to take over costs no attempt"
    assert token(second) > token(first)


def test_of_several_expired_claims_the_first_to_expire_goes_first(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "a"), ("b", "u", "b"))
    assert [take(queue, now_ms=0, ttl_ms=ttl_ms).job_id for ttl_ms in (20, 10)] == ["a", "b"]
    assert [take(queue, now_ms=30, ttl_ms=100).job_id for _ in range(2)] == ["b", "a"]
    assert take_all(queue, now_ms=31) == []


def test_all_replicas_share_one_queue(open_records: Open) -> None:
    first, second = open_records().queue, open_records().queue
    fill(first, ("a", "t", "a"), ("b", "u", "a"), ("c", "v", "a"))
    limits = Limits(running=2)
    assert [take(queue, limits=limits).job_id for queue in (first, second)] == ["a", "b"]
    assert take_all(first, limits=limits) == take_all(second, limits=limits) == []
    assert second.counts() == {("a", JobStatus.RUNNING): 2, ("a", JobStatus.QUEUED): 1}
