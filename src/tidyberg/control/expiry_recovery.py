"""Recovers an expiry that died: finds out whether its commit landed, and finishes the deletion of its files [I6]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tidyberg.catalog.metadata_file import swaps_blindly, swaps_in_process
from tidyberg.control.expired_files import ResumedDeletion, remove_lost_metadata, resume_deletion
from tidyberg.model.job import ExpiryTotals, Job
from tidyberg.record.process import is_alive

EXPIRY_GRACE_MS = 600_000  # how long a catalog may still carry out a commit that it did not answer


@dataclass(frozen=True)
class SettledExpiry:
    what: str  # for people
    has_landed: bool
    is_finished: bool  # otherwise the next recovery tries again
    totals: ExpiryTotals | None = None  # None: it did nothing


def doubt_about_expiry(catalog: Catalog, table: Table, job: Job, now_ms: int) -> str | None:
    """Returns the reason why the job's commit could still land, or None.

    If it lands after all, nothing is lost: its files stay in storage, and no snapshot references them.
    """
    record = job.expiry
    assert record is not None
    if record.sent_from is None or _has_landed(table, job):
        return None
    if swaps_in_process(catalog) and _has_ended(job):
        return None  # only the dead process could have made the swap
    compares = not isinstance(catalog, RestCatalog) and not swaps_blindly(catalog)
    if compares and table.metadata_location != record.sent_from:
        return None  # the swap requires that metadata file to be the current one
    if now_ms - (job.heartbeat_ms or job.created_ms) >= EXPIRY_GRACE_MS:
        return None
    return "the catalog may still be working on it"


def settle_expiry(table: Table, job: Job, noted: Sequence[str], check: Callable[[], None]) -> SettledExpiry:
    """The table is freshly loaded. `noted` are the metadata files that the job was about to write."""
    assert job.expiry is not None
    resumed = resume_deletion(table, job, check)
    remove_lost_metadata(table.catalog, table, job, noted, has_ended=_has_ended(job))
    has_landed = job.expiry.sent_from is not None and _has_landed(table, job)
    began = "had expired its snapshots" if has_landed else "had not committed"
    totals = _totals(job, resumed) if has_landed else None
    return SettledExpiry(f"{began}; {resumed.what}", has_landed, resumed.is_finished, totals)


def _totals(job: Job, resumed: ResumedDeletion) -> ExpiryTotals:
    """A list that is gone was removed by the job itself, after it had deleted the files."""
    record, counts = job.expiry, resumed.counts
    assert record is not None
    known = job.expired or ExpiryTotals(len(record.snapshot_ids), len(record.refs), record.files, record.bytes)
    if counts is not None:  # also of the files that were deleted before
        known = replace(known, files_deleted=counts.files, bytes_deleted=counts.bytes)
    return replace(known, files_refused=resumed.refused)


def _has_landed(table: Table, job: Job) -> bool:
    assert job.expiry is not None
    ids = {one.snapshot_id for one in table.metadata.snapshots}
    return ids.isdisjoint(job.expiry.snapshot_ids) and set(table.metadata.refs).isdisjoint(job.expiry.refs)


def _has_ended(job: Job) -> bool:
    return job.owner is not None and is_alive(job.owner) is False
