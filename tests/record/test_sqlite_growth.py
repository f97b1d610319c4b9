"""The cost of a call to SQLite does not grow with the number of jobs. It is counted in steps of SQLite's VM."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.job_records import job
from tests.builders.submissions import submission, take, token
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Query
from tidyberg.model.table import TableRef
from tidyberg.record import sqlite_queue
from tidyberg.record.documents import JOB
from tidyberg.record.sqlite import SqliteStore
from tidyberg.record.sqlite_file import SqliteFile
from tidyberg.record.sqlite_queue import SqliteQueue

Lane = Callable[[int], tuple[str, str]]  # table and tenant of the n-th

LANES: dict[str, Lane] = {
    "one table": lambda n: ("db.t", "a"),
    "a table each": lambda n: (f"db.t{n}", "a"),
    "one table, many tenants": lambda n: ("db.t", f"tenant-{n % 20}"),
}


def steps(file: SqliteFile, call: Callable[[], object]) -> int:
    """How many instructions SQLite ran, in tens."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    for connection in (file._writer, file._reader):
        connection.set_progress_handler(count, 10)
    call()
    for connection in (file._writer, file._reader):
        connection.set_progress_handler(None, 10)
    return counted


def costs(path: Path, lane: Lane, size: int) -> dict[str, int]:
    file = SqliteFile(path)
    queue = SqliteQueue(file)
    with file.transaction(durable=False) as connection:
        for number in range(size):
            made = submission(str(number), *lane(number), priority=number % 3, options={})
            sqlite_queue._insert(connection, made)
    limits = Limits(running=3)
    running = take(queue, limits=limits)
    found = {
        "claim": steps(file, lambda: queue.claim("w", now_ms=0, ttl_ms=10, limits=limits)),
        "claim at the limit": steps(file, lambda: queue.claim("w", now_ms=0, ttl_ms=10, limits=Limits(running=1))),
        "submit": steps(file, lambda: queue.submit(submission("new", *lane(1)), key="k")),
        "beat": steps(file, lambda: queue.beat(running.job_id, token(running), now_ms=1, ttl_ms=10)),
        "finish": steps(
            file,
            lambda: queue.finish(running.job_id, token(running), JobStatus.FAILED, now_ms=1, changes={}),
        ),
        "cancel": steps(file, lambda: queue.cancel(str(size - 1), now_ms=1)),
        "counts": steps(file, queue.counts),
        "page": steps(file, lambda: queue.submissions(Query(limit=5))),
        "page of a tenant": steps(file, lambda: queue.submissions(Query(tenants=frozenset({lane(0)[1]}), limit=5))),
        "page by status": steps(
            file, lambda: queue.submissions(Query(statuses=frozenset({JobStatus.QUEUED}), limit=5))
        ),
        "page of a table": steps(file, lambda: queue.submissions(Query(table=running.table, limit=5))),
        "prune": steps(file, lambda: queue.prune(ended_before_ms=0)),
    }
    file.close()
    return found


@pytest.mark.parametrize("kind", LANES)
def test_what_a_call_costs_does_not_grow_with_the_queue(tmp_path: Path, kind: str) -> None:
    small = costs(tmp_path / "small.db", LANES[kind], 200)
    large = costs(tmp_path / "large.db", LANES[kind], 5000)
    assert {name: (small[name], cost) for name, cost in large.items() if cost > 1.5 * small[name] + 5} == {}


def costs_of_runs(path: Path, size: int) -> dict[str, int]:
    file = SqliteFile(path)
    store = SqliteStore(file, lambda _: None)
    ended = [replace(job(str(n), created_ms=n), status=JobStatus.SUCCEEDED, finished_ms=n + 5) for n in range(size)]
    rows = [(one.job_id, "lab", "db.events", "succeeded", 0, one.created_ms, JOB.dump_json(one)) for one in ended]
    with file.transaction(durable=False) as connection:
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    store.save(job("running", created_ms=size))
    found = {
        "unfinished": steps(file, lambda: store.find(unfinished=True)),
        "of a table": steps(file, lambda: store.find(table=TableRef.parse("db.events", "lab"), limit=5)),
        "newest": steps(file, lambda: store.find(limit=5)),
        "prune": steps(file, lambda: store.prune(ended_before_ms=20)),
    }
    file.close()
    return found


def test_what_a_look_at_runs_costs_does_not_grow_with_those_that_ended(tmp_path: Path) -> None:
    small, large = costs_of_runs(tmp_path / "small.db", 100), costs_of_runs(tmp_path / "large.db", 3000)
    assert {name: (small[name], cost) for name, cost in large.items() if cost > 1.5 * small[name] + 5} == {}


def test_every_look_for_work_goes_through_an_index(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "jobs.db")
    looks = {
        sqlite_queue._TENANTS: (),
        sqlite_queue._NEXT_OF_TENANT: ("a",),
        sqlite_queue._FIRST_OF_LANE: ("a", "t"),
        sqlite_queue._RUN_OUT: (0,),
        sqlite_queue._MAY_HAVE_WORK: (0, 0),
    }
    for statement, values in looks.items():
        with file.reading() as connection:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert not [line for line in plan if line.startswith("SCAN submissions") and "INDEX" not in line], plan
    file.close()
