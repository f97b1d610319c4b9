"""Finds the column chunks whose bounds Arrow must not be asked for: over short ones it ends the whole process."""

import io
from collections.abc import Collection

import pyarrow.parquet as pq

from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField, structs, substruct
from tidyberg.parquet.footer import MAGIC, bounds_fit
from tidyberg.parquet.thrift import read_struct


def chunks_with_cut_bounds(footer: pq.FileMetaData, columns: Collection[int]) -> set[tuple[int, int]]:
    """Row group and column of each, among columns of fixed bytes."""
    if not columns:
        return set()
    sink = io.BytesIO()
    footer.write_metadata_file(sink)
    struct, _ = read_struct(sink.getvalue(), len(MAGIC))
    lengths = {column: footer.schema.column(column).length for column in columns}
    found = set()
    for number, group in enumerate(structs(struct, FileField.ROW_GROUPS, "the list of row groups")):
        chunks = structs(group, GroupField.COLUMNS, "the list of columns")
        for column, length in lengths.items():
            metadata = substruct(chunks[column], ChunkField.METADATA, "what describes a column") or {}
            statistics = substruct(metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
            if not bounds_fit(statistics, length):
                found.add((number, column))
    return found
