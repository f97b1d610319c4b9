"""Random ways to write a table: every installed writer, with random options."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.builders.footers import edit_footer
from tests.builders.parquet_writers import by_arrow, by_arrow_rs, by_datafusion, by_duckdb, by_fastparquet, by_polars
from tests.fuzzing.schemas import Shape
from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.parquet.fields import ElementField, FileField
from tidyberg.parquet.thrift import I32, Struct

ARROW = {
    "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
    "write_page_index": st.booleans(),
    "write_statistics": st.sampled_from([True, True, True, False]),
    "data_page_version": st.sampled_from(["1.0", "2.0"]),
    "row_group_size": st.sampled_from([20, 1000]),
    "data_page_size": st.sampled_from([10, 100, 1 << 20]),
    "write_batch_size": st.sampled_from([4, 1024]),
    "max_rows_per_page": st.sampled_from([3, 1000]),
    "dictionary_pagesize_limit": st.sampled_from([10, 60, 1 << 20]),
    "store_schema": st.booleans(),
    "store_decimal_as_integer": st.sampled_from([True, True, False]),
    "write_page_checksum": st.booleans(),
    "bloom_filter_options": st.sampled_from([None, {"id": {"ndv": 20, "fpp": 0.1}}]),
}
ARROW_RS = {
    "compression": st.sampled_from(["uncompressed", "snappy", "zstd(1)", "lz4_raw", "gzip(6)", "brotli(1)"]),
    "max_row_group_size": st.sampled_from([20, 1000]),
    "data_page_row_count_limit": st.sampled_from([3, 1000]),
    "data_page_size_limit": st.sampled_from([10, 1 << 20]),
    "dictionary_page_size_limit": st.sampled_from([10, 60, 1 << 20]),
    "write_batch_size": st.sampled_from([4, 1024]),
    "dictionary_enabled": st.booleans(),
    "writer_version": st.sampled_from(["parquet_1_0", "parquet_2_0"]),
    "max_statistics_size": st.sampled_from([4, 4096]),
    "bloom_filter_enabled": st.booleans(),
    "bloom_filter_ndv": st.just(20),
    "skip_arrow_metadata": st.booleans(),
}
POLARS = {
    "compression": st.sampled_from(["uncompressed", "snappy", "zstd", "lz4", "gzip", "brotli"]),
    "row_group_size": st.sampled_from([20, 1000]),
    "data_page_size": st.sampled_from([10, 1 << 20]),
    "statistics": st.sampled_from([True, "full", False]),
}
DUCKDB = [
    f", PARQUET_VERSION {version}, COMPRESSION {codec}, ROW_GROUP_SIZE 2048{more}"
    for version in ("v1", "v2")
    for codec in ("snappy", "zstd", "gzip", "lz4_raw", "brotli", "uncompressed")
    for more in ("", ", DICTIONARY_SIZE_LIMIT 2", ", WRITE_BLOOM_FILTER false")
]


@dataclass(frozen=True)
class Choice:
    """A writer with its options. A failing example prints its text."""

    name: str
    options: Any

    def write(self, table: pa.Table, path: Path) -> None:
        writers: dict[str, Callable[[], None]] = {
            "arrow": lambda: by_arrow(**self.options)(table, path),
            "arrow-rs": lambda: by_arrow_rs(**self.options)(table, path),
            "polars": lambda: by_polars(**self.options)(_bare(table), path),
            "duckdb": lambda: by_duckdb(self.options)(_bare(table), path),
            "fastparquet": lambda: by_fastparquet(**self.options)(_bare(table), path),
            "datafusion": lambda: by_datafusion(table, path),
        }
        writers[self.name]()
        if self.name in ("polars", "duckdb", "fastparquet"):
            edit_footer(path, lambda footer: give_ids(footer, table.schema))


def counting_nulls(choice: Choice) -> Choice:
    """Returns the same writer with statistics."""
    if choice.name == "arrow":
        return Choice(choice.name, choice.options | {"write_statistics": True})
    if choice.name == "polars" and not choice.options["statistics"]:
        return Choice(choice.name, choice.options | {"statistics": True})
    return choice


CODECS = ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4")  # as tables name them


def codec_of(choice: Choice) -> str:
    reported = str(choice.options).lower().replace("'none'", "uncompressed")
    return next((codec for codec in CODECS if codec in reported), "zstd")


@st.composite
def plain_choices(draw: st.DrawFn, shape: Shape) -> Choice:
    """Writers with pages that can be moved without decoding: plain, or with a dictionary, possibly of unique values."""
    options = draw(arrow_options(shape)) | {"use_dictionary": draw(st.booleans()), "write_statistics": True}
    options.pop("column_encoding", None)
    return Choice("arrow", options | {"dictionary_pagesize_limit": 1 << 20})


@st.composite
def one_page_choices(draw: st.DrawFn, shape: Shape) -> Choice:
    """Writers of tiny files: one page per column, and random other options."""
    chosen = draw(choices(shape))
    if chosen.name == "arrow":
        pages = {"row_group_size": 1000, "max_rows_per_page": 1000, "data_page_size": 1 << 20, "write_batch_size": 1024}
        page = {"data_page_version": "1.0", "dictionary_pagesize_limit": 1 << 20, **pages}
        return Choice("arrow", chosen.options | page)
    if chosen.name == "arrow-rs":
        pages = {"max_row_group_size": 1000, "data_page_row_count_limit": 1000, "data_page_size_limit": 1 << 20}
        page = {"writer_version": "parquet_1_0", "dictionary_page_size_limit": 1 << 20, **pages}
        return Choice("arrow-rs", chosen.options | page)
    if chosen.name == "polars":
        return Choice("polars", chosen.options | {"row_group_size": 1000, "data_page_size": 1 << 20})
    return chosen


@st.composite
def choices(draw: st.DrawFn, shape: Shape) -> Choice:
    names = ["arrow"] * 4 + ["arrow-rs"] * 2
    if shape.is_simple:
        names += ["polars", "polars", "duckdb", "datafusion"]
        if _fits_pandas(shape.schema):
            names += ["fastparquet"]
    name = draw(st.sampled_from(names))
    if name == "arrow":
        return Choice(name, draw(arrow_options(shape)))
    if name == "arrow-rs":
        return Choice(name, draw(st.fixed_dictionaries(ARROW_RS)))
    if name == "polars":
        return Choice(name, draw(st.fixed_dictionaries(POLARS)))
    if name == "duckdb":
        return Choice(name, draw(st.sampled_from(DUCKDB)))
    if name == "fastparquet":
        return Choice(name, {"compression": draw(st.sampled_from(["SNAPPY", "ZSTD", "GZIP", None])), "stats": True})
    return Choice(name, None)


@st.composite
def arrow_options(draw: st.DrawFn, shape: Shape) -> dict[str, Any]:
    options: dict[str, Any] = draw(st.fixed_dictionaries(ARROW))
    how = draw(st.sampled_from(["dictionary", "plain", "some", "encodings"]))
    options["use_dictionary"] = {"dictionary": True, "some": ["id"]}.get(how, False)
    if how == "encodings":
        by_leaf = {leaf.path: draw(st.sampled_from(_encodings(leaf))) for leaf in leaves(shape.schema)}
        options["column_encoding"] = {path: encoding for path, encoding in by_leaf.items() if encoding}
    return options


def _encodings(leaf: Leaf) -> list[str | None]:
    types, kind = pa.types, leaf.type
    if types.is_string(kind) or types.is_binary(kind):
        return ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]
    if types.is_floating(kind) or types.is_decimal(kind):
        return ["PLAIN", "BYTE_STREAM_SPLIT"]
    if types.is_fixed_size_binary(kind):
        return ["PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"]
    if types.is_boolean(kind):
        return ["PLAIN", "RLE"]
    if types.is_integer(kind) or types.is_temporal(kind):
        return ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    return [None]


def _fits_pandas(schema: pa.Schema) -> bool:
    kinds = (pa.types.is_string, pa.types.is_float64, pa.types.is_binary)
    return all(any(fits(column.type) for fits in kinds) for column in list(schema)[1:])


def _bare(table: pa.Table) -> pa.Table:
    """Removes the metadata, because some writers copy it from the table."""
    return table.cast(pa.schema([pa.field(one.name, _bare_type(one.type)) for one in table.schema]))


def _bare_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _bare_type(one.type)) for one in kind])
    return kind


def give_ids(footer: Struct, schema: pa.Schema) -> None:
    """Adds field ids for writers that lack them. Their columns are flat or structs, with the same names."""
    elements = footer[FileField.SCHEMA][1].items
    fields = _fields(list(schema))
    names = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in fields}
    for element in elements[1:]:
        identifier = names[element[ElementField.NAME][1].decode()]
        element[ElementField.FIELD_ID] = (I32, identifier)
        ordered = dict(sorted(element.items()))
        element.clear()
        element.update(ordered)


def _fields(fields: list[pa.Field]) -> list[pa.Field]:
    found = []
    for one in fields:
        found.append(one)
        if pa.types.is_struct(one.type):
            found += _fields(list(one.type))
    return found
