"""All that is recorded, in one place: SQLite for one machine, Redis for several replicas."""

from dataclasses import dataclass

from tidyberg.record.ledger import Ledger
from tidyberg.record.queue import JobQueue
from tidyberg.record.store import JobStore


@dataclass(frozen=True)
class Records:
    store: JobStore
    queue: JobQueue
    ledger: Ledger

    def close(self) -> None:
        self.store.close()  # the three share one connection
