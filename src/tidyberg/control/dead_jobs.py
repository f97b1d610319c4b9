"""Recovers single jobs: for `recover`, for the service before it tries again, for a job that lost its table."""

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
class DeadJobs:
    """Takes the lease of a dead job's table, and then recovers the job."""

    store: JobStore
    catalog: Callable[[str | None], Catalog]
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    lease_ms: int
    cancel: CancelToken = field(default_factory=CancelToken)
    notify: Callable[[str], None] = log.info  # called with the progress of a long recovery

    def recover(self, job: Job) -> str | None:
        """Returns what was done, or None if the job is alive or was recovered before we held its table."""
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
        except TidybergError as error:  # other jobs, in other catalogs, are still recovered
            return f"job {job.job_id} could not be recovered: {error}"

    def outcome(self, job_id: str) -> Job | None:
        """Returns the job if it has ended: by itself, or by dying after its last commit landed.

        Returns None if there is no such job, if it is alive, or if it died with work left. Then its finished groups
        are kept for the job that continues.
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
                if found.expiry is not None:  # finishes the deletion, if its commit landed
                    recovery.conclude(found, finding)
                    return _unless_died(self.store.get(job_id))
                if not finding.landed and not found.commits:
                    return None
                recovery.conclude(found, finding)
                return _unless_died(self.store.get(job_id))
        except TableBusy:
            return None

    def recover_again(self, record: JobRecord) -> str | None:
        """For a job that lost its table. It may have written files after its successor had recovered it."""
        found = self.store.get(record.job.job_id)
        if found is None or found.intent is None:
            return None  # it never wrote anything
        record.announce_again()  # first, because another job may recover it as soon as it is open
        self.store.save(replace(found, unresolved=True))
        return self.recover(found)  # if the table is busy, the job that holds it does this at its end

    def _claim(self, job: Job) -> Job:
        return replace(job, job_id=str(uuid.uuid4()))

    def _hold(self, claim: Job) -> AbstractContextManager[Lease]:
        return Lease(self.store, claim, this_process(), self.now_ms, ttl_ms=self.lease_ms)

    def _recovery(self, claim: Job) -> Recovery:
        return Recovery(self.store, claim.job_id, self.now_ms, self.sleep, self.cancel, self.notify)


def _is_known(job: Job) -> bool:
    """Returns True if the job ended with a known outcome. Some of its files may remain."""
    return job.status.is_final and (not job.unresolved or (job.sent is None and job.expiry is None))


def _unless_died(job: Job | None) -> Job | None:
    return None if job is None or job.error_code == DIED else job
