"""The stores of an installation: SQLite for one machine, Redis for several replicas."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidyberg.model.job import Owner
from tidyberg.record.ledger import Ledger
from tidyberg.record.queue import JobQueue
from tidyberg.record.sqlite import SqliteStore
from tidyberg.record.sqlite_file import SqliteFile
from tidyberg.record.sqlite_ledger import SqliteLedger
from tidyberg.record.sqlite_queue import SqliteQueue
from tidyberg.record.store import JobStore


@dataclass(frozen=True)
class Records:
    store: JobStore
    queue: JobQueue
    ledger: Ledger
    check_write: Callable[[], None] = lambda: None  # raises if the store cannot be written to
    clock_ms: Callable[[], int] | None = None  # the clock of a store that several machines share

    def close(self) -> None:
        self.store.close()  # the three share one connection


def open_sqlite(path: Path, is_alive: Callable[[Owner], bool | None]) -> Records:
    file = SqliteFile(path)
    return Records(SqliteStore(file, is_alive), SqliteQueue(file), SqliteLedger(file), file.check_write)
