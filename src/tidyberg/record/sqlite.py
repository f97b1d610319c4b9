"""The default job store: one SQLite file, shared safely by the processes of one machine."""

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tidyberg.errors import ConfigurationError, StorageError
from tidyberg.model.job import Job, JobStatus, Owner
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult
from tidyberg.record.store import Finished

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    job_id TEXT PRIMARY KEY,
    catalog TEXT NOT NULL,
    identifier TEXT NOT NULL,
    status TEXT NOT NULL,
    unresolved INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_table ON jobs (catalog, identifier, created_ms);
CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (created_ms);
CREATE TABLE IF NOT EXISTS leases (
    table_uuid TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    expires_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS written (
    job_id TEXT NOT NULL,
    path TEXT NOT NULL,
    PRIMARY KEY (job_id, path)
);
CREATE TABLE IF NOT EXISTS plans (
    job_id TEXT PRIMARY KEY,
    document TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS finished (
    job_id TEXT NOT NULL,
    group_id INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (job_id, group_id)
);
"""

_JOB = TypeAdapter(Job)
_OWNER = TypeAdapter(Owner)
_RESULT = TypeAdapter(tuple[TaskResult], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))

MOST_PLAN_BYTES = 64 * 1024 * 1024
MOST_RESULT_BYTES = 1024 * 1024  # a result has some hundred bytes a column and file


class SqliteStore:
    """Implements JobStore. `is_alive` tells of an owner on this machine whether its process still runs."""

    def __init__(self, path: Path, is_alive: Callable[[Owner], bool | None]) -> None:
        self._is_alive = is_alive
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")  # an intent must outlive a power cut
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The job store {path} cannot be opened ({error}).",
                hint="Set store.path (or TIDYBERG_HOME) to a place you can write to.",
            ) from error

    def save(self, job: Job) -> None:
        row = (
            job.job_id,
            job.table.catalog,
            str(job.table),
            job.status.value,
            job.unresolved,
            job.created_ms,
            _JOB.dump_json(job).decode(),
        )
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def get(self, job_id: str) -> Job | None:
        with self._transaction() as connection:
            row = connection.execute("SELECT document FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        return _JOB.validate_json(row[0]) if row else None

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
        with self._transaction() as connection:
            rows = connection.execute(query, (*values, limit)).fetchall()
        return [_JOB.validate_json(row[0]) for row in rows]

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        with self._transaction() as connection:
            held = connection.execute(
                "SELECT leases.job_id, owner, expires_ms, status FROM leases LEFT JOIN jobs USING (job_id)"
                " WHERE table_uuid = ?",
                (table_uuid,),
            ).fetchone()
            if held is not None and held[0] != job_id:
                alive = self._is_alive(_OWNER.validate_json(held[1]))
                # A living process may have been stopped for long, but not one whose job has ended: that one only could
                # not release the table.
                has_ended = held[3] is not None and JobStatus(held[3]).is_final
                if alive is not False and (held[2] > now_ms or (alive and not has_ended)):
                    return str(held[0])
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
                (table_uuid, job_id, _OWNER.dump_json(owner).decode(), now_ms + ttl_ms),
            )
        return None

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE leases SET expires_ms = ? WHERE table_uuid = ? AND job_id = ?",
                (now_ms + ttl_ms, table_uuid, job_id),
            ).rowcount
        return changed == 1

    def release(self, table_uuid: str, job_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM leases WHERE table_uuid = ? AND job_id = ?", (table_uuid, job_id))

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO written VALUES (?, ?)", [(job_id, path) for path in paths])

    def paths(self, job_id: str) -> list[str]:
        with self._transaction() as connection:
            rows = connection.execute("SELECT path FROM written WHERE job_id = ? ORDER BY rowid", (job_id,)).fetchall()
        return [row[0] for row in rows]

    def forget_paths(self, job_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM written WHERE job_id = ?", (job_id,))

    def save_plan(self, job_id: str, document: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM plans WHERE job_id = ?", (job_id,))
            if len(document) <= MOST_PLAN_BYTES:
                connection.execute("INSERT INTO plans VALUES (?, ?)", (job_id, document))

    def plan(self, job_id: str) -> str | None:
        with self._transaction() as connection:
            row = connection.execute("SELECT document FROM plans WHERE job_id = ?", (job_id,)).fetchone()
        return str(row[0]) if row else None

    def save_finished(self, job_id: str, finished: Finished) -> None:
        if any(output.partition is not None for output in finished.result.outputs):
            return  # JSON would not give back the exact types of partition values [I9]
        result = _RESULT.dump_json((finished.result,))
        if len(result) > MOST_RESULT_BYTES:
            return
        row = (job_id, finished.result.group_id, finished.finished_ms, result)
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO finished VALUES (?, ?, ?, ?)", row)

    def finished(self, job_id: str) -> list[Finished]:
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT result, finished_ms FROM finished WHERE job_id = ? ORDER BY group_id", (job_id,)
            ).fetchall()
        found = []
        for result, finished_ms in rows:
            with suppress(ValidationError):  # another version wrote it
                found.append(Finished(_RESULT.validate_json(result)[0], finished_ms))
        return found

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        with self._transaction() as connection:
            held = connection.execute("SELECT job_id FROM leases WHERE table_uuid = ?", (table_uuid,)).fetchone()
            if held is None or held[0] != holder:
                return False
            if groups is None:
                connection.execute("DELETE FROM finished WHERE job_id = ?", (job_id,))
            else:
                rows = [(job_id, group_id) for group_id in groups]
                connection.executemany("DELETE FROM finished WHERE job_id = ? AND group_id = ?", rows)
        return True

    def forget(self, job_id: str) -> None:
        with self._transaction() as connection:
            for table in ("written", "plans", "finished"):
                connection.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))  # noqa: S608  # literals above

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, in this process and among all: BEGIN IMMEDIATE takes the file's lock first."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:  # some errors end it by themselves
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StorageError(
                    f"The job store did not answer ({error}).", hint="See that its disk has room and is writable."
                ) from error
