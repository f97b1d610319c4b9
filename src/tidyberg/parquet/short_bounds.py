"""Finds column chunks with truncated bounds. Arrow aborts the process when it reads their statistics."""

import io
from collections.abc import Collection

import pyarrow.parquet as pq

from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField, structs, substruct
from tidyberg.parquet.footer import MAGIC, bounds_fit
from tidyberg.parquet.thrift import read_struct


def chunks_with_cut_bounds(footer: pq.FileMetaData, columns: Collection[int]) -> set[tuple[int, int]]:
    """Returns the row group and column of each such chunk. `columns` must be columns of fixed-length values."""
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
            metadata = substruct(chunks[column], ChunkField.METADATA, "the metadata of a column") or {}
            statistics = substruct(metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
            if not bounds_fit(statistics, length):
                found.add((number, column))
    return found
