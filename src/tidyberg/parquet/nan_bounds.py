"""Removes the bounds of float columns with NaN from footers.

Bounds do not include NaN, and the format tells readers to ignore bounds when they search for NaN. Not all readers do.
DuckDB, DataFusion and Spark order NaN above every number, and they skip row groups and pages whose upper bound is below
the value that they search for. DataFusion 55 even reads NaN as a number if both bounds are equal. parquet-mr and DuckDB
write no bounds for such columns, but Arrow does. Manifests get none either: Iceberg counts NaN values, but its readers
ignore that count when Spark filters for values above a number.
"""

from collections.abc import Collection

from tidyberg.parquet.fields import (
    ChunkField,
    ElementField,
    FileField,
    GroupField,
    MetadataField,
    changed,
    structs,
    substruct,
)
from tidyberg.parquet.footer import ENDING, MAGIC, as_ending
from tidyberg.parquet.thrift import LIST, STRUCT, Struct, ThriftList, read_struct
from tidyberg.parquet.uniform import BOUNDS, with_whole_statistics, without_statistics


def without_bounds(footer: Struct, field_ids: Collection[int]) -> Struct:
    """Returns the footer without the bounds of these columns, and without references to their column indexes."""
    leaves = [element for element in structs(footer, FileField.SCHEMA, "the schema") if ElementField.TYPE in element]
    hidden = {at for at, leaf in enumerate(leaves) if leaf.get(ElementField.FIELD_ID, (0, None))[1] in field_ids}
    if not hidden:
        return footer
    groups = []
    for group in structs(footer, FileField.ROW_GROUPS, "the list of row groups"):
        chunks = structs(group, GroupField.COLUMNS, "the list of columns")
        kept = [_without_bounds(chunk) if at in hidden else chunk for at, chunk in enumerate(chunks)]
        groups.append(changed(group, {GroupField.COLUMNS: (LIST, ThriftList(STRUCT, kept))}))
    return changed(footer, {FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, groups))})


def _without_bounds(chunk: Struct) -> Struct:
    metadata = substruct(chunk, ChunkField.METADATA, "the metadata of a column") or {}
    left = without_statistics(metadata, BOUNDS)
    return changed(
        chunk,
        {
            ChunkField.METADATA: (STRUCT, changed(metadata, {MetadataField.STATISTICS: left})),
            ChunkField.COLUMN_INDEX: None,
            ChunkField.COLUMN_INDEX_LENGTH: None,
        },
    )


def ending_without_bounds(ending: bytes, field_ids: Collection[int]) -> bytes:
    """Does the same for the last bytes of a file, which must include the whole footer.

    Statistics that only some row groups have are omitted too.
    """
    length = int.from_bytes(ending[-ENDING : -len(MAGIC)], "little")
    start = len(ending) - ENDING - length
    footer, _ = read_struct(ending[start:-ENDING])
    return ending[:start] + as_ending(without_bounds(with_whole_statistics(footer), field_ids))


def with_nans(nan_counts: dict[int, int]) -> frozenset[int]:
    return frozenset(identifier for identifier, count in nan_counts.items() if count)
