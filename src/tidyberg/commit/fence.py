"""The fence: a tag that keeps a commit which was sent from ever landing, so that its files can be judged for good [I7].

A process may be stopped between its last look at its lease and the commit, a server may have queued the request, an
answer may be lost: no clock tells when such a commit can no longer land. So every commit requires that a tag named for
its job and chunk does not exist, and who settles the job creates that tag: when it stands, the commit has landed before
it or never will.

A commit that adds a snapshot makes older fences needless, and removes them: the stale one would need a sequence number
that is taken. Format version 1 has none, so there a fence stays until it expires with the snapshots of its time.
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
KEPT_MS = 5 * 24 * 60 * 60 * 1000  # as long as Iceberg keeps snapshots unless told otherwise
_TRIES = 5
_PAUSE_SECONDS = 0.2


class FenceInDoubtError(Exception):
    """Nobody can tell whether the fence stands: the catalog did not answer, or refused it."""


def fence_name(job_id: str, chunk: int) -> str:
    return f"{PREFIX}{job_id}-{chunk}"


def no_fence(job_id: str, chunk: int) -> AssertRefSnapshotId:
    """What a commit of that chunk requires."""
    return AssertRefSnapshotId(ref=fence_name(job_id, chunk), snapshot_id=None)


def needless_fences(metadata: TableMetadata) -> list[RemoveSnapshotRefUpdate]:
    """Those that a commit which adds a snapshot can take away."""
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
    """The table at a moment when the fence stood. `attempt` is a name that no other try to put it up has."""
    failure: Exception | None = None
    for number in range(_TRIES):
        if name in table.metadata.refs:
            return table
        try:
            return _tagged(catalog, table, name, f"{attempt}/{number}", about_to_write, now_ms)
        except CommitFailedException as error:  # other writers were faster, or an answer was lost and this is a repeat
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
