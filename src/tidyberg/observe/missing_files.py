"""Looks for the files of retained snapshots in storage, by listing the table's directories."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.errors import AccessDenied, StorageError, TidybergError
from tidyberg.observe.locations import inside, table_roots
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reachable import ReachedManifests, statistics_of
from tidyberg.storage.listing import files_below
from tidyberg.storage.table_files import exists

_LOOKUPS = 16


@dataclass(frozen=True)
class Presence:
    """The result of looking for all files that snapshots reference."""

    references: int  # a file can have several
    missing: tuple[str, ...]


def find_missing(table: Table, retained: ReachedManifests) -> Presence:
    """Files in the table's directories are found by listing, others by a request each. Reads no file's content."""
    check = retained.check
    try:
        listed = _listed(table, retained)
        metadata = table.metadata
        own = [*retained.lists.values(), *(info.path for info in retained.manifests.values())]
        statistics = statistics_of(metadata, [one.snapshot_id for one in metadata.snapshots])["path"]
        roots = table_roots(metadata)
        unseen = _unseen(pa.chunked_array([own], TEXT), listed, roots) | _unseen(statistics, listed, roots)
        references = len(own) + len(statistics)
        for paths in retained.entry_paths():
            references += len(paths)
            unseen |= _unseen(paths, listed, roots)
        return Presence(references, tuple(sorted(absent(table.io, sorted(unseen), check))))
    except OSError as error:
        raise _no_listing(table, error) from error


def _listed(table: Table, retained: ReachedManifests) -> pa.Array:
    """The keys of all files in the table's directories."""
    remote = retained.engine_reads.files if retained.engine_reads is not None else None
    keys = [
        path_keys(piece["path"])
        for root in table_roots(table.metadata)
        for piece in files_below(table.io, root, retained.check, remote)
    ]
    return pa.chunked_array([chunk for one in keys for chunk in one.chunks], TEXT).combine_chunks()


def _unseen(paths: pa.ChunkedArray, listed: pa.Array, roots: Sequence[str]) -> set[str]:
    if not len(paths):
        return set()
    seen = pc.and_(pc.is_in(path_keys(paths), value_set=listed), inside(paths, roots))
    return set(paths.filter(pc.invert(seen)).to_pylist())


def absent(io: FileIO, paths: Sequence[str], check: Callable[[], None]) -> list[str]:
    """Asks for each file that no listing showed: it may lie elsewhere, or be spelled differently."""

    def is_there(path: str) -> bool:
        check()
        return exists(io, path)

    with ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="lookups") as pool:
        return [path for path, there in zip(paths, pool.map(is_there, paths), strict=True) if not there]


def _no_listing(table: Table, error: OSError) -> TidybergError:
    kind = AccessDenied if isinstance(error, PermissionError) else StorageError
    return kind(
        f"The files of {'.'.join(table.name())} cannot be listed: {error}.",
        hint="Give the catalog's storage credentials the right to list the table's location, or use --no-verify.",
    )
