"""Finds the files that snapshots reference: manifest lists, manifests, data and delete files, statistics.

Everything is kept in Arrow tables, because a table may have millions of files. Manifests that several snapshots share
are read once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidyberg.errors import DamagedFile
from tidyberg.model.expiry import FileCounts
from tidyberg.model.manifest import ManifestInfo
from tidyberg.observe.engine_reads import REACHABLE_COLUMNS, EngineReads
from tidyberg.observe.manifest_lists import read_manifest_lists
from tidyberg.observe.path_keys import TEXT, path_keys
from tidyberg.observe.reading import RemoteReader, stream_entries
from tidyberg.storage.table_files import read_bytes

# Manifests that are read together, although one may be damaged. Many small ones are decoded much faster than one each.
_BUNDLE, _BUNDLE_BYTES = 4096, 32 * 1024 * 1024
REMEMBERED_BYTES = 64 * 1024 * 1024  # of manifests, whose paths take about as much
_ROWS_AT_A_TIME = 500_000  # bounds the paths in memory while they are compared or made unique


class FileKind(IntEnum):
    """The first three are Iceberg's numbers for the content of a file. Files are deleted in this order."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2
    STATISTICS = 3
    MANIFEST = 4
    MANIFEST_LIST = 5


FILES = pa.schema([("path", TEXT), ("kind", pa.int8()), ("size", pa.int64())])


def _never() -> None:
    return None


@dataclass
class ReachedManifests:
    """The manifest lists and manifests of some snapshots. `add` reads only what was not read before."""

    io: FileIO
    check: Callable[[], None] = _never  # called before each read; ends it if it raises
    engine_reads: EngineReads | None = None  # None: this process reads everything
    lists: dict[str, str] = field(default_factory=dict)  # key -> path
    manifests: dict[str, ManifestInfo] = field(default_factory=dict)  # by key
    _remembered: list[pa.ChunkedArray] = field(default_factory=list)  # paths of entries that were read before
    _remembered_keys: set[str] = field(default_factory=set)  # of their manifests

    def add(self, snapshots: Iterable[Snapshot], skip: Callable[[DamagedFile], None] | None = None) -> None:
        """`skip` is called about a damaged or missing list, which then adds nothing. Without it, that is an error."""
        lists = _by_key({one.manifest_list for one in snapshots if one.manifest_list})
        new = {key: path for key, path in lists.items() if key not in self.lists}
        found = read_manifest_lists(self.io, list(new.values()), self.check, skip)
        for key, path in _by_key(found).items():
            self.manifests.setdefault(key, found[path])
        self.lists |= new

    def entry_paths(self, known: Collection[str] = ()) -> Iterator[pa.ChunkedArray]:
        """Yields the paths of live entries, without manifests whose keys are known.

        Remembers them if there are not too many, so that deciding and verifying read each manifest once.
        """
        if not known:
            yield from self._remembered
        skipped = known or self._remembered_keys
        new = {key: info for key, info in self.manifests.items() if key not in skipped}
        keeps = self.bytes < REMEMBERED_BYTES
        for piece in live_entries(self.io, list(new.values()), self.check, remote=self.remote):
            if keeps:
                self._remembered.append(piece["path"])
            yield piece["path"]
        if keeps:
            self._remembered_keys |= set(new)

    @property
    def remote(self) -> RemoteReader | None:
        return self.engine_reads.manifests(self.io) if self.engine_reads is not None else None

    @property
    def bytes(self) -> int:
        return sum(info.length for info in self.manifests.values())

    @property
    def spec_ids(self) -> set[int]:
        return {info.spec_id for info in self.manifests.values()}


def _by_key(paths: Collection[str]) -> dict[str, str]:
    named = sorted(paths)
    return dict(zip(path_keys(pa.chunked_array([named], TEXT)).to_pylist(), named, strict=True))


def live_entries(
    io: FileIO,
    manifests: Sequence[ManifestInfo],
    check: Callable[[], None] = _never,
    skip: Callable[[DamagedFile], None] | None = None,
    remote: RemoteReader | None = None,
) -> Iterator[pa.Table]:
    """Yields the live entries of the manifests as tables of FILES, in pieces of bounded size."""
    pieces: list[pa.Table] = []
    rows = 0
    for _, entries in entries_by_manifest(io, manifests, check, skip, remote):
        pieces.append(entries)
        rows += entries.num_rows
        if rows >= _ROWS_AT_A_TIME:
            yield pa.concat_tables(pieces)
            pieces, rows = [], 0
    if pieces:
        yield pa.concat_tables(pieces)


def entries_by_manifest(
    io: FileIO,
    manifests: Sequence[ManifestInfo],
    check: Callable[[], None] = _never,
    skip: Callable[[DamagedFile], None] | None = None,
    remote: RemoteReader | None = None,
) -> Iterator[tuple[str, pa.Table]]:
    """Yields the path of each manifest and its live entries as FILES. The order can differ.

    `skip` is called about a damaged or missing manifest, which is then left out. Without it, that is an error.
    """

    def read(path: str) -> bytes:
        check()
        return read_bytes(io, path)

    def found(several: Sequence[ManifestInfo]) -> Iterator[tuple[str, pa.Table]]:
        return ((path, _as_files(entries.table)) for path, entries in stream_entries(read, several, REACHABLE_COLUMNS))

    def without_damaged(several: Sequence[ManifestInfo]) -> list[tuple[str, pa.Table]]:
        assert skip is not None
        try:
            return list(found(several))
        except DamagedFile as error:
            if len(several) == 1:
                skip(error)
                return []
        half = len(several) // 2
        return without_damaged(several[:half]) + without_damaged(several[half:])

    if remote is not None and sum(info.length for info in manifests) > remote.above_bytes:
        left = {info.path: info for info in manifests}
        try:
            for path, entries in remote.read(manifests, None):
                check()
                yield path, _as_files(entries.table)
                left.pop(path, None)
            return
        except DamagedFile:
            if skip is None:
                raise
            manifests = list(left.values())  # this process finds out which of them are damaged
    if skip is None:
        yield from found(manifests)
        return
    for several in _bundles(manifests):
        yield from without_damaged(several)


def _bundles(manifests: Sequence[ManifestInfo]) -> Iterator[list[ManifestInfo]]:
    bundle: list[ManifestInfo] = []
    size = 0
    for manifest in manifests:
        if bundle and (size + manifest.length > _BUNDLE_BYTES or len(bundle) == _BUNDLE):
            yield bundle
            bundle, size = [], 0
        bundle.append(manifest)
        size += manifest.length
    if bundle:
        yield bundle


def _as_files(entries: pa.Table) -> pa.Table:
    columns = [entries["path"].cast(TEXT), entries["content"].cast(pa.int8()), entries["size"]]
    return pa.Table.from_arrays(columns, schema=FILES)


def statistics_of(metadata: TableMetadata, snapshot_ids: Collection[int]) -> pa.Table:
    """The statistics files and partition statistics files of these snapshots."""
    wanted = set(snapshot_ids)
    found = [one for one in (*metadata.statistics, *metadata.partition_statistics) if one.snapshot_id in wanted]
    return _files([(one.statistics_path, FileKind.STATISTICS, one.file_size_in_bytes) for one in found])


def expired_files(
    metadata: TableMetadata,
    expired: ReachedManifests,
    retained: ReachedManifests,
    snapshot_ids: Collection[int],
    skip: Callable[[DamagedFile], None],
) -> pa.Table:
    """Returns what only the expired snapshots can reference: one row a file, before retained entries are looked at.

    Manifests that a retained snapshot shares are no candidates, and neither are their files.
    """
    manifests = [info for key, info in expired.manifests.items() if key not in retained.manifests]
    own = [(path, FileKind.MANIFEST_LIST, 0) for path in expired.lists.values()]
    own += [(info.path, FileKind.MANIFEST, info.length) for info in manifests]
    files = unique_files([_files(own), statistics_of(metadata, snapshot_ids)])
    for piece in live_entries(expired.io, manifests, expired.check, skip, expired.remote):
        files = unique_files([files, piece])
    pa.default_memory_pool().release_unused()
    return files


@dataclass
class FilesToDelete:
    """Candidates, less everything that a retained snapshot references. It only ever gets smaller [I6]."""

    files: pa.Table  # FILES
    _protected: set[str] = field(default_factory=set)  # keys of the manifests whose entries were taken out

    def protect(self, table: Table, retained: ReachedManifests) -> None:
        """Takes out all that the table's metadata and these manifests reference."""
        metadata = table.metadata
        named = [table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
        named += [one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics)]
        named += [*retained.lists.values(), *(info.path for info in retained.manifests.values())]
        self._take_out(pa.chunked_array([named], TEXT))
        if self._may_be_in_manifests:
            for paths in retained.entry_paths(known=self._protected):
                self._take_out(paths)
            self._protected |= set(retained.manifests)

    def keep(self, named: Iterable[pa.ChunkedArray]) -> int:
        """Takes out the files that these locations name. Returns their number."""
        before: int = self.files.num_rows
        for paths in named:
            self._take_out(paths)
        after: int = self.files.num_rows
        return before - after

    @property
    def _may_be_in_manifests(self) -> bool:
        """Returns True if entries could name a candidate. A Puffin file can hold statistics and deletion vectors."""
        return bool(pc.any(pc.less_equal(self.files["kind"], FileKind.STATISTICS.value)).as_py())

    def _take_out(self, paths: pa.ChunkedArray) -> None:
        if self.files.num_rows and len(paths):
            needed = pc.is_in(path_keys(self.files["path"]), value_set=path_keys(paths).combine_chunks())
            self.files = self.files.filter(pc.invert(needed))

    def ordered(self) -> pa.Table:
        """In the order of deletion: content first, so that what is left after a crash can still be explained."""
        return self.files.sort_by([("kind", "ascending"), ("path", "ascending")])


def unique_files(tables: Sequence[pa.Table]) -> pa.Table:
    """One row for each path. A Puffin file has one entry for each of its vectors."""
    together = pa.concat_tables(tables)
    if pc.count_distinct(together["path"]).as_py() == together.num_rows:
        return together.combine_chunks()  # the usual case; grouping takes three times the memory
    grouped = together.group_by("path").aggregate([("kind", "min"), ("size", "max")])
    return pa.Table.from_arrays([grouped["path"], grouped["kind_min"], grouped["size_max"]], schema=FILES)


def count_files(files: pa.Table) -> FileCounts:
    numbers = {kind: pc.sum(pc.equal(files["kind"], kind.value)).as_py() or 0 for kind in FileKind}
    return FileCounts(
        data_files=numbers[FileKind.DATA],
        position_delete_files=numbers[FileKind.POSITION_DELETES],
        equality_delete_files=numbers[FileKind.EQUALITY_DELETES],
        manifests=numbers[FileKind.MANIFEST],
        manifest_lists=numbers[FileKind.MANIFEST_LIST],
        statistics_files=numbers[FileKind.STATISTICS],
        bytes=pc.sum(files["size"]).as_py() or 0,
    )


def _files(rows: Sequence[tuple[str, FileKind, int]]) -> pa.Table:
    return pa.table(
        [[path for path, _, _ in rows], [kind.value for _, kind, _ in rows], [size for _, _, size in rows]],
        schema=FILES,
    )
