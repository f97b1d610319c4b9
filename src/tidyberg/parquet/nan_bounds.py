"""Takes the bounds of floats out of footers where there are NaN among the values.

Bounds say nothing of NaN, and the format tells readers to ignore them when they look for it. Not all readers do. To
DuckDB, DataFusion and Spark NaN is above every number, and they pass over row groups and pages whose upper bound is
below what they look for. DataFusion 55 even reads NaN as a number where both bounds are equal. parquet-mr and DuckDB
write no bounds of such columns, but Arrow does. Nor do manifests get any: Iceberg counts NaN apart, but its readers do
not look at that count when Spark asks for what is above a number.
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
from tidyberg.parquet.uniform import BOUNDS, without_statistics


def without_bounds(footer: Struct, field_ids: Collection[int]) -> Struct:
    """The footer without bounds of these columns, in chunks and in page indexes."""
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
    metadata = substruct(chunk, ChunkField.METADATA, "what describes a column") or {}
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
    """The same of the last bytes of a file, from the footer or from before it on."""
    length = int.from_bytes(ending[-ENDING : -len(MAGIC)], "little")
    start = len(ending) - ENDING - length
    footer, _ = read_struct(ending[start:-ENDING])
    return ending[:start] + as_ending(without_bounds(footer, field_ids))


def with_nans(nan_counts: dict[int, int]) -> frozenset[int]:
    return frozenset(identifier for identifier, count in nan_counts.items() if count)
