"""Settles single jobs: for `recover`, for the service before it runs something again, for a job that woke up late."""

import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog

from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.control.recovery import DIED, Recovery, open_groups
from tidyberg.errors import Cancelled, TableBusy, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job
from tidyberg.record.process import this_process
from tidyberg.record.store import JobStore

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settler:
    store: JobStore
    catalog: Callable[[str | None], Catalog]
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    lease_ms: int
    cancel: CancelToken = field(default_factory=CancelToken)
    notify: Callable[[str], None] = log.info  # hears how far a long recovery is

    def settle(self, job: Job) -> str | None:
        """Says what was done; None: it lives, or was settled before its table was ours."""
        claim = self._claim(job)
        try:
            with self._hold(claim):
                found = self.store.get(job.job_id)
                if found is None or not found.is_open:
                    return None
                return self._recovery(claim).recover(self.catalog(job.table.catalog), found)
        except TableBusy:
            return None
        except Cancelled:
            raise
        except TidybergError as error:  # one catalog that does not answer keeps no other from being tidied
            return f"job {job.job_id} is not settled: {error}"

    def outcome(self, job_id: str) -> Job | None:
        """The job as it ended: by itself, or dead after its last commit landed.

        None: there is none, it lives, or it died with work left. What it had finished is kept for the job that goes on.
        """
        job = self.store.get(job_id)
        if job is None or _is_known(job):
            return _unless_died(job)
        claim = self._claim(job)
        try:
            with self._hold(claim):
                found = self.store.get(job_id)
                if found is None or _is_known(found):
                    return _unless_died(found)
                recovery = self._recovery(claim)
                finding = recovery.examine(self.catalog(job.table.catalog), found)
                if finding is None or finding.doubt or open_groups(found, finding):
                    return None
                if not finding.landed and not found.commits:
                    return None
                recovery.conclude(found, finding)
                return _unless_died(self.store.get(job_id))
        except TableBusy:
            return None

    def reopen(self, record: JobRecord) -> str | None:
        """For a job that lost its table: what it wrote since its successor settled it is looked at again."""
        found = self.store.get(record.job.job_id)
        if found is None or found.intent is None:
            return None  # it was not allowed to write
        record.announce_again()  # first: once it is open, another may settle it
        self.store.save(replace(found, unresolved=True))
        return self.settle(found)  # or whoever has the table does so when it ends

    def _claim(self, job: Job) -> Job:
        return replace(job, job_id=str(uuid.uuid4()))

    def _hold(self, claim: Job) -> AbstractContextManager[Lease]:
        return Lease(self.store, claim, this_process(), self.now_ms, ttl_ms=self.lease_ms)

    def _recovery(self, claim: Job) -> Recovery:
        return Recovery(self.store, claim.job_id, self.now_ms, self.sleep, self.cancel, self.notify)


def _is_known(job: Job) -> bool:
    """Whether it ended with an outcome; leftovers may remain."""
    return job.status.is_final and (job.sent is None or not job.unresolved)


def _unless_died(job: Job | None) -> Job | None:
    return None if job is None or job.error_code == DIED else job
