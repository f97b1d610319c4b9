"""Writers of the files that are rewritten: libraries, each with several options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import fastparquet
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from arro3.io import write_parquet
from datafusion.dataframe import DataFrameWriteOptions, ParquetWriterOptions

from tests.builders.footers import edit_footer
from tests.matrix.shapes import Shape
from tidyberg.parquet.fields import ElementField, FileField
from tidyberg.parquet.thrift import I32, Struct

PAGE_ROWS = 50

Write = Callable[[pa.Table, Path, Shape], None]


@dataclass(frozen=True)
class Writer:
    name: str
    codec: str  # as Iceberg spells it: the table asks for the same one
    write: Write = field(repr=False)
    gives_ids: bool = False
    plain: bool = False  # its pages are plain: they can be spliced
    single_pages: bool = False  # one v1 page a column and row group: its files can be joined
    cannot: Callable[[Shape], bool] = field(default=lambda _: False, repr=False)
    others: "tuple[Writer, ...]" = ()  # that write in turns with it, a file each

    def of_file(self, number: int) -> "Writer":
        return (self, *self.others)[number % (1 + len(self.others))]

    def __str__(self) -> str:
        return self.name


def by_arrow(**options: Any) -> Write:
    def write(rows: pa.Table, path: Path, shape: Shape) -> None:
        encodings = options.get("column_encoding")
        chosen = {
            "row_group_size": shape.row_group_rows,
            "max_rows_per_page": PAGE_ROWS,
            "write_batch_size": PAGE_ROWS,
            **{name: value for name, value in options.items() if value is not None},
        }
        if callable(encodings):
            chosen["column_encoding"] = _of_leaves(rows.schema, encodings)
            chosen["use_dictionary"] = False
        bloom = chosen.get("bloom_filter_options")
        if callable(bloom):
            chosen["bloom_filter_options"] = bloom(rows.schema)
        pq.write_table(rows, path, **chosen)

    return write


def _of_leaves(schema: pa.Schema, encoding: Callable[[pa.DataType], str | None]) -> dict[str, str]:
    """Returns encodings by the path of the leaf. Other leaves are plain."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_decimal_as_integer=True).close()
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return {leaves.column(number).path: encoding(leaves.column(number)) or "PLAIN" for number in range(len(leaves))}


def _delta_lengths(leaf: Any) -> str | None:
    return {
        "INT32": "DELTA_BINARY_PACKED",
        "INT64": "DELTA_BINARY_PACKED",
        "BYTE_ARRAY": "DELTA_LENGTH_BYTE_ARRAY",
    }.get(leaf.physical_type)


def _delta_bytes(leaf: Any) -> str | None:
    by_type = {
        "INT32": "DELTA_BINARY_PACKED",
        "BYTE_ARRAY": "DELTA_BYTE_ARRAY",
        "FIXED_LEN_BYTE_ARRAY": "DELTA_BYTE_ARRAY",
    }
    return by_type.get(leaf.physical_type, "RLE" if leaf.physical_type == "BOOLEAN" else None)


def _split_bytes(leaf: Any) -> str | None:
    has_width = leaf.physical_type in ("INT32", "INT64", "FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY")
    return "BYTE_STREAM_SPLIT" if has_width else None


def _bloom(schema: pa.Schema) -> dict[str, Any]:
    simple = [one.name for one in schema if not pa.types.is_nested(one.type) and not pa.types.is_boolean(one.type)]
    return {name: {"ndv": 300, "fpp": 0.01} for name in simple[:40]}


def by_duckdb(version: str, codec: str) -> Write:
    def write(rows: pa.Table, path: Path, shape: Shape) -> None:
        with duckdb.connect() as connection:
            connection.register("given", _without_extensions(rows))
            columns = ", ".join(
                f'"{one.name}"::{_DUCKDB_TYPES[one.type]} AS "{one.name}"'
                if one.type in _DUCKDB_TYPES
                else f'"{one.name}"'
                for one in rows.schema
            )
            connection.execute(
                f"COPY (SELECT {columns} FROM given) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version}, "
                f"ROW_GROUP_SIZE {shape.row_group_rows}, COMPRESSION {codec})"
            )

    return write


_DUCKDB_TYPES = {pa.uuid(): "UUID"}


def _without_extensions(rows: pa.Table) -> pa.Table:
    """Converts UUIDs to text, which DuckDB casts."""
    for place, column in enumerate(rows.schema):
        if column.type == pa.uuid():
            texts = [None if value is None else str(value) for value in rows[column.name].to_pylist()]
            rows = rows.set_column(place, column.name, pa.array(texts, pa.string()))
    return rows


def by_polars(**options: Any) -> Write:
    def write(rows: pa.Table, path: Path, shape: Shape) -> None:
        frame = polars.from_arrow(_bare(rows))
        assert isinstance(frame, polars.DataFrame)
        frame.write_parquet(path, **{"row_group_size": shape.row_group_rows, "data_page_size": 400, **options})

    return write


def _bare(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([pa.field(one.name, one.type) for one in rows.schema]))


def by_arrow_rs(**options: Any) -> Write:
    def write(rows: pa.Table, path: Path, shape: Shape) -> None:
        write_parquet(
            rows,
            path,
            max_row_group_size=shape.row_group_rows,
            data_page_row_count_limit=PAGE_ROWS,
            write_batch_size=PAGE_ROWS,
            **options,
        )

    return write


def by_datafusion(**options: Any) -> Write:
    def write(rows: pa.Table, path: Path, shape: Shape) -> None:
        context = datafusion.SessionContext()
        frame = context.from_arrow(rows)
        settings = ParquetWriterOptions(
            max_row_group_size=shape.row_group_rows,
            data_page_row_count_limit=PAGE_ROWS,
            write_batch_size=PAGE_ROWS,
            **options,
        )
        frame.write_parquet_with_options(path, settings, DataFrameWriteOptions(single_file_output=True))

    return write


def by_fastparquet(rows: pa.Table, path: Path, shape: Shape) -> None:
    frame = rows.to_pandas(types_mapper=_PANDAS_TYPES.get)
    groups = list(range(0, max(1, rows.num_rows), shape.row_group_rows))
    fastparquet.write(str(path), frame, row_group_offsets=groups, compression="ZSTD", write_index=False, stats=True)


def _pandas_types() -> Mapping[pa.DataType, Any]:
    import pandas as pd

    return {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


_PANDAS_TYPES = _pandas_types()
# Others become text or nothing on their way through pandas.
_OF_FASTPARQUET = {pa.int32(), pa.int64(), pa.float64(), pa.float32(), pa.string(), pa.binary()}


def _not_for_fastparquet(shape: Shape) -> bool:
    return not {column.type for column in shape.schema} <= _OF_FASTPARQUET


def _not_for_duckdb(shape: Shape) -> bool:
    """It has no bytes of fixed length."""
    return any(pa.types.is_fixed_size_binary(column.type) for column in shape.schema)


def _not_for_polars(shape: Shape) -> bool:
    """Nor has Polars UUIDs, and its times are in nanoseconds: Iceberg has no such files."""
    return _not_for_duckdb(shape) or any(column.type in (pa.uuid(), pa.time64("us")) for column in shape.schema)


def give_ids(path: Path, ids: Mapping[tuple[str, ...], int]) -> None:
    """Adds field ids for writers that lack them, by the path of names in Iceberg's schema."""

    def edit(footer: Struct) -> None:
        elements = iter(footer[FileField.SCHEMA][1].items)
        root = next(elements)
        for _ in range(root[ElementField.CHILDREN][1]):
            _give(elements, (), ids)

    edit_footer(path, edit)


def _give(elements: Any, above: tuple[str, ...], ids: Mapping[tuple[str, ...], int]) -> None:
    element = next(elements)
    name = element[ElementField.NAME][1].decode()
    here = above if _is_inner(element) else (*above, name)
    if here in ids and not _is_inner(element):
        element[ElementField.FIELD_ID] = (I32, ids[here])
        ordered = dict(sorted(element.items()))
        element.clear()
        element.update(ordered)
    for _ in range(element.get(ElementField.CHILDREN, (I32, 0))[1]):
        _give(elements, here, ids)


def _is_inner(element: Struct) -> bool:
    """The repeated group of a list or a map."""
    repeated = element.get(ElementField.REPETITION, (I32, 0))[1] == 2
    return repeated and ElementField.CHILDREN in element


_PLAIN_V1: dict[str, Any] = {"use_dictionary": False, "store_schema": False, "store_decimal_as_integer": True}
ALONE: Sequence[Writer] = (
    Writer(
        "arrow-dictionaries",
        "snappy",
        by_arrow(
            compression="snappy", write_page_index=True, store_decimal_as_integer=True, dictionary_pagesize_limit=200
        ),
        gives_ids=True,
    ),
    Writer(
        "arrow-plain-v1",
        "zstd",
        by_arrow(**_PLAIN_V1, compression="zstd", write_page_index=True, write_page_checksum=True),
        gives_ids=True,
        plain=True,
    ),
    Writer(
        "arrow-plain-v2",
        "zstd",
        by_arrow(
            **_PLAIN_V1, compression="zstd", data_page_version="2.0", write_page_index=True, write_page_checksum=True
        ),
        gives_ids=True,
        plain=True,
    ),
    Writer(
        "arrow-delta-lengths",
        "gzip",
        by_arrow(
            column_encoding=_delta_lengths, compression="gzip", data_page_version="2.0", store_decimal_as_integer=True
        ),
        gives_ids=True,
    ),
    Writer(
        "arrow-delta-bytes",
        "brotli",
        by_arrow(
            column_encoding=_delta_bytes,
            compression="brotli",
            write_page_index=True,
            store_schema=False,
            store_decimal_as_integer=True,
        ),
        gives_ids=True,
    ),
    Writer(
        "arrow-split",
        "lz4",
        by_arrow(
            column_encoding=_split_bytes, compression="lz4", write_page_checksum=True, store_decimal_as_integer=True
        ),
        gives_ids=True,
    ),
    Writer(
        "arrow-bloom",
        "zstd",
        by_arrow(compression="zstd", bloom_filter_options=_bloom, write_page_index=True),
        gives_ids=True,
    ),
    Writer(
        "arrow-no-statistics",
        "uncompressed",
        by_arrow(**_PLAIN_V1, compression="none", write_statistics=False),
        gives_ids=True,
    ),
    Writer(
        "arrow-one-page",
        "zstd",
        by_arrow(compression="zstd", max_rows_per_page=1_000_000, write_batch_size=1_000_000, row_group_size=1_000_000),
        gives_ids=True,
        single_pages=True,
    ),
    Writer("duckdb-v1", "snappy", by_duckdb("V1", "snappy"), cannot=_not_for_duckdb),
    Writer("duckdb-v2", "zstd", by_duckdb("V2", "zstd"), cannot=_not_for_duckdb),
    Writer("polars", "zstd", by_polars(compression="zstd", statistics="full"), cannot=_not_for_polars),
    Writer(
        "polars-plainest",
        "uncompressed",
        by_polars(compression="uncompressed", statistics=False),
        cannot=_not_for_polars,
    ),
    Writer(
        "arrow-rs-bloom",
        "zstd",
        by_arrow_rs(compression="zstd(1)", bloom_filter_enabled=True, bloom_filter_ndv=300, bloom_filter_fpp=0.01),
    ),
    Writer("arrow-rs-v2", "snappy", by_arrow_rs(compression="snappy", writer_version="parquet_2_0")),
    Writer("arrow-rs-plain", "gzip", by_arrow_rs(compression="gzip(1)", dictionary_enabled=False), plain=True),
    Writer("datafusion", "zstd", by_datafusion(compression="zstd(1)", dictionary_page_size_limit=200)),
    Writer("fastparquet", "zstd", by_fastparquet, cannot=_not_for_fastparquet),
)
BY_NAME = {writer.name: writer for writer in ALONE}


def _together(name: str, first: str, *others: str) -> Writer:
    """Files of several writers in one group, also with several codecs."""
    them = tuple(BY_NAME[other] for other in others)

    def cannot(shape: Shape) -> bool:
        return any(writer.cannot(shape) for writer in them)

    return replace(BY_NAME[first], name=name, plain=False, single_pages=False, cannot=cannot, others=them)


WRITERS: Sequence[Writer] = (
    *ALONE,
    _together("mixed-integers", "arrow-plain-v1", "polars", "arrow-plain-v2", "arrow-dictionaries"),
    _together("mixed-bytes", "arrow-bloom", "arrow-rs-bloom", "polars-plainest"),
    _together("mixed-all", "arrow-delta-lengths", "duckdb-v1", "arrow-rs-v2", "duckdb-v2", "arrow-split"),
)
