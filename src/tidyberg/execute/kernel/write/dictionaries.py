"""Decides which columns get a dictionary: from the inputs' footers, or from rows if footers do not say enough."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import field_id
from tidyberg.execute.kernel.columns.project import Leaf, Selection

# A dictionary that takes more than this share of its chunk costs time and saves no space.
_MAX_DICTIONARY_SHARE = 0.2
# Bytes per value: indices into a dictionary of at most 2 MB never take more, plain values nearly always do.
_MAX_INDEX_BYTES = 3
MIN_DICTIONARY_ROWS = 20_000  # with fewer rows, the inputs' dictionaries prove nothing
_SAMPLE_ROWS = 16_384


def dictionaries_from_footers(
    leaves: Iterable[Leaf], files: Sequence[tuple[pq.FileMetaData, Selection]]
) -> dict[int, bool]:
    """Returns by field id whether a dictionary pays. Leaves that the footers do not decide are absent.

    Floating-point columns get no dictionary unless all of these files have one. In a dictionary, parquet-mr, and so
    Spark, sorts -0.0 below 0.0. A filter `x >= 0` would no longer find rows that it found in plain pages.
    """
    verdicts = {}
    for leaf in leaves:
        if leaf.field_id is None or pa.types.is_boolean(leaf.type):
            continue
        dictionary_bytes = chunk_bytes = uncompressed_bytes = rows = chunks = plain_floats = 0
        for footer, selection in files:
            index = selection.source_of.get(leaf.field_id)
            if index is None:
                continue
            for group in range(footer.num_row_groups):
                chunk = footer.row_group(group).column(index)
                if not chunk.has_dictionary_page or not chunk.dictionary_page_offset:
                    plain_floats += pa.types.is_floating(leaf.type) and _has_plain_values(chunk)
                    continue
                chunks += 1
                rows += chunk.num_values
                dictionary_bytes += max(0, chunk.data_page_offset - chunk.dictionary_page_offset)
                chunk_bytes += chunk.total_compressed_size
                uncompressed_bytes += chunk.total_uncompressed_size
        if plain_floats:
            verdicts[leaf.field_id] = False
        elif chunks and rows / chunks >= MIN_DICTIONARY_ROWS:
            is_small = dictionary_bytes < _MAX_DICTIONARY_SHARE * chunk_bytes
            # Only the compressed size of the dictionary is known; assume that it compresses like the data pages.
            verdicts[leaf.field_id] = is_small and (
                (1 - dictionary_bytes / chunk_bytes) * uncompressed_bytes <= _MAX_INDEX_BYTES * rows
            )
    return verdicts


def small_dictionaries(
    schema: pa.Schema,
    dictionaries: dict[int, bool],
    files: Sequence[tuple[pq.FileMetaData, Selection]],
    most_bytes: int,
) -> frozenset[int]:
    """Returns the ids of strings for which a dictionary pays, if it is this small in all of these files."""
    found = set()
    for column in schema:
        identifier = field_id(column)
        if identifier is None or not dictionaries.get(identifier) or not pa.types.is_string(column.type):
            continue
        sizes = [
            chunk.data_page_offset - chunk.dictionary_page_offset
            for footer, selection in files
            if identifier in selection.source_of
            for number in range(footer.num_row_groups)
            if (chunk := footer.row_group(number).column(selection.source_of[identifier])).dictionary_page_offset
        ]
        if sizes and max(sizes) <= most_bytes:
            found.add(identifier)
    return frozenset(found)


def _has_plain_values(chunk: pq.ColumnChunkMetaData) -> bool:
    if chunk.num_values == 0 or any(encoding.endswith("DICTIONARY") for encoding in chunk.encodings):
        return False
    statistics = chunk.statistics
    return statistics is None or not statistics.has_null_count or statistics.null_count < chunk.num_values


def dictionaries_from_rows(table: pa.Table, leaves: Iterable[Leaf]) -> dict[int, bool]:
    """Returns the same from a sample of the first row group. Leaves inside lists and maps always get a dictionary."""
    asked = [leaf for leaf in leaves if leaf.field_id is not None and not pa.types.is_boolean(leaf.type)]
    if not asked:
        return {}
    step = max(1, table.num_rows // _SAMPLE_ROWS)
    sample = table if step == 1 else table.take(pa.array(np.arange(0, table.num_rows, step)))
    verdicts: dict[int, bool] = {}
    for leaf in asked:
        assert leaf.field_id is not None
        if leaf.repeated:
            verdicts[leaf.field_id] = True
            continue
        values = leaf.of(sample)
        if isinstance(values.type, pa.BaseExtensionType):
            verdicts[leaf.field_id] = False  # uuids are distinct by design
            continue
        present = len(values) - values.null_count
        # The distinct values include null. This takes half the time of Arrow's count_distinct.
        distinct = len(pc.unique(values)) - bool(values.null_count)
        verdicts[leaf.field_id] = distinct < _MAX_DICTIONARY_SHARE * present or present == 0
    return verdicts
