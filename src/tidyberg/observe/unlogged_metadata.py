"""Reads metadata files of a table that its catalog does not know: they are neither current nor in the table's log.

Such a file has one of these reasons:

- It fell out of the log, which keeps the newest entries. Then it is older than everything in the log.
- Its commit never landed, because the writer crashed or was too slow. No other metadata file builds on it.
- Its commit landed in another catalog, where the same table is registered. Or it landed in this one, which shows an
  older state now: from a cache, or because it was restored from a backup.

The last two cannot be told apart by a single file. If the file builds on another one that the catalog does not know
either, then that one was committed somewhere, and only the third reason is left.
"""

import gzip
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot

from tidyberg.errors import DamagedFile, Unsupported
from tidyberg.observe.metadata_heads import MetadataHead
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reachable import ReachedManifests, live_entries
from tidyberg.storage.table_files import read_bytes

# Iceberg's Java library refuses a commit whose time is further than this before the one that it builds on.
_CLOCKS_MS = 60_000
_READERS = 8
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class KnownHistory:
    """The metadata files that a table knows, and how far back it knows them."""

    table_uuid: str
    current: str  # the key of the current metadata file
    keys: frozenset[str]  # of the current one and those in the log
    oldest_ms: int
    newest_ms: int
    sequence_number: int

    @classmethod
    def of(cls, table: Table) -> "KnownHistory":
        metadata, log = table.metadata, table.metadata.metadata_log
        current, *others = keys_of([table.metadata_location, *(entry.metadata_file for entry in log)])
        return cls(
            str(metadata.table_uuid).lower(),
            current,
            frozenset([current, *others]),
            min((entry.timestamp_ms for entry in log), default=metadata.last_updated_ms),
            metadata.last_updated_ms,
            _sequence_number(metadata),
        )

    def unlogged(self, paths: Collection[str]) -> list[str]:
        listed = sorted(set(paths))
        return [path for path, key in zip(listed, keys_of(listed), strict=True) if key not in self.keys]

    def is_recent(self, head: MetadataHead) -> bool:
        """False if the file is older than everything in the log, so that it has fallen out of it."""
        if head.last_updated_ms is None or head.last_updated_ms >= self.oldest_ms - _CLOCKS_MS:
            return True
        return head.last_sequence_number is not None and head.last_sequence_number > self.sequence_number


@dataclass(frozen=True)
class UnloggedState:
    """The content of one metadata file that the table does not know."""

    path: str
    key: str
    document: Mapping[str, Any]
    log: tuple[str, ...]  # keys of the files that it builds on, oldest first

    @property
    def last_updated_ms(self) -> int:
        return int(self.document["last-updated-ms"])

    @property
    def sequence_number(self) -> int:
        return int(self.document.get("last-sequence-number") or 0)  # version 1 has none

    @cached_property
    def metadata(self) -> TableMetadata:
        """Validating it takes several times as long as reading it, and most states are not looked at that closely."""
        try:
            return TableMetadataUtil.parse_obj(dict(self.document))
        except (ValueError, ValidationError) as error:
            raise _unreadable(self.path, error) from error

    def unknown_base(self, history: KnownHistory) -> str | None:
        """A metadata file that this one builds on and the table does not know: it was committed elsewhere."""
        known = [number for number, key in enumerate(self.log) if key in history.keys]
        if known:
            after = self._entries[known[-1] + 1 :]
            return str(after[-1]["metadata-file"]) if after else None
        # Its log has nothing in common with the table's. That is also so of files that just fell out of the log.
        base = self._entries[-1] if self.log else None
        is_base_new = base is not None and base["timestamp-ms"] > history.oldest_ms + _CLOCKS_MS
        return str(base["metadata-file"]) if base is not None and is_base_new else None

    @property
    def _entries(self) -> Sequence[Mapping[str, Any]]:
        entries: Sequence[Mapping[str, Any]] = self.document.get("metadata-log") or ()
        return entries

    def fell_out_of(self, history: KnownHistory) -> bool:
        """Returns True if it is older than the log of the table, and builds on nothing in it."""
        is_old = self.last_updated_ms <= history.oldest_ms + _CLOCKS_MS
        return is_old and history.keys.isdisjoint(self.log)

    def is_newer(self, history: KnownHistory) -> bool:
        """Returns True if it follows the current state, or was made after it."""
        return (
            self.log[-1:] == (history.current,)
            or self.last_updated_ms > history.newest_ms
            or self.sequence_number > history.sequence_number
        )

    def named_files(
        self, io: FileIO, check: Callable[[], None], known: ReachedManifests, snapshot_ids: Collection[int]
    ) -> Iterator[pa.ChunkedArray]:
        """Yields the locations that it names: itself, its statistics, and the files of snapshots that are not known.

        Missing and damaged manifests are left out. A reader of this state cannot read what they name either.
        """
        metadata = self.metadata
        unknown = [one for one in metadata.snapshots if one.snapshot_id not in snapshot_ids]
        self._require_lists(unknown)
        reached = ReachedManifests(io, check)
        reached.add(unknown, _leave_out)
        named = [self.path, *(one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics))]
        named += [*reached.lists.values(), *(info.path for info in reached.manifests.values())]
        yield pa.chunked_array([named], TEXT)
        new = [info for key, info in reached.manifests.items() if key not in known.manifests]
        for piece in live_entries(io, new, check, _leave_out):
            yield piece["path"]

    def _require_lists(self, snapshots: Sequence[Snapshot]) -> None:
        if any(not one.manifest_list for one in snapshots):
            raise Unsupported(
                f"A snapshot in {self.path} has no manifest list, so its files are not known.",
                hint="If that metadata file was never committed, delete it.",
            )


def _sequence_number(metadata: TableMetadata) -> int:
    return int(getattr(metadata, "last_sequence_number", 0) or 0)  # version 1 has none


def _leave_out(error: DamagedFile) -> None:
    del error


def read_states(
    io: FileIO, heads: Sequence[MetadataHead], check: Callable[[], None], is_wanted: Callable[[str], bool]
) -> Iterator[UnloggedState]:
    """Yields the newest first. `is_wanted` is asked right before a file is read, with its key.

    The newest one alone usually shows that another catalog has committed, so it is read before the others.
    """
    ordered = sorted(heads, key=lambda head: (head.last_updated_ms or 0, head.path), reverse=True)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="metadata") as pool:
        start, length = 0, 1
        while start < len(ordered):
            several = [head.path for head in ordered[start : start + length]]
            wanted = [path for path, key in zip(several, keys_of(several), strict=True) if is_wanted(key)]
            for state in pool.map(lambda path: _read_state(io, path, check), wanted):
                if state is not None:
                    yield state
            start, length = start + length, _READERS


def _read_state(io: FileIO, path: str, check: Callable[[], None]) -> UnloggedState | None:
    check()
    try:
        content = read_bytes(io, path)
    except DamagedFile:
        return None  # deleted since it was listed
    try:
        document = json.loads(gzip.decompress(content) if content[:2] == _GZIP else content)
        log = [str(entry["metadata-file"]) for entry in document.get("metadata-log") or ()]
        (key, *keys) = keys_of([path, *log])
        state = UnloggedState(path, key, document, tuple(keys))
        _ = state.last_updated_ms, state.sequence_number, [int(entry["timestamp-ms"]) for entry in state._entries]
    except (AttributeError, EOFError, LookupError, OSError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error
    return state


def _unreadable(path: str, error: Exception) -> DamagedFile:
    return DamagedFile(
        f"{path} is not a metadata file that can be read: {error}.",
        hint="It has the id of this table, so files that it names may be needed. If it was never committed, delete it.",
    )


def keys_of(paths: Sequence[str]) -> list[str]:
    found: list[str] = path_keys(pa.chunked_array([list(paths)], TEXT)).to_pylist()
    return found
