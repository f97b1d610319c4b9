"""Submissions are stored unchanged, once per idempotency key, and listed page by page."""

from dataclasses import replace

import pytest

from tests.builders.job_stores import Open
from tests.builders.submissions import fill, submission, take, token
from tidyberg.errors import BadInput, IdempotencyMismatch
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query, Submission
from tidyberg.model.table import TableRef
from tidyberg.record.changes import KEPT_EVENTS
from tidyberg.record.queue import JobQueue
from tidyberg.record.records import Records


@pytest.fixture
def queue(records: Records) -> JobQueue:
    return records.queue


def ids(queue: JobQueue, query: Query) -> list[str]:
    return [found.job_id for found in queue.submissions(query).submissions]


def pages(queue: JobQueue, query: Query) -> list[list[str]]:
    found, cursor = [], query.cursor
    while True:
        page = queue.submissions(replace(query, cursor=cursor))
        found.append([one.job_id for one in page.submissions])
        if page.next is None:
            return found
        cursor = page.next


def test_a_submission_comes_back_as_it_was_submitted(queue: JobQueue) -> None:
    asked = Submission(
        job_id="a",
        table=TableRef("lab", ("my.ns", "ü"), "events"),
        strategy="z-order",
        options={"columns": ["a", "b"], "max_cost": 1.5, "deep": {"none": None, "quote": "'; DROP TABLE jobs --"}},
        created_ms=1_700_000_000_000,
        created_by="schedule:nightly",
        tenant="team-a",
        priority=-3,
        verify="full",
        plan_hash="abc",
        not_before_ms=17,
        estimated_seconds=2.5,
        estimated_dollars=1e-7,
    )
    assert queue.submit(asked) == asked
    assert queue.submission("a") == asked
    assert queue.submission("b") is None


def test_a_submission_that_is_repeated_is_kept_once(queue: JobQueue) -> None:
    queue.submit(submission("a"))
    claimed = take(queue)
    assert queue.submit(submission("a")) == claimed
    assert queue.counts() == {("default", JobStatus.RUNNING): 1}


def test_a_submission_that_is_repeated_does_not_push_others_aside(queue: JobQueue) -> None:
    queue.submit(submission("a", priority=5))
    first = take(queue)
    queue.submit(submission("b"))
    queue.submit(submission("a", priority=5))
    queue.finish("a", token(first), JobStatus.SUCCEEDED, now_ms=1, changes={})
    assert take(queue).job_id == "b"


def test_a_key_makes_one_submission_however_often_it_is_sent(open_records: Open) -> None:
    first, second = open_records().queue, open_records().queue
    made = first.submit(submission("a"), key="k")
    assert second.submit(submission("b", created_ms=5, created_by="bob"), key="k") == made
    assert second.submission("b") is None
    assert second.submit(submission("c"), key="other").job_id == "c"


def test_a_key_gives_its_submission_as_it_is_now(queue: JobQueue) -> None:
    queue.submit(submission("a"), key="k")
    queue.finish("a", token(take(queue)), JobStatus.FAILED, now_ms=3, changes={"error": "x"})
    assert queue.submit(submission("b"), key="k") == queue.submission("a")


def test_a_key_cannot_stand_for_two_requests(queue: JobQueue) -> None:
    queue.submit(submission("a", options={"x": 1, "y": 2}), key="k")
    assert queue.submit(submission("b", options={"y": 2, "x": 1}), key="k").job_id == "a"
    others = [
        submission("b", options={"x": 1}),
        submission("b", "db.other", options={"x": 1, "y": 2}),
        submission("b", options={"x": 1, "y": 2}, strategy="sort"),
        submission("b", options={"x": 1, "y": 2}, priority=1),
        submission("b", options={"x": 1, "y": 2}, verify="full"),
        submission("b", options={"x": 1, "y": 2}, plan_hash="h"),
    ]
    for other in others:
        with pytest.raises(IdempotencyMismatch, match="'k'"):
            queue.submit(other, key="k")
    assert queue.submission("b") is None


def test_tenants_do_not_share_keys(queue: JobQueue) -> None:
    queue.submit(submission("a", tenant="one"), key="k")
    assert queue.submit(submission("b", "db.secret", tenant="two"), key="k").job_id == "b"


def test_counts_follow_every_change(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "one"), ("b", "u", "one"), ("c", "v", "two"))
    assert queue.counts() == {("one", JobStatus.QUEUED): 2, ("two", JobStatus.QUEUED): 1}
    mine = token(take(queue))
    queue.cancel("c", now_ms=0)
    assert queue.counts() == {
        ("one", JobStatus.QUEUED): 1,
        ("one", JobStatus.RUNNING): 1,
        ("two", JobStatus.CANCELLED): 1,
    }
    queue.put_back("a", mine, not_before_ms=5, reason="x")
    assert queue.counts()[("one", JobStatus.QUEUED)] == 2
    assert ("one", JobStatus.RUNNING) not in queue.counts()


def test_pages_list_each_submission_once_in_either_order(queue: JobQueue) -> None:
    for number in range(7):
        queue.submit(submission(str(number), created_ms=100 - number))
    assert pages(queue, Query(limit=3)) == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
    assert pages(queue, Query(limit=3, newest_first=False)) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert pages(queue, Query(limit=7)) == [["6", "5", "4", "3", "2", "1", "0"]]


def test_an_empty_page_has_no_next(queue: JobQueue) -> None:
    page = queue.submissions(Query())
    assert (page.submissions, page.next) == ((), None)


def test_pages_that_were_begun_do_not_move_while_new_ones_arrive_and_old_ones_change(queue: JobQueue) -> None:
    fill(queue, *[(str(number), str(number), "a") for number in range(6)])
    first = queue.submissions(Query(limit=2))
    fill(queue, ("new", "new", "a"))
    take(queue)
    queue.cancel("3", now_ms=0)
    assert pages(queue, Query(limit=2, cursor=first.next)) == [["3", "2"], ["1", "0"]]


def test_filters_are_combined(queue: JobQueue) -> None:
    queue.submit(submission("a", "db.t", "one", created_ms=10))
    queue.submit(submission("b", "db.u", "one", created_ms=20, created_by="bob"))
    queue.submit(submission("c", "db.t", "two", created_ms=30, created_by="bob"))
    queue.submit(submission("d", "db.t", "one", created_ms=40))
    queue.cancel("d", now_ms=0)
    assert ids(queue, Query(tenants=frozenset({"one"}))) == ["d", "b", "a"]
    assert ids(queue, Query(tenants=frozenset({"one", "two"}))) == ["d", "c", "b", "a"]
    assert ids(queue, Query(tenants=frozenset())) == []
    assert ids(queue, Query(statuses=frozenset({JobStatus.QUEUED}))) == ["c", "b", "a"]
    assert ids(queue, Query(statuses=frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}), limit=2)) == ["d", "c"]
    assert ids(queue, Query(table=TableRef.parse("db.t", "lab"))) == ["d", "c", "a"]
    assert ids(queue, Query(table=TableRef.parse("db.t", "elsewhere"))) == []
    assert ids(queue, Query(created_by="bob")) == ["c", "b"]
    assert ids(queue, Query(created_from_ms=20)) == ["d", "c", "b"]
    everything = Query(
        tenants=frozenset({"one"}),
        statuses=frozenset({JobStatus.QUEUED}),
        table=TableRef.parse("db.t", "lab"),
        created_by="ada",
        created_from_ms=10,
        newest_first=False,
    )
    assert ids(queue, everything) == ["a"]
    assert ids(queue, Query(tenants=frozenset({"' OR 1=1 --"}), created_by="' OR 1=1 --")) == []


def test_filtered_pages_list_each_match_once(queue: JobQueue) -> None:
    fill(queue, *[(str(number), f"t{number % 3}", f"tenant-{number % 2}") for number in range(24)])
    query = Query(tenants=frozenset({"tenant-0"}), table=TableRef.parse("db.t0", "lab"), limit=2)
    assert pages(queue, query) == [["18", "12"], ["6", "0"]]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "٣", "9" * 30, "1; DROP TABLE submissions"])
def test_a_cursor_that_no_page_gave_is_refused(queue: JobQueue, cursor: str) -> None:
    with pytest.raises(BadInput, match="is not a cursor"):
        queue.submissions(Query(cursor=cursor))


def test_news_covers_many_jobs_in_one_call(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "default"), ("b", "u", "default"))
    for number in range(3):
        queue.add_event("a", number, "notice", {"n": number})
    found = queue.news({"a": 1, "b": 0, "unknown": 0})
    assert set(found) == {"a", "b"}
    assert (found["a"].status, [event.number for event in found["a"].events]) == (JobStatus.QUEUED, [2, 3])
    assert (found["b"].status, found["b"].events) == (JobStatus.QUEUED, ())
    assert [event.number for event in queue.news({"a": 0}, limit=2)["a"].events] == [1, 2]
    take(queue)
    assert queue.news({"a": 3})["a"].status is JobStatus.RUNNING
    assert queue.news({}) == {}


def test_events_are_numbered_within_their_job(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "one"), ("b", "u", "one"))
    queue.add_event("a", 5, "status", {"status": "queued"})
    queue.add_event("b", 6, "stage", {})
    queue.add_event("a", 7, "progress", {"files": [1, 2], "part": 0.5})
    assert [(event.number, event.at_ms, event.kind, event.data) for event in queue.events("a")] == [
        (1, 5, "status", {"status": "queued"}),
        (2, 7, "progress", {"files": [1, 2], "part": 0.5}),
    ]
    assert [event.number for event in queue.events("b")] == [1]
    assert [event.number for event in queue.events("a", after=1)] == [2]
    assert [event.number for event in queue.events("a", limit=1)] == [1]
    assert queue.events("a", after=2) == []


def test_only_the_newest_events_are_kept_and_their_numbers_go_on(queue: JobQueue) -> None:
    fill(queue, ("a", "t", "one"))
    for number in range(KEPT_EVENTS + 20):
        queue.add_event("a", number, "notice", {"n": number})
    kept = queue.events("a", limit=10 * KEPT_EVENTS)
    assert [event.number for event in kept] == list(range(21, KEPT_EVENTS + 21))
    assert kept[-1].data == {"n": KEPT_EVENTS + 19}


def test_an_unknown_job_gets_no_events(queue: JobQueue) -> None:
    queue.add_event("unknown", 1, "status", {})
    assert queue.events("unknown") == []


def test_what_ended_long_ago_is_forgotten_with_its_events_and_key(queue: JobQueue) -> None:
    for number in range(4):
        queue.submit(submission(str(number), f"db.t{number}"), key=f"k{number}")
        queue.add_event(str(number), 0, "status", {})
    for job_id, now_ms in {"2": 10, "0": 20, "1": 30}.items():
        queue.cancel(job_id, now_ms=now_ms)
    take(queue)
    assert queue.prune(ended_before_ms=10) == 0
    assert queue.prune(ended_before_ms=30, at_most=1) == 1
    assert queue.submission("2") is None
    assert queue.prune(ended_before_ms=30) == 1
    assert ids(queue, Query()) == ["3", "1"]
    assert queue.events("0") == []
    assert queue.counts() == {("default", JobStatus.CANCELLED): 1, ("default", JobStatus.RUNNING): 1}
    assert queue.submit(submission("again", "db.other"), key="k0").job_id == "again"
    assert queue.submit(submission("b", "db.t1"), key="k1").job_id == "1"


def test_pages_continue_when_the_submission_at_their_cursor_was_deleted(queue: JobQueue) -> None:
    fill(queue, *[(str(number), str(number), "a") for number in range(4)])
    first = queue.submissions(Query(limit=2))
    queue.cancel("2", now_ms=1)
    queue.prune(ended_before_ms=2)
    assert pages(queue, Query(limit=2, cursor=first.next)) == [["1", "0"]]
