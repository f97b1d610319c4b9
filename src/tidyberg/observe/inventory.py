"""Takes the inventory of a pinned snapshot: every live data and delete file, in Arrow, without opening one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform

from tidyberg.errors import DamagedFile
from tidyberg.manifests.entries import ENTRIES, ManifestEntries, ManifestError, read_entries
from tidyberg.model.inventory import DATA_FILES, DELETE_FILES, Inventory, ManifestInfo
from tidyberg.model.table import Pinned
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.partitions import PartitionIndex
from tidyberg.observe.storage import Fetch, damaged, read_bytes, through_pyiceberg

_FETCH_THREADS = 8  # hides the latency of object storage
_FETCH_AHEAD = 16  # bounds the raw manifests in memory
_ADDED = 1
_EQUALITY_DELETES = 2


ReadFile = Callable[[str], bytes]
ReadManifests = Callable[[Sequence[ManifestInfo]], Iterator[tuple[str, ManifestEntries]]]


@dataclass(frozen=True)
class Elsewhere:
    """Who reads manifests that are together larger than some number of bytes."""

    above_bytes: int
    read: ReadManifests


def take_inventory(
    table: Table,
    pinned: Pinned,
    cache: ManifestCache | None = None,
    elsewhere: Elsewhere | None = None,
    fetch: Fetch = through_pyiceberg,
) -> Inventory:
    snapshot = table.snapshot_by_id(pinned.snapshot_id) if pinned.snapshot_id is not None else None
    if pinned.snapshot_id is not None and snapshot is None:
        raise DamagedFile(
            f"{pinned.table}: snapshot {pinned.snapshot_id} is no longer in the table's metadata.",
            hint="It was expired in the meantime: start again.",
        )
    manifests = read_manifest_list(table.io, snapshot.manifest_list, fetch) if snapshot else []
    for info in manifests:
        if info.spec_id not in pinned.specs:
            raise damaged(info.path, f"the table has no partition spec {info.spec_id}, which it is written in")
    near = partial(read_bytes, table.io, fetch=fetch)
    return _assemble(pinned, manifests, _read_manifests(manifests, near, cache, elsewhere))


def _read_manifests(
    manifests: Sequence[ManifestInfo], near: ReadFile, cache: ManifestCache | None, elsewhere: Elsewhere | None
) -> list[ManifestEntries]:
    """Threads fetch a few manifests ahead, this one decodes: decoding on many would only pass the lock around."""
    contents = {info.path: cache.get(info.path) if cache is not None else None for info in manifests}
    missing = list({info.path: info for info in manifests if contents[info.path] is None}.values())
    is_far = elsewhere is not None and sum(info.length for info in missing) > elsewhere.above_bytes
    found = elsewhere.read(missing) if elsewhere and is_far else _decode(missing, fetch_manifests(near, missing))
    for path, read in found:
        contents[path] = read
        if cache is not None:
            cache.put(path, read)
    return [entries for info in manifests if (entries := contents[info.path]) is not None]


def fetch_manifests(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    """Their bytes, in order."""
    with ThreadPoolExecutor(_FETCH_THREADS, thread_name_prefix="manifests") as pool:
        waiting = deque(pool.submit(read, info.path) for info in manifests[:_FETCH_AHEAD])
        for number in range(len(manifests)):
            raw = waiting.popleft().result()
            if number + _FETCH_AHEAD < len(manifests):
                waiting.append(pool.submit(read, manifests[number + _FETCH_AHEAD].path))
            yield raw


def _decode(manifests: Sequence[ManifestInfo], contents: Iterable[bytes]) -> Iterator[tuple[str, ManifestEntries]]:
    try:
        yield from read_entries(
            (info.path, _whole(raw, info), info.holds_deletes) for info, raw in zip(manifests, contents, strict=True)
        )
    except ManifestError as error:
        raise damaged(error.name, f"as a manifest, {error}") from error


def _whole(raw: bytes, info: ManifestInfo) -> bytes:
    if len(raw) < info.length:
        raise damaged(info.path, f"it has {len(raw)} bytes, the manifest list says {info.length}")
    return raw


def _assemble(pinned: Pinned, manifests: Sequence[ManifestInfo], contents: Sequence[ManifestEntries]) -> Inventory:
    index = PartitionIndex(pinned.specs, pinned.schema)
    partition = index.positions([info.spec_id for info in manifests], contents)
    manifest = np.repeat(np.arange(len(contents), dtype=np.int32), [entries.table.num_rows for entries in contents])
    columns = pa.concat_tables(
        [ENTRIES.empty_table(), *(entries.table.select(ENTRIES.names) for entries in contents)]
    ).combine_chunks()
    columns = _inherit(columns, manifests, manifest)
    columns = columns.append_column("partition", pa.array(partition)).append_column("manifest", pa.array(manifest))
    is_data = pc.equal(columns["content"], 0)
    return Inventory(
        pinned=pinned,
        partitions=tuple(index.partitions),
        manifests=tuple(manifests),
        data_files=_select(columns.filter(is_data), DATA_FILES),
        delete_files=_select(_describe_deletes(columns.filter(pc.invert(is_data)), pinned), DELETE_FILES),
    )


def _inherit(entries: pa.Table, manifests: Sequence[ManifestInfo], manifest: npt.NDArray[np.int32]) -> pa.Table:
    """What an entry leaves null it takes from its manifest (specification: "Sequence Number Inheritance")."""
    sequence = np.array([info.sequence_number for info in manifests], np.int64)[manifest]
    # Null means "as the manifest" only for new files; version 1 knows no numbers, its manifests count as 0.
    may_inherit = pc.or_(pc.equal(entries["status"], _ADDED), pa.array(sequence == 0))
    inherited = pc.if_else(may_inherit, pa.array(sequence), pa.scalar(None, pa.int64()))
    spec_id = np.array([info.spec_id for info in manifests], np.int32)[manifest]
    added_by = np.array([info.added_snapshot_id for info in manifests], np.int64)[manifest]
    filled = {
        "sequence_number": pc.coalesce(entries["sequence_number"], inherited),
        "file_sequence_number": pc.coalesce(entries["file_sequence_number"], inherited),
        "snapshot_id": pc.coalesce(entries["snapshot_id"], pa.array(added_by)),
        "first_row_id": _first_row_ids(entries, manifests, manifest),
    }
    for name, column in filled.items():
        if name != "first_row_id" and column.null_count:
            at = pc.index(pc.is_null(column), True).as_py()
            raise damaged(manifests[manifest[at]].path, f"{entries['path'][at]} has no {name.replace('_', ' ')}")
        entries = entries.set_column(entries.schema.get_field_index(name), name, column)
    return entries.append_column("spec_id", pa.array(spec_id))


def _first_row_ids(
    entries: pa.Table, manifests: Sequence[ManifestInfo], manifest: npt.NDArray[np.int32]
) -> pa.ChunkedArray:
    """Row lineage of version 3: files without a first row id follow each other from their manifest's.

    Where the manifest has none, neither have its files: the snapshot is older than the table's upgrade.
    """
    own = entries["first_row_id"]
    bases = [None if info.holds_deletes else info.first_row_id for info in manifests]
    if all(base is None for base in bases):
        return pa.chunked_array([pa.nulls(len(own), own.type)])
    missing = pc.is_null(own).to_numpy()
    rows = np.where(missing, entries["records"].to_numpy(), 0)
    before = np.cumsum(rows) - rows
    starts = np.searchsorted(manifest, np.arange(len(manifests)))
    at_start = np.append(before, 0)[starts]
    base = pa.array(bases, pa.int64()).take(pa.array(manifest))
    inherited = pc.add(base, pa.array(before - at_start[manifest]))
    return pc.if_else(pc.is_null(base), base, pc.coalesce(own, inherited))


def _describe_deletes(deletes: pa.Table, pinned: Pinned) -> pa.Table:
    """Kind and scope: a delete is for one file, for its partition, or for the whole table."""
    is_equality = pc.equal(deletes["content"], _EQUALITY_DELETES)
    is_vector = pc.equal(pc.utf8_upper(deletes["format"]), "PUFFIN")
    kind = pc.if_else(is_equality, "equality", pc.if_else(is_vector, "dv", "position"))
    referenced = pc.if_else(
        is_equality,
        pa.scalar(None, pa.string()),
        pc.coalesce(deletes["referenced_data_file"], deletes["path_bound"]),
    )
    unpartitioned = [spec_id for spec_id, spec in pinned.specs.items() if _is_unpartitioned(spec)]
    is_global = pc.and_(is_equality, pc.is_in(deletes["spec_id"], pa.array(unpartitioned, pa.int32())))
    scope = pc.if_else(is_global, "global", pc.if_else(pc.is_valid(referenced), "file", "partition"))
    at = deletes.schema.get_field_index("referenced_data_file")
    described = deletes.set_column(at, "referenced_data_file", referenced)
    return described.append_column("kind", kind).append_column("scope", scope)


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _select(entries: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = entries[field.name]
        if field.name == "format":
            column = pc.utf8_upper(column)
        if pa.types.is_dictionary(field.type):
            column = column.combine_chunks().dictionary_encode()
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
