"""Footers of many files are checked at once: bounds that would crash Arrow are always found."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tidyberg.parquet.fields import FileField, MetadataField, StatisticsField
from tidyberg.parquet.footer import ENDING, MAGIC
from tidyberg.parquet.joined import Outline
from tidyberg.parquet.many_footers import all_bounds_fit
from tidyberg.parquet.thrift import BINARY, Struct, read_struct, write_struct
from tidyberg.varints import Buffer

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("ratio", pa.float64()),
        ("flag", pa.bool_()),
        ("code", pa.binary(5)),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("tags", pa.list_(pa.int32())),
    ]
)
FIXED = (0, 2, 3, 4, 5, 7)  # leaves whose values all have one length


def written(seed: int, rows: int, absent: set[str], groups: int) -> bytes:
    table = pa.table(
        {
            "number": [seed * 1000 + row for row in range(rows)],
            "text": ["x" * (seed % 300 + row) for row in range(rows)],
            "ratio": [row / 7 for row in range(rows)],
            "flag": [row % 2 == 0 for row in range(rows)],
            "code": [b"%05d" % (seed % 7 * row) for row in range(rows)],
            "place": [{"x": row, "y": "here"} for row in range(rows)],
            "tags": [[row] * (row % 3) for row in range(rows)],
        },
        schema=SCHEMA,
    )
    for name in absent:
        position = SCHEMA.get_field_index(name)
        table = table.set_column(position, SCHEMA.field(name), pa.nulls(rows, SCHEMA.field(name).type))
    sink = BytesIO()
    pq.write_table(table, sink, row_group_size=-(-rows // groups), store_schema=False)
    return sink.getvalue()


FILES = st.builds(
    written,
    st.integers(0, 10**12),
    st.integers(1, 40),
    st.sets(st.sampled_from(SCHEMA.names), max_size=3),
    st.sampled_from([1, 1, 1, 2, 20]),
)


def fit(files: list[bytes]) -> bool:
    first = pa.py_buffer(files[0])
    outline = Outline.of(first, pq.read_metadata(pa.BufferReader(first)))
    assert outline is not None
    return all_bounds_fit(Buffer(files), len(outline.opening), outline.leaves)


def with_bound(file: bytes, group: int, leaf: int, field: int, bound: bytes) -> bytes:
    length = int.from_bytes(file[-ENDING:-4], "little")
    footer, _ = read_struct(file[-ENDING - length : -ENDING])
    column: Struct = footer[FileField.ROW_GROUPS][1].items[group][1][1].items[leaf]
    metadata: Struct = column[3][1]
    kind, statistics = metadata.get(MetadataField.STATISTICS, (12, {}))
    metadata[MetadataField.STATISTICS] = (kind, dict(sorted({**statistics, field: (BINARY, bound)}.items())))
    changed = write_struct(dict(sorted({**footer}.items())))
    return file[: -ENDING - length] + changed + len(changed).to_bytes(4, "little") + MAGIC


@settings(max_examples=20, deadline=None)
@given(st.lists(FILES, min_size=1, max_size=6), st.data())
def test_bounds_of_another_length_are_found_wherever_they_are(files: list[bytes], data: Any) -> None:
    assert fit(files)
    which = data.draw(st.integers(0, len(files) - 1))
    groups = pq.read_metadata(BytesIO(files[which])).num_row_groups
    group, leaf = data.draw(st.integers(0, groups - 1)), data.draw(st.sampled_from(FIXED))
    field = data.draw(st.sampled_from(StatisticsField.BOUNDS))
    for bound in (b"", b"abc", b"a" * 200):
        files[which] = with_bound(files[which], group, leaf, field, bound)
        assert not fit(files)


def test_texts_may_have_bounds_of_any_length() -> None:
    file = written(1, 10, set(), 1)
    assert fit([file, with_bound(file, 0, 1, 5, b"z" * 500)])
