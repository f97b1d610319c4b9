"""Expires snapshots after a compaction whose options ask for it (`expire_snapshots`).

The expiry is a job of its own, with its own record and lease, so that recovery treats it like any other expiry. The
record of the compaction says what came of it. A compaction that was committed stays, however the expiry ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidyberg.errors import Cancelled, TidybergError
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.job import ExpiryTotals, Job
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import CompactionResult
from tidyberg.record.store import JobStore

_HOUR_MS = 3_600_000
_FAILED = "snapshots were not expired: "  # begins a note of the compaction


def expiry_after(options: PlanOptions) -> ExpireOptions | None:
    """Returns what expires after a compaction with these options, or None."""
    if not options.expire_snapshots:
        return None
    hours = options.snapshot_retention_hours
    return ExpireOptions(older_than_ms=None if hours is None else round(hours * _HOUR_MS))


@dataclass(frozen=True)
class ThenExpire:
    store: JobStore
    expire: Callable[[], ExpiryResult]
    scrub: Callable[[str], str]  # I12

    def add_to(self, result: CompactionResult) -> CompactionResult:
        """Also runs if there was nothing to rewrite, but not after a failure. Raises only if nothing was committed."""
        if result.failure is not None:
            return result
        try:
            expiry = self.run(result.job)
        except Cancelled:
            raise
        except TidybergError as error:
            if not result.has_committed:
                raise
            return replace(result, outcome="partly", failure=error, job=self.store.get(result.job.job_id) or result.job)
        assert expiry.job is not None, "every run is recorded"
        assert expiry.job.expired is not None
        job = with_totals(result.job, expiry.job.expired)
        assert job.stats is not None
        failed = result.has_committed and expiry.failure is not None
        return replace(
            result,
            outcome="partly" if failed else result.outcome,
            failure=expiry.failure,
            job=job,
            stats=job.stats,
            expiry=expiry,
        )

    def run(self, compaction: Job) -> ExpiryResult:
        """Expires snapshots, and adds the result to the record of the compaction."""
        try:
            expiry = self.expire()
        except Cancelled:
            raise
        except TidybergError as error:
            self._save(with_failure(compaction, self.scrub(str(error))))
            raise
        assert expiry.job is not None, "every run is recorded"
        assert expiry.job.expired is not None
        self._save(with_totals(compaction, expiry.job.expired))
        return expiry

    def _save(self, job: Job) -> None:
        self.store.save(job)  # the compaction has ended, so nobody else changes its record


def with_totals(compaction: Job, totals: ExpiryTotals) -> Job:
    """Returns the record of a compaction after which snapshots expired."""
    stats = compaction.stats
    if stats is not None:
        stats = replace(stats, snapshots_expired=totals.snapshots_expired)
    notes = tuple(note for note in compaction.notes if not note.startswith(_FAILED))
    outcome = "committed" if compaction.outcome == "partly" else compaction.outcome
    return replace(compaction, stats=stats, expired=totals, notes=notes, outcome=outcome)


def with_failure(compaction: Job, reason: str) -> Job:
    """The record keeps no error code: the compaction itself succeeded, and the service may try the expiry again."""
    kept = tuple(note for note in compaction.notes if not note.startswith(_FAILED))
    outcome = "partly" if compaction.outcome == "committed" else compaction.outcome
    return replace(compaction, notes=(*kept, f"{_FAILED}{reason}"), outcome=outcome)
