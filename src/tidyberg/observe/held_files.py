"""Finds every file of a table with its size, and which snapshots need it: one listing, each manifest read once.

The listing comes first, because a writer may commit meanwhile: its files are then referenced, and not orphans. Paths
are kept in Arrow tables and numbers in numpy arrays. What snapshots need is kept as the smallest level of the snapshots
(planning/holders.py), so that the number of snapshots does not matter.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidyberg.errors import AccessDenied, DamagedFile, StorageError
from tidyberg.model.manifest import ManifestInfo
from tidyberg.observe.locations import inside, table_roots
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.missing_files import absent
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reachable import FILES, FileKind, entries_by_manifest
from tidyberg.storage.table_files import files_in

METADATA_JSON, OTHER = len(FileKind), len(FileKind) + 1  # kinds of files that no snapshot references
VERSION_HINT = "version-hint.text"
_THREADS = 8
_LISTS_AT_A_TIME = 32
_ROWS_AT_A_TIME = 500_000
_LISTED_AT_A_TIME = 100_000
_MOST_LOOKUPS = 1_000

Int8s = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StoredFiles:
    """Everything below the table's locations."""

    paths: pa.ChunkedArray
    sizes: Numbers
    modified_ms: Numbers

    @classmethod
    def of(cls, table: Table, check: Callable[[], None]) -> "StoredFiles":
        paths: list[pa.Array] = []
        sizes: list[Numbers] = []
        modified: list[Numbers] = []
        for piece in _listing(table, check):
            locations, lengths, times = zip(*piece, strict=True)
            paths.append(pa.array(locations, TEXT))
            sizes.append(np.array(lengths, np.int64))
            modified.append(np.array(times, np.int64))
        none = [np.zeros(0, np.int64)]
        return cls(pa.chunked_array(paths, TEXT), np.concatenate(sizes or none), np.concatenate(modified or none))


def _listing(table: Table, check: Callable[[], None]) -> Iterator[list[tuple[str, int, int]]]:
    for root in _outermost(table_roots(table.metadata)):
        held: list[tuple[str, int, int]] = []
        try:
            for file in files_in(table.io, root, recursive=True):
                held.append((file.location, file.size, file.modified_ms))
                if len(held) >= _LISTED_AT_A_TIME:
                    check()
                    yield held
                    held = []
        except PermissionError as error:
            hint = "Give the catalog's storage credentials the right to list the table's location."
            raise AccessDenied(f"Cannot list {root}: {error}.", hint=hint) from error
        except OSError as error:
            raise StorageError(f"Cannot list {root}: {error}.", hint="Check the storage, then try again.") from error
        if held:
            yield held


def _outermost(roots: Sequence[str]) -> list[str]:
    """Without roots that lie below others: their files would be listed twice."""

    def is_below(root: str) -> bool:
        others = [other for other in roots if other != root]
        return bool(others and inside(pa.chunked_array([[root]], TEXT), others)[0].as_py())

    return [root for root in roots if not is_below(root)]


@dataclass
class HeldFiles:
    """The files that snapshots and the table's metadata reference. `levels` has the level of each snapshot."""

    io: FileIO
    levels: Mapping[int, int]
    heads: Mapping[int, Sequence[int]]  # snapshot id -> numbers of the refs that point to it
    unreferenced: int  # the level of files that nothing needs
    check: Callable[[], None]
    skip: Callable[[DamagedFile], None]
    files: pa.Table = field(default_factory=FILES.empty_table)
    file_levels: Int8s = field(default_factory=lambda: np.zeros(0, np.int8))
    needed: dict[int, list[Numbers]] = field(default_factory=lambda: defaultdict(list))  # by ref
    _keys: pa.Array = field(default_factory=lambda: pa.array([], TEXT))

    def add_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Reads the manifest lists, then each manifest once."""
        infos: dict[str, ManifestInfo] = {}  # by path
        levels: dict[str, int] = {}
        refs: dict[str, set[int]] = defaultdict(set)
        for snapshot, listed in self._lists([one for one in snapshots if one.manifest_list]):
            level, heads = self.levels[snapshot.snapshot_id], self.heads.get(snapshot.snapshot_id, ())
            for info in listed:
                infos.setdefault(info.path, info)
                levels[info.path] = min(level, levels.get(info.path, self.unreferenced))
                if heads:
                    refs[info.path].update(heads)
        self._add_manifests(infos, levels, refs)
        for piece in self._entries(list(infos.values())):
            tables = [table for _, table in piece]
            each = np.repeat([levels[path] for path, _ in piece], [len(table) for table in tables])
            ids = self.add(pa.concat_tables(tables), each.astype(np.int8))
            start = 0
            for path, table in piece:
                for ref in refs.get(path, ()):
                    self.needed[ref].append(ids[start : start + len(table)])
                start += len(table)

    def _lists(self, snapshots: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, list[ManifestInfo]]]:
        def read(snapshot: Snapshot) -> list[ManifestInfo]:
            self.check()
            try:
                return read_manifest_list(self.io, snapshot.manifest_list)
            except DamagedFile as error:
                self.skip(error)
                return []

        self._add_files(
            [(one.manifest_list, FileKind.MANIFEST_LIST, 0) for one in snapshots],
            [self.levels[one.snapshot_id] for one in snapshots],
            [self.heads.get(one.snapshot_id, ()) for one in snapshots],
        )
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="lists") as pool:
            for start in range(0, len(snapshots), _LISTS_AT_A_TIME):
                several = snapshots[start : start + _LISTS_AT_A_TIME]
                yield from zip(several, pool.map(read, several), strict=True)

    def _add_manifests(
        self, infos: Mapping[str, ManifestInfo], levels: Mapping[str, int], refs: Mapping[str, set[int]]
    ) -> None:
        self._add_files(
            [(info.path, FileKind.MANIFEST, info.length) for info in infos.values()],
            [levels[path] for path in infos],
            [sorted(refs.get(path, ())) for path in infos],
        )

    def add_statistics(self, table: Table) -> None:
        found = (*table.metadata.statistics, *table.metadata.partition_statistics)
        self._add_files(
            [(one.statistics_path, FileKind.STATISTICS, one.file_size_in_bytes) for one in found],
            # Java keeps statistics of a snapshot that does not exist: nothing but the table needs them.
            [self.levels.get(one.snapshot_id, 0) for one in found],
            [self.heads.get(one.snapshot_id, ()) for one in found],
        )

    def add_metadata_files(self, table: Table, level: int) -> None:
        directory = table.metadata_location.rpartition("/")[0]
        named = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
        rows = [(path, METADATA_JSON, 0) for path in named]
        rows.append((f"{directory}/{VERSION_HINT}", OTHER, 0))
        self._add_files(rows, [level] * len(rows), [()] * len(rows))

    def _add_files(
        self, rows: Sequence[tuple[str, int, int]], levels: Sequence[int], refs: Sequence[Sequence[int]]
    ) -> None:
        paths, kinds, sizes = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [
            pa.array(paths, TEXT),
            pa.array([int(kind) for kind in kinds], pa.int8()),
            pa.array(sizes, pa.int64()),
        ]
        ids = self.add(pa.table(columns, schema=FILES), np.array(levels, np.int8))
        by_ref: dict[int, list[int]] = defaultdict(list)
        for number, several in zip(ids.tolist(), refs, strict=True):
            for ref in several:
                by_ref[ref].append(number)
        for ref, numbers in by_ref.items():
            self.needed[ref].append(np.array(numbers, np.int64))

    def add(self, files: pa.Table, levels: Int8s) -> Numbers:
        """Adds files, some of which may be known, and returns their numbers."""
        keys = path_keys(files["path"])
        found = pc.index_in(keys, value_set=self._keys)
        if found.null_count:
            is_new = found.is_null()
            new = pa.chunked_array([keys.filter(is_new).combine_chunks()], TEXT).unique()
            first = pc.index_in(new, value_set=keys.combine_chunks())
            self.files = pa.concat_tables([self.files, files.take(first)]).combine_chunks()
            self._keys = pa.concat_arrays([self._keys, new])
            fill = np.full(len(new), self.unreferenced, np.int8)
            self.file_levels = np.concatenate([self.file_levels, fill])
            found = pc.index_in(keys, value_set=self._keys)
        ids: Numbers = found.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
        np.minimum.at(self.file_levels, ids, levels)
        return ids

    def _entries(self, manifests: Sequence[ManifestInfo]) -> Iterator[list[tuple[str, pa.Table]]]:
        held: list[tuple[str, pa.Table]] = []
        rows = 0
        for path, entries in entries_by_manifest(self.io, manifests, self.check, self.skip):
            held.append((path, entries))
            rows += len(entries)
            if rows >= _ROWS_AT_A_TIME:
                yield held
                held, rows = [], 0
        if held:
            yield held

    def find(self, listed: StoredFiles) -> Numbers:
        """The number of each listed file, or -1 if nothing references it."""
        found = pc.index_in(path_keys(listed.paths), value_set=self._keys)
        numbers: Numbers = pc.fill_null(found, -1).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def unlisted(self, table: Table, numbers: Numbers) -> tuple[pa.Table, list[str]]:
        """The referenced files outside of the table's locations, and those inside that do not exist.

        A file that no listing showed is looked for once more: it may have been written since, or be spelled otherwise.
        """
        is_listed = np.zeros(len(self.files), np.bool_)
        is_listed[numbers[numbers >= 0]] = True
        rest = self.files.filter(pa.array(~is_listed))
        rest = rest.filter(pc.less(rest["kind"], OTHER))  # a version hint is optional
        is_inside = inside(rest["path"], table_roots(table.metadata))
        outside = rest.filter(pc.invert(is_inside))
        return outside, self._missing(sorted(rest["path"].filter(is_inside).to_pylist()))

    def _missing(self, paths: Sequence[str]) -> list[str]:
        """If none of many exists, the listing is right, and a request for each of the others would be in vain."""
        few, others = paths[:_MOST_LOOKUPS], paths[_MOST_LOOKUPS:]
        gone = absent(self.io, few, self.check)
        return [*gone, *(others if len(gone) == len(few) else absent(self.io, others, self.check))]


def kinds_by_name(paths: pa.ChunkedArray) -> Int8s:
    """The kind of files that nothing references, from their names."""
    is_metadata = pc.match_substring_regex(paths, r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")
    flags = is_metadata.combine_chunks().to_numpy(zero_copy_only=False)
    kinds: Int8s = np.where(flags, METADATA_JSON, OTHER).astype(np.int8)
    return kinds
