"""Puts up a fence: a tag that prevents a sent commit from ever landing, so that its outcome is final [I7].

A process may pause between its last check of the lease and the commit. A server may queue the request. An answer may be
lost. In none of these cases does the time that has passed prove that the commit can no longer succeed. So every commit
requires that a certain tag, named after its job and chunk, does not exist. Recovery creates that tag. Once the tag
exists, the commit has either succeeded before or never will.

A commit that adds a snapshot removes older fences, because the old commit would need a sequence number that is now
taken. Format version 1 has no sequence numbers, so its fences stay until they expire with the snapshots of their time.
"""

import time
from collections.abc import Callable, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)

from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit.ownership import metadata_file_id

PREFIX = "tidyberg-fence-"
KEPT_MS = 5 * 24 * 60 * 60 * 1000  # Iceberg's default age of snapshots to keep
_TRIES = 5
_PAUSE_SECONDS = 0.2


class FenceInDoubtError(Exception):
    """It is unknown whether the fence exists: the catalog did not answer, or refused it."""


def fence_name(job_id: str, chunk: int) -> str:
    return f"{PREFIX}{job_id}-{chunk}"


def no_fence(job_id: str, chunk: int) -> AssertRefSnapshotId:
    """Returns the requirement that a commit of that chunk sends."""
    return AssertRefSnapshotId(ref=fence_name(job_id, chunk), snapshot_id=None)


def needless_fences(metadata: TableMetadata) -> list[RemoveSnapshotRefUpdate]:
    """Returns the fences that a commit removes if it adds a snapshot."""
    if metadata.format_version == 1:
        return []
    return [
        RemoveSnapshotRefUpdate(ref_name=name)
        for name, ref in sorted(metadata.refs.items())
        if name.startswith(PREFIX) and ref.snapshot_ref_type == SnapshotRefType.TAG
    ]


def put_up_fence(
    catalog: Catalog,
    table: Table,
    name: str,
    *,
    attempt: str,
    about_to_write: Callable[[Sequence[str]], None],
    now_ms: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Table:
    """Creates the fence and returns the table as it was then. `attempt` must be unique to this call."""
    failure: Exception | None = None
    for number in range(_TRIES):
        if name in table.metadata.refs:
            return table
        try:
            return _tagged(catalog, table, name, f"{attempt}/{number}", about_to_write, now_ms)
        except CommitFailedException as error:  # another commit was first, or an answer was lost
            failure = error
            sleep(_PAUSE_SECONDS * (number + 1))
        except Exception as error:  # noqa: BLE001  # clients have many; the table tells whether it stands
            failure = error
        try:
            table = catalog.load_table(table.name())
        except Exception as error:
            raise FenceInDoubtError(str(error)) from error
    if name in table.metadata.refs:
        return table
    raise FenceInDoubtError(str(failure)) from failure


def _tagged(
    catalog: Catalog,
    table: Table,
    name: str,
    attempt: str,
    about_to_write: Callable[[Sequence[str]], None],
    now_ms: int,
) -> Table:
    metadata = table.metadata
    snapshot = metadata.current_snapshot() or max(metadata.snapshots, key=lambda one: one.timestamp_ms)
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=name, snapshot_id=None),
    )
    update = SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.TAG,
        snapshot_id=snapshot.snapshot_id,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
        max_ref_age_ms=max(0, now_ms - snapshot.timestamp_ms) + KEPT_MS,  # a ref's age is its snapshot's
    )
    response = send_commit(
        catalog, table, requirements, (update,), file_id=metadata_file_id(attempt), about_to_write=about_to_write
    )
    return Table(table.name(), response.metadata, response.metadata_location, table.io, catalog)
