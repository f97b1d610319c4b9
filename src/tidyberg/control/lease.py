"""Holds a table while a job runs, with a lease that a background thread renews."""

import threading
import time
from collections.abc import Callable
from types import TracebackType

from tidyberg.errors import Conflict, TableBusy, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, Owner
from tidyberg.record.store import JobStore

LEASE_MS = 60_000
_ASK_AGAIN_SECONDS = 1.0
_RELEASE_PAUSES = (0.1, 0.2, 0.4, 0.8)


class Lease:
    """A context manager that holds the table, or raises TableBusy after `wait_seconds`.

    A process that is stopped for longer than the lease loses it: then `lost` becomes True and `cancel` is
    cancelled. `waited` is True if another job held the table at first.
    """

    def __init__(
        self,
        store: JobStore,
        job: Job,
        owner: Owner,
        now_ms: Callable[[], int],
        *,
        ttl_ms: int = LEASE_MS,
        wait_seconds: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
        cancel: CancelToken | None = None,
    ) -> None:
        self._store = store
        self._table_uuid = job.table_uuid
        self._job = job
        self._owner = owner
        self.now_ms = now_ms
        self._ttl_ms = ttl_ms
        self.lost = False
        self.waited = False
        self._wait_seconds = wait_seconds
        self._sleep = sleep
        self._cancel = cancel or CancelToken()
        self._stopped = threading.Event()
        self._renewed = 0.0  # by the monotonic clock, before the store was asked
        self._renewer = threading.Thread(target=self._renew_until_stopped, name="tidyberg-lease", daemon=True)

    def __enter__(self) -> "Lease":
        waited = 0.0
        while (holder := self._acquire()) is not None:
            if waited >= self._wait_seconds:
                raise TableBusy(
                    f"Job {holder} is working on {self._job.table}.",
                    hint="Wait for it to end, or let --wait do so; `tidyberg history` shows it.",
                )
            self.waited = True
            pause = min(_ASK_AGAIN_SECONDS, self._wait_seconds - waited)
            self._sleep(pause)
            waited += pause
            self._cancel.raise_if_cancelled()
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._renewer.join()
        self._release()

    def check(self, unless_within: float = 0.0) -> None:
        """Renews the lease. I7: a job that lost it commits nothing and deletes nothing.

        Does not ask the store if the last renewal is less than `unless_within` seconds ago, for callers that check
        often. Nobody else gets a lease that was just renewed.
        """
        if time.monotonic() - self._renewed >= min(unless_within, self._ttl_ms / 4000):
            self._renew()
        self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Raises if the loss is already known. Does not ask the store."""
        if (loss := self.loss) is not None:
            raise loss

    @property
    def loss(self) -> Conflict | None:
        if not self.lost:
            return None
        return Conflict(
            f"Another job took over {self._job.table}: this one did not renew its lease in time.",
            hint="It commits nothing more. The other job continues what it had finished.",
        )

    def lose(self) -> None:
        self.lost = True
        self._cancel.cancel()  # stops the engine

    def _release(self) -> None:
        """Never raises, because the job's own outcome must reach the caller."""
        for pause in _RELEASE_PAUSES:
            try:
                self._store.release(self._table_uuid, self._job.job_id)
                return
            except TidybergError:
                self._sleep(pause)
        # Otherwise the lease expires, because nothing renews it, and the next job gets the table.

    def _acquire(self) -> str | None:
        return self._store.acquire(
            self._table_uuid, self._job.job_id, self._owner, now_ms=self.now_ms(), ttl_ms=self._ttl_ms
        )

    def _renew(self) -> None:
        asked = time.monotonic()
        if not self._store.renew(self._table_uuid, self._job.job_id, now_ms=self.now_ms(), ttl_ms=self._ttl_ms):
            self.lose()
        self._renewed = asked

    def _renew_until_stopped(self) -> None:
        while not self._stopped.wait(self._ttl_ms / 3000):
            try:
                self._renew()
            except TidybergError:
                continue  # the store may answer again before the lease ends; check() decides before a commit
