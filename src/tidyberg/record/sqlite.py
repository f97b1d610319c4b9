"""Keeps jobs and leases in a SQLite file, which is the default job store."""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tidyberg.model.job import Job, Owner
from tidyberg.model.table import TableRef
from tidyberg.record.documents import JOB, OWNER, kept_result, plan_to_keep, result_to_keep
from tidyberg.record.sqlite_file import SqliteFile
from tidyberg.record.store import Finished

_KEPT_FOR_RECOVERY = ("written", "plans", "finished")
# A job that ended before a time was created before it, so the index on creation finds candidates.
_ENDED = """
    SELECT job_id FROM jobs WHERE created_ms < ? AND status IN ('succeeded', 'failed', 'cancelled') AND unresolved = 0
        AND json_extract(document, '$.finished_ms') < ? AND job_id NOT IN (SELECT job_id FROM leases)
    ORDER BY created_ms, rowid LIMIT ?
"""


class SqliteStore:
    """Implements JobStore. `is_alive` checks the process of an owner on this machine."""

    def __init__(self, file: SqliteFile | Path, is_alive: Callable[[Owner], bool | None]) -> None:
        self._file = SqliteFile(file) if isinstance(file, Path) else file
        self._is_alive = is_alive

    def save(self, job: Job, *, holder: str | None = None) -> bool:
        row = (
            job.job_id,
            job.table.catalog,
            str(job.table),
            job.status.value,
            job.unresolved,
            job.created_ms,
            JOB.dump_json(job).decode(),
        )
        with self._file.transaction() as connection:
            if holder is not None and not _holds(connection, job.table_uuid, holder):
                return False
            connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return True

    def get(self, job_id: str) -> Job | None:
        with self._file.reading() as connection:
            row = connection.execute("SELECT document FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        return JOB.validate_json(row[0]) if row else None

    def find(self, *, table: TableRef | None = None, unfinished: bool = False, limit: int = 20) -> list[Job]:
        conditions, values = ["1 = 1"], list[object]()
        if table is not None:
            conditions.append("catalog = ? AND identifier = ?")
            values += [table.catalog, str(table)]
        if unfinished:
            conditions.append("(status = 'running' OR unresolved = 1)")
        query = (
            f"SELECT document FROM jobs WHERE {' AND '.join(conditions)} ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608  # conditions are literals above
        )
        with self._file.reading() as connection:
            rows = connection.execute(query, (*values, limit)).fetchall()
        return [JOB.validate_json(row[0]) for row in rows]

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        with self._file.transaction() as connection:
            held = connection.execute(
                "SELECT job_id, owner, expires_ms FROM leases WHERE table_uuid = ?", (table_uuid,)
            ).fetchone()
            if held is not None and held[0] != job_id and held[2] > now_ms:
                owner_before = OWNER.validate_json(held[1])
                if self._is_alive(owner_before) is not False:
                    return str(held[0])
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
                (table_uuid, job_id, OWNER.dump_json(owner).decode(), now_ms + ttl_ms),
            )
        return None

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        with self._file.transaction() as connection:
            changed = connection.execute(
                "UPDATE leases SET expires_ms = ? WHERE table_uuid = ? AND job_id = ?",
                (now_ms + ttl_ms, table_uuid, job_id),
            ).rowcount
        return changed == 1

    def release(self, table_uuid: str, job_id: str) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM leases WHERE table_uuid = ? AND job_id = ?", (table_uuid, job_id))

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO written VALUES (?, ?)", [(job_id, path) for path in paths])

    def paths(self, job_id: str) -> list[str]:
        with self._file.reading() as connection:
            rows = connection.execute("SELECT path FROM written WHERE job_id = ? ORDER BY rowid", (job_id,)).fetchall()
        return [row[0] for row in rows]

    def forget_paths(self, job_id: str) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM written WHERE job_id = ?", (job_id,))

    def save_plan(self, job_id: str, document: str) -> None:
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM plans WHERE job_id = ?", (job_id,))
            if kept := plan_to_keep(document):
                connection.execute("INSERT INTO plans VALUES (?, ?)", (job_id, kept))

    def plan(self, job_id: str) -> str | None:
        with self._file.reading() as connection:
            row = connection.execute("SELECT document FROM plans WHERE job_id = ?", (job_id,)).fetchone()
        return str(row[0]) if row else None

    def save_finished(self, job_id: str, finished: Finished, *, table_uuid: str | None = None) -> None:
        result = result_to_keep(finished)
        if result is None:
            return
        row = (job_id, finished.result.group_id, finished.finished_ms, result)
        with self._file.transaction() as connection:
            if table_uuid is None or _holds(connection, table_uuid, job_id):
                connection.execute("INSERT OR REPLACE INTO finished VALUES (?, ?, ?, ?)", row)

    def finished(self, job_id: str) -> list[Finished]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT result, finished_ms FROM finished WHERE job_id = ? ORDER BY group_id", (job_id,)
            ).fetchall()
        found = (kept_result(result, finished_ms) for result, finished_ms in rows)
        return [finished for finished in found if finished is not None]

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        with self._file.transaction() as connection:
            if not _holds(connection, table_uuid, holder):
                return False
            if groups is None:
                connection.execute("DELETE FROM finished WHERE job_id = ?", (job_id,))
            else:
                rows = [(job_id, group_id) for group_id in groups]
                connection.executemany("DELETE FROM finished WHERE job_id = ? AND group_id = ?", rows)
        return True

    def forget(self, job_id: str) -> None:
        with self._file.transaction() as connection:
            _delete(connection, _KEPT_FOR_RECOVERY, [(job_id,)])

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        with self._file.transaction() as connection:
            rows = connection.execute(_ENDED, (ended_before_ms, ended_before_ms, at_most)).fetchall()
            _delete(connection, (*_KEPT_FOR_RECOVERY, "jobs"), rows)
        return len(rows)

    def close(self) -> None:
        self._file.close()


def _holds(connection: sqlite3.Connection, table_uuid: str, job_id: str) -> bool:
    held = connection.execute("SELECT job_id FROM leases WHERE table_uuid = ?", (table_uuid,)).fetchone()
    return held is not None and held[0] == job_id


def _delete(connection: sqlite3.Connection, tables: Sequence[str], job_ids: Sequence[tuple[str]]) -> None:
    for table in tables:
        connection.executemany(f"DELETE FROM {table} WHERE job_id = ?", job_ids)  # noqa: S608  # literals above
