"""Lists the live data and delete files of a pinned snapshot as Arrow tables, without opening any of them."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidyberg.errors import DamagedFile
from tidyberg.manifests.counted_files import add_counts
from tidyberg.manifests.entries import ENTRIES, ManifestEntries, ManifestError, joined
from tidyberg.manifests.inherit import inherit
from tidyberg.model.inventory import COUNTED_FILES, DATA_FILES, DELETE_FILES, Inventory
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.table import Pinned
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.counted_files import EQUALITY_DELETES, unpartitioned
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.partitions import PartitionIndex
from tidyberg.observe.reading import RemoteReader, read_manifests
from tidyberg.storage.table_files import damaged, read_bytes

_ROWS_A_CHUNK = 1_000  # with fewer rows per chunk, a copy is cheaper


def take_inventory(
    table: Table,
    pinned: Pinned,
    cache: ManifestCache | None = None,
    remote: RemoteReader | None = None,
) -> Inventory:
    snapshot = table.snapshot_by_id(pinned.snapshot_id) if pinned.snapshot_id is not None else None
    if pinned.snapshot_id is not None and snapshot is None:
        raise DamagedFile(
            f"{pinned.table}: snapshot {pinned.snapshot_id} is no longer in the table's metadata.",
            hint="It was expired in the meantime: start again.",
        )
    manifests = read_manifest_list(table.io, snapshot.manifest_list) if snapshot else []
    for info in manifests:
        if info.spec_id not in pinned.specs:
            raise damaged(info.path, f"the table has no partition spec {info.spec_id}, which it is written in")
    read_file = partial(read_bytes, table.io)
    return _assemble(pinned, manifests, read_manifests(read_file, pinned, manifests, cache, remote))


def _assemble(pinned: Pinned, manifests: Sequence[ManifestInfo], contents: Sequence[ManifestEntries]) -> Inventory:
    counted = [
        (info, ManifestEntries(entries.partition_columns, entries.counted_files))
        for info, entries in zip(manifests, contents, strict=True)
        if entries.counted_files is not None
    ]
    index = PartitionIndex(pinned.specs, pinned.schema)
    partition = index.positions(
        [info.spec_id for info in (*manifests, *(info for info, _ in counted))],
        [*contents, *(entries for _, entries in counted)],
    )
    partition = index.put_in_order()[partition]
    manifest = np.repeat(np.arange(len(contents), dtype=np.int32), [len(entries.span) for entries in contents])
    columns = joined(contents, ENTRIES.names) if contents else ENTRIES.empty_table()
    if columns.num_rows < _ROWS_A_CHUNK * columns["path"].num_chunks:
        columns = columns.combine_chunks()  # otherwise this would copy all paths for nothing
    try:
        columns = inherit(columns, manifests, manifest)
    except ManifestError as error:
        raise damaged(error.name, str(error)) from error
    spec_id = np.array([info.spec_id for info in manifests], np.int32)[manifest]
    for name, values in (("spec_id", spec_id), ("partition", partition[: len(manifest)]), ("manifest", manifest)):
        columns = columns.append_column(name, pa.array(values))
    is_data = columns["content"].to_numpy() == 0
    return Inventory(
        pinned=pinned,
        partitions=tuple(index.partitions),
        manifests=tuple(manifests),
        data_files=_select(_rows(columns, is_data), DATA_FILES),
        delete_files=_select(_describe_deletes(_rows(columns, ~is_data), pinned), DELETE_FILES),
        counted_files=_counted_files([entries.table for _, entries in counted], partition[len(manifest) :]),
    )


def _rows(table: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    """Selects rows without a copy. A manifest holds data or deletes, so the rows form a few slices."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2).tolist()
    return pa.concat_tables([table.slice(0, 0), *(table.slice(start, end - start) for start, end in edges)])


def _counted_files(counted: Sequence[pa.Table], partition: npt.NDArray[np.int32]) -> pa.Table:
    names = [name for name in COUNTED_FILES.names if name != "partition"]
    if not counted:
        return COUNTED_FILES.empty_table()
    together = pa.concat_tables([table.select(names) for table in counted])
    together = together.append_column("partition", pa.array(partition))
    return add_counts(together, ("partition", "snapshot_id")).cast(COUNTED_FILES)


def _describe_deletes(deletes: pa.Table, pinned: Pinned) -> pa.Table:
    """Adds kind and scope. A delete applies to one file, to its partition, or to the whole table."""
    is_equality = pc.equal(deletes["content"], EQUALITY_DELETES)
    is_vector = pc.equal(pc.utf8_upper(deletes["format"]), "PUFFIN")
    kind = pc.if_else(is_equality, "equality", pc.if_else(is_vector, "dv", "position"))
    referenced = pc.if_else(
        is_equality,
        pa.scalar(None, pa.string()),
        pc.coalesce(deletes["referenced_data_file"], deletes["path_bound"]),
    )
    is_global = pc.and_(is_equality, pc.is_in(deletes["spec_id"], pa.array(unpartitioned(pinned.specs), pa.int32())))
    scope = pc.if_else(is_global, "global", pc.if_else(pc.is_valid(referenced), "file", "partition"))
    at = deletes.schema.get_field_index("referenced_data_file")
    described = deletes.set_column(at, "referenced_data_file", referenced)
    return described.append_column("kind", kind).append_column("scope", scope)


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
