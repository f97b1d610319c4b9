"""One SQLite file, shared safely by the threads of a process and by the processes of one machine."""

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
_APPLICATION = int.from_bytes(b"tidy")  # tells whose file it is


class SqliteFile:
    """Jobs, queue and ledger go through one connection that writes and one that only reads."""

    def __init__(self, path: Path) -> None:
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _create_private(path)
            self._writer = _connect(path)
            # A reader sees the last commit and waits for nobody, not even while a commit reaches the disk.
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
        """One writer at a time, in this process and among all: BEGIN IMMEDIATE takes the file's lock first.

        What is durable outlives a power cut, with all that was written before it; all else outlives processes.
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
        """Until what was seen in a transaction is durable, whoever wrote it."""
        try:
            self._log.wait()
        except OSError as error:
            raise _did_not_answer(error) from error

    def check_write(self) -> None:
        """Raises when the file takes no writes; a page of it is written and brought to the disk."""
        with self.transaction() as connection:
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
        self.wait_for_disk()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """All that is read inside is of one moment."""
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
        """A file of an older version gets what it lacks; what it holds stays."""
        if self._version() == len(VERSIONS):
            return
        self._writer.execute("BEGIN IMMEDIATE")
        with _all_or_nothing(self._writer):
            version = self._version()  # another process may have been first
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
    """Only its owner reads it: it names tables, paths and who did what. SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # SQLite itself asks the disk only when it moves its log into the file, so that the two agree. Otherwise a commit
    # would hold the lock for as long as the disk takes.
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors end it by themselves
            connection.execute("ROLLBACK")
        raise


def _did_not_answer(error: Exception) -> StorageError:
    return StorageError(f"The job store did not answer ({error}).", hint="See that its disk has room and is well.")
