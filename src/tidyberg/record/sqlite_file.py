"""A SQLite file that the threads and processes of one machine share."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidyberg.errors import ConfigurationError, StorageError
from tidyberg.record.shared_sync import SharedSync
from tidyberg.record.sqlite_schema import VERSIONS

_BUSY_SECONDS = 30
_APPLICATION = int.from_bytes(b"tidy")  # identifies our files


class SqliteFile:
    """The file of jobs, queue and ledger. They share one writing and one read-only connection."""

    def __init__(self, path: Path) -> None:
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _create_private(path)
            self._writer = _connect(path)
            # A reader sees the last commit. It never waits, not even while a commit is synced to disk.
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._upgrade(path)
            self._reader = _connect(path)
            self._reader.execute("PRAGMA query_only=ON")
            self._log = SharedSync(path.with_name(f"{path.name}-wal"))
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The job store {path} cannot be opened ({error}).",
                hint="Set store.path (or TIDYBERG_HOME) to a place you can write to.",
            ) from error

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Run a transaction. BEGIN IMMEDIATE locks the file first, so there is one writer at a time.

        A durable transaction and all earlier ones survive a power failure. Others survive the end of the process.
        """
        try:
            with self._writing:
                self._writer.execute("BEGIN IMMEDIATE")
                before = self._writer.total_changes
                with _all_or_nothing(self._writer):
                    yield self._writer
                has_changed = self._writer.total_changes > before
            if durable and has_changed:
                self._log.wait()
        except (OSError, sqlite3.Error) as error:
            raise _did_not_answer(error) from error

    def wait_for_disk(self) -> None:
        """Wait until everything that a transaction has seen is durable, also writes of other processes."""
        try:
            self._log.wait()
        except OSError as error:
            raise _did_not_answer(error) from error

    def check_write(self) -> None:
        """Raise if the file cannot be written to. It writes a page and syncs it to disk."""
        with self.transaction() as connection:
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
        self.wait_for_disk()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read from one consistent state."""
        with self._reading:
            try:
                self._reader.execute("BEGIN")
                with _all_or_nothing(self._reader):
                    yield self._reader
            except sqlite3.Error as error:
                raise _did_not_answer(error) from error

    def close(self) -> None:
        with self._writing, self._reading:
            self._log.close()
            self._reader.close()
            self._writer.close()

    def _upgrade(self, path: Path) -> None:
        """Add missing tables and columns to a file of an older version. Its data stays."""
        if self._version() == len(VERSIONS):
            return
        self._writer.execute("BEGIN IMMEDIATE")
        with _all_or_nothing(self._writer):
            version = self._version()  # another process may have upgraded it
            if version > len(VERSIONS):
                raise ConfigurationError(
                    f"The job store {path} was written by a newer tidyberg (its version is {version}, this tidyberg"
                    f" knows up to {len(VERSIONS)}).",
                    hint="Upgrade this tidyberg, or set store.path (or TIDYBERG_HOME) to another place.",
                )
            for statements in VERSIONS[version:]:
                for statement in statements:
                    self._writer.execute(statement)
            self._writer.execute(f"PRAGMA user_version={len(VERSIONS)}")

    def _version(self) -> int:
        return int(self._writer.execute("PRAGMA user_version").fetchone()[0])


def _create_private(path: Path) -> None:
    """Create the file so that only its owner can read it. SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # SQLite itself syncs only when it moves its log into the file, which keeps the file consistent. Otherwise a commit
    # would hold the lock during a sync.
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors end the transaction
            connection.execute("ROLLBACK")
        raise


def _did_not_answer(error: Exception) -> StorageError:
    return StorageError(f"The job store did not answer ({error}).", hint="See that its disk has room and is well.")
