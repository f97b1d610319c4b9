"""Decides which columns are worth a dictionary, from the inputs' footers or, where they cannot tell, from rows."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf, Selection

# A dictionary that takes more than this part of its chunk costs time and space to no end.
_WORTHWHILE_SHARE = 0.2
# Bytes a value: indices into a dictionary of at most 2 MB never take more, plain values nearly always do.
_MOST_OF_AN_INDEX = 3
MIN_DICTIONARY_ROWS = 20_000  # a dictionary over fewer rows has not had the chance to pay
_SAMPLE_ROWS = 16_384


def dictionaries_from_footers(
    leaves: Iterable[Leaf], files: Sequence[tuple[pq.FileMetaData, Selection]]
) -> dict[int, bool]:
    """Field id -> worth a dictionary; leaves that the footers leave open are absent.

    Floating-point columns get none unless all of these files have one: to parquet-mr, and so to Spark, -0.0 in a
    dictionary is less than 0.0, and rows that `x >= 0` found in plain pages would be found no more.
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
            is_small = dictionary_bytes < _WORTHWHILE_SHARE * chunk_bytes
            # Of the dictionary only the compressed size is known: it is taken to compress as the data pages do.
            verdicts[leaf.field_id] = is_small and (
                (1 - dictionary_bytes / chunk_bytes) * uncompressed_bytes <= _MOST_OF_AN_INDEX * rows
            )
    return verdicts


def _has_plain_values(chunk: pq.ColumnChunkMetaData) -> bool:
    if chunk.num_values == 0 or any(encoding.endswith("DICTIONARY") for encoding in chunk.encodings):
        return False
    statistics = chunk.statistics
    return statistics is None or not statistics.has_null_count or statistics.null_count < chunk.num_values


def dictionaries_from_rows(table: pa.Table, leaves: Iterable[Leaf]) -> dict[int, bool]:
    """The same verdict from a sample of the first row group; leaves inside lists and maps get a dictionary."""
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
            verdicts[leaf.field_id] = False  # a uuid is made to be distinct
            continue
        present = len(values) - values.null_count
        # Among them null, if there is any; in half the time of Arrow's own count.
        distinct = len(pc.unique(values)) - bool(values.null_count)
        verdicts[leaf.field_id] = distinct < _WORTHWHILE_SHARE * present or present == 0
    return verdicts
