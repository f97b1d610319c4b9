"""Deletes the files on the list of an expiry: right after its commit, or later if that run was interrupted [I6].

Deletion is safe whatever became of the commit. It deletes only files that a fresh look at the table finds unreferenced,
over all its snapshots, and that lie in the table's locations. If the commit did not land, its snapshots still reference
every file on the list.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.catalog.metadata_file import swaps_blindly, swaps_in_process
from tidyberg.commit.ownership import Ownership, name_of
from tidyberg.control.expiry_list import is_list_of, read_list, remove_list
from tidyberg.errors import DamagedFile
from tidyberg.model.expiry import FileCounts
from tidyberg.model.job import Job
from tidyberg.model.words import plural
from tidyberg.observe.locations import inside, table_roots
from tidyberg.observe.path_keys import TEXT
from tidyberg.observe.reachable import FilesToDelete, ReachedManifests, count_files
from tidyberg.storage.table_files import delete_many

_AT_A_TIME = 100_000  # paths in memory as Python texts; the lease is checked before each request


@dataclass(frozen=True)
class DeletedFiles:
    counts: FileCounts
    refused: dict[str, str] = field(default_factory=dict)  # path -> what storage said

    @property
    def first_refused(self) -> str | None:
        return next((f"{path} ({said})" for path, said in sorted(self.refused.items())), None)


def delete_files(
    io: FileIO, files: pa.Table, check: Callable[[], None], progress: Callable[[int], None] = lambda _: None
) -> DeletedFiles:
    """`check` is called before each batch, and ends the deletion if it raises."""
    refused: dict[str, str] = {}
    for start in range(0, files.num_rows, _AT_A_TIME):
        check()
        paths = files["path"].slice(start, _AT_A_TIME).to_pylist()

        def report(done: int, start: int = start) -> None:
            progress(start + done)

        refused |= delete_many(io, paths, check=check, progress=report)
    if refused:
        files = files.filter(pc.invert(pc.is_in(files["path"], value_set=pa.array(list(refused), TEXT))))
    return DeletedFiles(count_files(files), refused)


@dataclass(frozen=True)
class ResumedDeletion:
    """The result of finishing the list of an interrupted run."""

    what: str  # for people
    is_finished: bool
    counts: FileCounts | None = None  # of the files that are gone now; None: the list was gone before
    refused: int = 0  # files that storage did not delete


def resume_deletion(table: Table, job: Job, check: Callable[[], None]) -> ResumedDeletion:
    """Deletes what an interrupted run left. The table is freshly loaded, and the caller holds it."""
    record = job.expiry
    assert record is not None, "only runs that expire snapshots have a list"
    if not is_list_of(table, record.list_path, job.job_id):
        return ResumedDeletion(f"its list {record.list_path} is not in the table's metadata location: left alone", True)
    try:
        files = read_list(table.io, record.list_path, job.job_id, str(table.metadata.table_uuid))
    except DamagedFile as error:
        remove_list(table.io, record.list_path)
        if record.sent_from is None:  # it died while it wrote the list
            return ResumedDeletion("nothing was deleted", True)
        return ResumedDeletion(f"{error.message}; files that it named are left in storage", True)
    if files is None:
        return ResumedDeletion("all files on its list were deleted before", True)
    known = {one.snapshot_id for one in table.metadata.snapshots}
    landed = not known.issuperset(record.snapshot_ids)
    deleted = DeletedFiles(FileCounts())
    if landed:  # otherwise all its snapshots are there, and need every file on the list
        retained = ReachedManifests(table.io, check)
        retained.add(table.metadata.snapshots)
        to_delete = FilesToDelete(files.filter(inside(files["path"], table_roots(table.metadata))))
        to_delete.protect(table, retained)
        deleted = delete_files(table.io, to_delete.ordered(), check)
    if deleted.refused:
        what = f"{plural(len(deleted.refused), 'file')} could not be deleted, first {deleted.first_refused}"
        return ResumedDeletion(what, False, deleted.counts, len(deleted.refused))
    if (said := remove_list(table.io, record.list_path)) is not None:
        return ResumedDeletion(f"its list {record.list_path} could not be deleted ({said})", False, deleted.counts)
    # Some of them may have been gone before: the list does not say which.
    what = f"{plural(deleted.counts.files, 'file')} of its list are gone now" if landed else "nothing was deleted"
    return ResumedDeletion(what, True, deleted.counts)


def remove_lost_metadata(catalog: Catalog, fresh: Table, job: Job, noted: Sequence[str], *, has_ended: bool) -> None:
    """Removes metadata files that attempts of the job wrote and the table does not use.

    A file stays where its attempt could still land: a server may finish a swap after its client is gone. That is ruled
    out if the swap happens in a process and has ended there, or compares with a metadata file that is not current now.
    """
    assert job.expiry is not None
    has_moved = fresh.metadata_location != job.expiry.sent_from and not swaps_blindly(catalog)
    if not has_moved and not (has_ended and swaps_in_process(catalog)):
        return
    used = {name_of(fresh.metadata_location), *(name_of(one.metadata_file) for one in fresh.metadata.metadata_log)}
    ownership = Ownership.of(fresh, job.job_id)
    lost = [path for path in noted if ownership.owns(path) and name_of(path) not in used]
    delete_many(fresh.io, lost)
