"""Only the worker that holds a submission may change it. A submission ends exactly once."""

from dataclasses import replace

import pytest

from tests.builders.submissions import fill, submission, take, take_all, token
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Submission
from tidyberg.record.queue import JobQueue
from tidyberg.record.records import Records


@pytest.fixture
def queue(records: Records) -> JobQueue:
    queue = records.queue
    fill(queue, ("a", "t", "default"))
    return queue


def get(queue: JobQueue, job_id: str = "a") -> Submission:
    found = queue.submission(job_id)
    assert found is not None
    return found


def test_a_heartbeat_keeps_the_claim(queue: JobQueue) -> None:
    mine = token(take(queue, now_ms=0, ttl_ms=10))
    assert queue.beat("a", mine, now_ms=8, ttl_ms=10) == "held"
    assert take_all(queue, now_ms=17) == []
    assert take_all(queue, now_ms=18) == ["a"]


def test_a_late_heartbeat_keeps_a_claim_that_nobody_took_over(queue: JobQueue) -> None:
    mine = token(take(queue, now_ms=0, ttl_ms=10))
    assert queue.beat("a", mine, now_ms=500, ttl_ms=10) == "held"
    assert take_all(queue, now_ms=505) == []


def test_a_worker_that_lost_its_claim_changes_nothing(queue: JobQueue) -> None:
    old = token(take(queue, now_ms=0, ttl_ms=10))
    new = token(take(queue, now_ms=20, ttl_ms=10))
    before = get(queue)
    assert queue.beat("a", old, now_ms=21, ttl_ms=1000) == "lost"
    assert not queue.update("a", old, {"run_id": "x"})
    assert not queue.finish("a", old, JobStatus.SUCCEEDED, now_ms=21, changes={})
    assert not queue.put_back("a", old, not_before_ms=0, reason="x")
    assert get(queue) == before
    assert queue.beat("a", new, now_ms=21, ttl_ms=10) == "held"


def test_waiting_and_unknown_submissions_have_no_holder(queue: JobQueue) -> None:
    for job_id in ("a", "unknown"):
        assert queue.beat(job_id, 1, now_ms=0, ttl_ms=10) == "lost"
        assert not queue.update(job_id, 1, {"run_id": "x"})
        assert not queue.finish(job_id, 1, JobStatus.FAILED, now_ms=0, changes={})
        assert not queue.put_back(job_id, 1, not_before_ms=0, reason="x")
    assert get(queue) == submission("a", "db.t")


def test_updates_of_a_running_submission_are_kept(queue: JobQueue) -> None:
    mine = token(take(queue))
    assert queue.update("a", mine, {"run_id": "run", "estimated_seconds": 2.5, "estimated_dollars": 0.1})
    kept = get(queue)
    assert (kept.run_id, kept.estimated_seconds, kept.estimated_dollars) == ("run", 2.5, 0.1)
    assert queue.beat("a", mine, now_ms=1, ttl_ms=10) == "held"


def test_fields_of_the_request_and_of_the_queue_cannot_be_changed(queue: JobQueue) -> None:
    mine = token(take(queue))
    for name in ("status", "claim", "attempts", "tenant", "priority", "job_id", "options", "not_before_ms", "nothing"):
        with pytest.raises(ValueError, match=name):
            queue.update("a", mine, {name: None})
    with pytest.raises(ValueError, match="running"):
        queue.finish("a", mine, JobStatus.RUNNING, now_ms=0, changes={})
    assert token(get(queue)) == mine


def test_a_submission_ends_once(queue: JobQueue) -> None:
    mine = token(take(queue, now_ms=5))
    done = {"outcome": "committed", "dollars": 0.5}
    assert queue.finish("a", mine, JobStatus.SUCCEEDED, now_ms=9, changes=done)
    ended = get(queue)
    assert (ended.status, ended.finished_ms, ended.claim) == (JobStatus.SUCCEEDED, 9, None)
    assert (ended.outcome, ended.dollars, ended.started_ms) == ("committed", 0.5, 5)
    assert not queue.finish("a", mine, JobStatus.FAILED, now_ms=10, changes={})
    assert queue.beat("a", mine, now_ms=10, ttl_ms=10) == "lost"
    assert take_all(queue, now_ms=10**6) == []
    assert get(queue) == ended


def test_a_submission_that_is_put_back_without_fault_keeps_its_attempts(queue: JobQueue) -> None:
    first = take(queue, now_ms=5)
    assert queue.put_back("a", token(first), not_before_ms=6, reason="stopped", attempts=first.attempts - 1)
    assert get(queue).attempts == 0
    assert take(queue, now_ms=6).attempts == 1


def test_a_submission_that_is_put_back_keeps_its_reason_and_attempts(queue: JobQueue) -> None:
    first = take(queue, now_ms=5)
    assert queue.put_back("a", token(first), not_before_ms=100, reason="the catalog is away")
    waits = get(queue)
    assert (waits.status, waits.claim, waits.attempts) == (JobStatus.QUEUED, None, 1)
    assert (waits.not_before_ms, waits.error) == (100, "the catalog is away")
    assert take_all(queue, now_ms=99) == []
    again = take(queue, now_ms=100)
    assert (again.attempts, again.error, again.started_ms) == (2, None, 5)
    assert token(again) > token(first)
    assert not queue.finish("a", token(first), JobStatus.FAILED, now_ms=101, changes={})


def test_a_submission_that_is_put_back_frees_its_table(queue: JobQueue) -> None:
    fill(queue, ("b", "t", "default"))
    queue.put_back("a", token(take(queue)), not_before_ms=10, reason="x")
    assert take_all(queue, now_ms=1) == ["b"]


def test_a_submission_that_is_put_back_keeps_its_place(queue: JobQueue) -> None:
    queue.put_back("a", token(take(queue)), not_before_ms=10, reason="x")
    fill(queue, ("b", "t", "default"))
    assert take_all(queue, now_ms=10) == ["a"]


def test_a_waiting_submission_ends_at_once_when_cancelled(queue: JobQueue) -> None:
    fill(queue, ("b", "t", "default"))
    ended = queue.cancel("a", now_ms=7)
    assert ended is not None
    assert (ended.status, ended.finished_ms) == (JobStatus.CANCELLED, 7)
    assert get(queue) == ended
    assert take_all(queue) == ["b"]


def test_a_submission_that_was_put_back_ends_at_once_when_cancelled(queue: JobQueue) -> None:
    queue.put_back("a", token(take(queue)), not_before_ms=100, reason="x")
    queue.cancel("a", now_ms=7)
    assert get(queue).status is JobStatus.CANCELLED
    assert take_all(queue, now_ms=200) == []


def test_a_running_submission_is_asked_to_stop_when_cancelled(queue: JobQueue) -> None:
    mine = token(take(queue))
    asked = queue.cancel("a", now_ms=7)
    assert asked is not None
    assert (asked.status, asked.cancel_requested) == (JobStatus.RUNNING, True)
    assert queue.beat("a", mine, now_ms=8, ttl_ms=10) == "cancel"
    assert queue.beat("a", mine, now_ms=9, ttl_ms=10) == "cancel"
    assert queue.finish("a", mine, JobStatus.CANCELLED, now_ms=10, changes={})


def test_a_worker_that_takes_over_a_cancelled_submission_learns_of_the_cancel(queue: JobQueue) -> None:
    take(queue, now_ms=0, ttl_ms=10)
    queue.cancel("a", now_ms=7)
    again = take(queue, now_ms=20)
    assert again.cancel_requested
    assert queue.beat("a", token(again), now_ms=21, ttl_ms=10) == "cancel"


def test_cancelling_an_ended_or_unknown_submission_changes_nothing(queue: JobQueue) -> None:
    queue.finish("a", token(take(queue)), JobStatus.SUCCEEDED, now_ms=3, changes={})
    ended = get(queue)
    assert queue.cancel("a", now_ms=7) == ended == get(queue)
    assert queue.cancel("unknown", now_ms=7) is None


def test_an_estimate_is_saved_if_there_is_none(queue: JobQueue) -> None:
    queue.estimate("unknown", seconds=1, dollars=1)
    queue.estimate("a", seconds=3.5, dollars=0.25)
    queue.estimate("a", seconds=9, dollars=9)
    kept = get(queue)
    assert (kept.estimated_seconds, kept.estimated_dollars) == (3.5, 0.25)
    assert take_all(queue) == ["a"]
    assert queue.submission("unknown") is None


def test_an_estimate_replaces_a_guess(queue: JobQueue) -> None:
    queue.submit(replace(get(queue), job_id="guessed", estimated_seconds=60.0))
    queue.estimate("guessed", seconds=3.5, dollars=0.25)
    kept = queue.submission("guessed")
    assert kept is not None
    assert (kept.estimated_seconds, kept.estimated_dollars) == (3.5, 0.25)
