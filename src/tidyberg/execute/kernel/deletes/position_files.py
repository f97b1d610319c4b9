"""Encodes a position delete file for the rows of one data file, as the spec describes it."""

import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import FIELD_ID
from tidyberg.execute.kernel.deletes.bitmaps import Positions

PATH_ID, POSITION_ID = 2147483546, 2147483545  # reserved by the spec
_ROW_GROUP_ROWS = 1024 * 1024
POSITION_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.dictionary(pa.int32(), pa.string()), False, {FIELD_ID: str(PATH_ID).encode()}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: str(POSITION_ID).encode()}),
    ]
)


@dataclass(frozen=True)
class EncodedPositions:
    """The bytes of a position delete file, and the compressed size of each column by field id."""

    content: bytes
    column_sizes: dict[int, int]


def position_delete_file(path: str, positions: Positions, compression: str) -> EncodedPositions:
    """Encodes sorted positions of one data file. The path is stored once, as a dictionary."""
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([path]))
    table = pa.Table.from_arrays([paths, pa.array(positions)], schema=POSITION_DELETE_SCHEMA)
    sink = io.BytesIO()
    collected: list[pq.FileMetaData] = []
    options = {"compression": compression, "store_schema": False, "metadata_collector": collected}
    with pq.ParquetWriter(sink, POSITION_DELETE_SCHEMA, use_dictionary=["file_path"], **options) as writer:
        writer.add_key_value_metadata({"delete-type": "position"})
        writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
    footer = collected[0]
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    sizes = {
        field_id: sum(group.column(number).total_compressed_size for group in groups)
        for number, field_id in enumerate((PATH_ID, POSITION_ID))
    }
    return EncodedPositions(sink.getvalue(), sizes)
