"""Keeps the queue of submissions in a SQLite file."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Literal

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Claim, JobEvent, JobNews, Limits, Query, Submission, SubmissionPage
from tidyberg.model.table import TableRef
from tidyberg.record import changes as change
from tidyberg.record.documents import EVENT, SUBMISSION
from tidyberg.record.sqlite_file import SqliteFile

# This query skips from tenant to tenant, so its cost does not grow with the number of waiting submissions.
_TENANTS = """
    WITH RECURSIVE waiting (tenant) AS (
        SELECT min(tenant) FROM submissions WHERE is_head = 1
        UNION ALL
        SELECT (SELECT min(tenant) FROM submissions WHERE is_head = 1 AND tenant > waiting.tenant)
        FROM waiting WHERE waiting.tenant IS NOT NULL
    )
    SELECT waiting.tenant, coalesce(submissions, 0) FROM waiting
        LEFT JOIN counts ON counts.tenant = waiting.tenant AND status = 'running'
        LEFT JOIN served ON served.tenant = waiting.tenant
    WHERE waiting.tenant IS NOT NULL ORDER BY coalesce(submissions, 0), coalesce(token, 0), waiting.tenant
"""
# This query skips at most one head per running table.
_NEXT_OF_TENANT = """
    SELECT document FROM submissions AS head INDEXED BY heads WHERE is_head = 1 AND tenant = ?
        AND NOT EXISTS (SELECT 1 FROM submissions WHERE status = 'running' AND iceberg_table = head.iceberg_table)
    ORDER BY priority DESC, number LIMIT 1
"""
_FIRST_OF_LANE = """
    SELECT number FROM submissions INDEXED BY lanes WHERE is_waiting = 1 AND tenant = ? AND iceberg_table = ?
    ORDER BY priority DESC, number LIMIT 1
"""
_HEAD_OF_LANE = "SELECT number, priority FROM submissions WHERE is_head = 1 AND tenant = ? AND iceberg_table = ?"
_INSERT = """
    INSERT INTO submissions (job_id, tenant, iceberg_table, priority, status, is_waiting, is_head, not_before_ms,
        created_by, created_ms, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (job_id) DO NOTHING
"""
_RUN_OUT = """
    SELECT document FROM submissions INDEXED BY claims WHERE status = 'running' AND expires_ms <= ?
    ORDER BY expires_ms, number LIMIT 1
"""
# Without this hint SQLite uses the index on status, and reads all waiting submissions.
_PUT_OFF = """
    SELECT number, document FROM submissions INDEXED BY put_off
    WHERE status = 'queued' AND is_waiting = 0 AND not_before_ms <= ?
"""
_MAY_HAVE_WORK = f"""
    SELECT EXISTS (SELECT 1 FROM submissions WHERE is_head = 1) OR EXISTS ({_PUT_OFF}) OR EXISTS ({_RUN_OUT})
"""  # noqa: S608  # literals above


class SqliteQueue:
    """Implements JobQueue."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def submit(self, submission: Submission, *, key: str | None = None) -> Submission:
        with self._file.transaction() as connection:
            kept = _made_by_key(connection, submission, key) if key is not None else None
            if kept is not None:
                change.check_same_request(kept, submission, str(key))
            elif not _insert(connection, submission):
                _mark_head(connection, submission)
                kept = _load(connection, submission.job_id)
                assert kept is not None, "only its id can be in the way"
        if kept is None:
            return submission
        self._file.wait_for_disk()  # its writer may not have synced it yet
        return kept

    def submission(self, job_id: str) -> Submission | None:
        with self._file.reading() as connection:
            return _load(connection, job_id)

    def submissions(self, query: Query) -> SubmissionPage:
        conditions, values = _conditions(query)
        order = "DESC" if query.newest_first else "ASC"
        statement = f"SELECT number, document FROM submissions WHERE {conditions} ORDER BY number {order} LIMIT ?"  # noqa: S608  # literals
        with self._file.reading() as connection:
            rows = connection.execute(statement, (*values, query.limit + 1)).fetchall()
        page = rows[: query.limit]
        found = tuple(SUBMISSION.validate_json(document) for _, document in page)
        return SubmissionPage(found, str(page[-1][0]) if page and len(rows) > len(page) else None)

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        with self._file.reading() as connection:
            rows = connection.execute("SELECT tenant, status, submissions FROM counts WHERE submissions > 0").fetchall()
        return {(tenant, JobStatus(status)): submissions for tenant, status, submissions in rows}

    def claim(self, worker: str, *, now_ms: int, ttl_ms: int, limits: Limits) -> Submission | None:
        with self._file.reading() as connection:
            if not _may_have_work(connection, now_ms):
                return None  # most polls find nothing, so a poll takes no lock
        with self._file.transaction() as connection:
            found = _run_out(connection, now_ms) or _next(connection, now_ms, limits)
            if found is None:
                return None
            token = connection.execute("SELECT coalesce(max(token), 0) + 1 FROM served").fetchone()[0]
            connection.execute("INSERT OR REPLACE INTO served VALUES (?, ?)", (found.tenant, token))
            claimed = change.claimed(found, Claim(worker, token, now_ms + ttl_ms), now_ms)
            _save(connection, claimed)
        return claimed

    def beat(self, job_id: str, token: int, *, now_ms: int, ttl_ms: int) -> Literal["held", "cancel", "lost"]:
        with self._file.transaction(durable=False) as connection:
            held = _held(connection, job_id, token)
            if held is None or held.claim is None:
                return "lost"
            _save(connection, change.renewed(held, now_ms + ttl_ms))
        return "cancel" if held.cancel_requested else "held"

    def update(self, job_id: str, token: int, changes: Mapping[str, Any]) -> bool:
        with self._file.transaction() as connection:
            held = _held(connection, job_id, token)
            if held is not None:
                _save(connection, change.learned(held, changes))
        return held is not None

    def finish(self, job_id: str, token: int, status: JobStatus, *, now_ms: int, changes: Mapping[str, Any]) -> bool:
        with self._file.transaction() as connection:
            held = _held(connection, job_id, token)
            if held is not None:
                _save(connection, change.ended(change.learned(held, changes), status, now_ms))
        return held is not None

    def put_back(
        self, job_id: str, token: int, *, not_before_ms: int, reason: str, attempts: int | None = None
    ) -> bool:
        with self._file.transaction() as connection:
            held = _held(connection, job_id, token)
            if held is not None:
                _save(connection, change.put_back(held, not_before_ms, reason, attempts=attempts))
        return held is not None

    def cancel(self, job_id: str, *, now_ms: int) -> Submission | None:
        with self._file.transaction() as connection:
            found = _load(connection, job_id)
            if found is None or found.status.is_final:
                return found
            cancelled = change.cancelled(found, now_ms)
            _save(connection, cancelled)
        return cancelled

    def estimate(self, job_id: str, *, seconds: float, dollars: float) -> None:
        with self._file.transaction(durable=False) as connection:
            if found := _load(connection, job_id):
                _save(connection, change.estimated(found, seconds, dollars))

    def add_event(self, job_id: str, at_ms: int, kind: str, data: Mapping[str, Any]) -> None:
        with self._file.transaction(durable=False) as connection:
            if _load(connection, job_id) is None:
                return
            last = "SELECT coalesce(max(number), 0) FROM events WHERE job_id = ?"
            number = connection.execute(last, (job_id,)).fetchone()[0] + 1
            event = EVENT.validate_python({"number": number, "at_ms": at_ms, "kind": kind, "data": data})
            row = (job_id, number, EVENT.dump_json(event).decode())
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", row)
            trim = "DELETE FROM events WHERE job_id = ? AND number <= ?"
            connection.execute(trim, (job_id, number - change.KEPT_EVENTS))

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> list[JobEvent]:
        statement = "SELECT document FROM events WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?"
        with self._file.reading() as connection:
            rows = connection.execute(statement, (job_id, after, limit)).fetchall()
        return [EVENT.validate_json(row[0]) for row in rows]

    def news(self, after: Mapping[str, int], *, limit: int = 100) -> Mapping[str, JobNews]:
        status = "SELECT status FROM submissions WHERE job_id = ?"
        events = "SELECT document FROM events WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?"
        found: dict[str, tuple[str, list[tuple[str]]]] = {}
        with self._file.reading() as connection:
            for job_id, number in after.items():
                if (row := connection.execute(status, (job_id,)).fetchone()) is not None:
                    found[job_id] = row[0], connection.execute(events, (job_id, number, limit)).fetchall()
        return {
            job_id: JobNews(JobStatus(status), tuple(EVENT.validate_json(row[0]) for row in rows))
            for job_id, (status, rows) in found.items()
        }

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        ended = "SELECT job_id FROM submissions WHERE finished_ms < ? ORDER BY finished_ms, number LIMIT ?"
        with self._file.transaction() as connection:
            rows = connection.execute(ended, (ended_before_ms, at_most)).fetchall()
            for table in ("submissions", "events", "idempotency_keys"):
                connection.executemany(f"DELETE FROM {table} WHERE job_id = ?", rows)  # noqa: S608  # literals above
        return len(rows)


def _table(table: TableRef) -> str:
    return json.dumps((table.catalog, *table.identifier))


def _conditions(query: Query) -> tuple[str, list[object]]:
    conditions, values = ["1 = 1"], list[object]()
    for column, among in (("tenant", query.tenants), ("status", query.statuses)):
        if among is not None:
            conditions.append(f"{column} IN ({', '.join('?' for _ in among)})")
            values += sorted(among)
    if query.table is not None:
        conditions.append("iceberg_table = ?")
        values.append(_table(query.table))
    if query.created_by is not None:
        conditions.append("created_by = ?")
        values.append(query.created_by)
    if query.created_from_ms is not None:
        conditions.append("created_ms >= ?")
        values.append(query.created_from_ms)
    if query.cursor is not None:
        conditions.append("number < ?" if query.newest_first else "number > ?")
        values.append(change.position(query.cursor))
    return " AND ".join(conditions), values


def _load(connection: sqlite3.Connection, job_id: str) -> Submission | None:
    row = connection.execute("SELECT document FROM submissions WHERE job_id = ?", (job_id,)).fetchone()
    return SUBMISSION.validate_json(row[0]) if row else None


def _held(connection: sqlite3.Connection, job_id: str, token: int) -> Submission | None:
    found = _load(connection, job_id)
    return found if change.holds(found, token) else None


def _made_by_key(connection: sqlite3.Connection, submission: Submission, key: str) -> Submission | None:
    """Return the submission that a tenant made with this key. None means that the key now belongs to this one."""
    row = (submission.tenant, key, submission.job_id)
    if connection.execute("INSERT OR IGNORE INTO idempotency_keys VALUES (?, ?, ?)", row).rowcount == 1:
        return None
    used = "SELECT job_id FROM idempotency_keys WHERE tenant = ? AND key = ?"
    kept = _load(connection, connection.execute(used, row[:2]).fetchone()[0])
    assert kept is not None, "a key goes with its submission"
    return kept


def _insert(connection: sqlite3.Connection, submission: Submission) -> bool:
    """Insert a submission. False means that its id exists already."""
    lane, priority = (submission.tenant, _table(submission.table)), submission.priority
    is_waiting = submission.not_before_ms == 0
    head = connection.execute(_HEAD_OF_LANE, lane).fetchone() if is_waiting else None
    is_head = is_waiting and (head is None or head[1] < priority)
    if is_head and head is not None:
        connection.execute("UPDATE submissions SET is_head = 0 WHERE number = ?", head[:1])
    row = (
        submission.job_id,
        *lane,
        priority,
        submission.status.value,
        is_waiting,
        is_head,
        submission.not_before_ms,
        submission.created_by,
        submission.created_ms,
        SUBMISSION.dump_json(submission).decode(),
    )
    return connection.execute(_INSERT, row).rowcount == 1


def _save(connection: sqlite3.Connection, submission: Submission) -> None:
    """Save a changed submission. If it is queued again, a later claim moves it to its lane."""
    claim = submission.claim
    connection.execute(
        "UPDATE submissions SET status = ?, is_waiting = is_waiting AND ? = 'queued', not_before_ms = ?,"
        " expires_ms = ?, finished_ms = ?, document = ? WHERE job_id = ?",
        (
            submission.status.value,
            submission.status.value,
            submission.not_before_ms,
            claim.expires_ms if claim else None,
            submission.finished_ms,
            SUBMISSION.dump_json(submission).decode(),
            submission.job_id,
        ),
    )
    _mark_head(connection, submission)


def _mark_head(connection: sqlite3.Connection, submission: Submission) -> None:
    lane = (submission.tenant, _table(submission.table))
    first = connection.execute(_FIRST_OF_LANE, lane).fetchone()
    head = connection.execute(_HEAD_OF_LANE, lane).fetchone()
    if head and first != head[:1]:
        connection.execute("UPDATE submissions SET is_head = 0 WHERE number = ?", head[:1])
    if first and (head is None or first != head[:1]):
        connection.execute("UPDATE submissions SET is_head = 1 WHERE number = ?", first)


def _may_have_work(connection: sqlite3.Connection, now_ms: int) -> bool:
    return bool(connection.execute(_MAY_HAVE_WORK, (now_ms, now_ms)).fetchone()[0])


def _run_out(connection: sqlite3.Connection, now_ms: int) -> Submission | None:
    row = connection.execute(_RUN_OUT, (now_ms,)).fetchone()
    return SUBMISSION.validate_json(row[0]) if row else None


def _next(connection: sqlite3.Connection, now_ms: int, limits: Limits) -> Submission | None:
    _let_wait(connection, now_ms)
    running = connection.execute("SELECT sum(submissions) FROM counts WHERE status = 'running'").fetchone()[0]
    if (running or 0) >= limits.running:
        return None
    for tenant, of_tenant in connection.execute(_TENANTS).fetchall():
        if of_tenant >= limits.for_tenant(tenant):
            continue
        if row := connection.execute(_NEXT_OF_TENANT, (tenant,)).fetchone():
            return SUBMISSION.validate_json(row[0])
    return None


def _let_wait(connection: sqlite3.Connection, now_ms: int) -> None:
    """Move submissions whose wait is over to their lanes."""
    for number, document in connection.execute(_PUT_OFF, (now_ms,)).fetchall():
        connection.execute("UPDATE submissions SET is_waiting = 1 WHERE number = ?", (number,))
        _mark_head(connection, SUBMISSION.validate_json(document))
