"""Readers of the files before and after a rewrite: all rows, and the rows that a filter finds with pruning."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

import datafusion
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.matrix.filters import Filter, compared, sql_condition


class Unsupported(Exception):  # noqa: N818  (says what a reader is, not that something failed)
    """The reader does not support the filter."""


class Reader(Protocol):
    """Reads a set of files. Ids are those of the rows that a filter finds, in order."""

    name: str

    def __init__(self, paths: Sequence[str]) -> None: ...

    def rows(self) -> pa.Table:
        """Returns all rows, read file by file."""
        ...

    def found(self, wanted: Filter) -> list[int]:
        """Returns the ids with pruning by statistics, page indexes, dictionaries and Bloom filters."""
        ...

    def expected(self, wanted: Filter) -> list[int]:
        """Returns the ids that the same engine finds with the same filter in memory, without pruning."""
        ...


class Arrow:
    name = "pyarrow"

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = list(paths)
        # Field ids and other metadata of a schema may differ from file to file.
        options = ds.ParquetFragmentScanOptions(pre_buffer=False, page_checksum_verification=True)
        self._format = ds.ParquetFileFormat(default_fragment_scan_options=options)
        self._datasets = [ds.dataset(path, format=self._format) for path in paths]
        self._all: pa.Table | None = None

    def rows(self) -> pa.Table:
        if self._all is None:
            read = [pq.read_table(path, page_checksum_verification=True, partitioning=None) for path in self._paths]
            self._all = _together(read)
        return self._all

    def found(self, wanted: Filter) -> list[int]:
        try:
            return sorted(
                number
                for dataset in self._datasets
                for number in dataset.to_table(columns=["id"], filter=_arrow_expression(wanted))["id"].to_pylist()
            )
        except pa.ArrowNotImplementedError as error:
            raise Unsupported(str(error)) from None

    def expected(self, wanted: Filter) -> list[int]:
        try:
            return sorted(self.rows().filter(_arrow_expression(wanted))["id"].to_pylist())
        except pa.ArrowNotImplementedError as error:
            raise Unsupported(str(error)) from None


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([table.replace_schema_metadata() for table in tables], promote_options="permissive")


def _arrow_expression(wanted: Filter) -> pc.Expression:
    column = pc.field(*wanted.path)
    if wanted.operation == "is null":
        return column.is_null()
    if wanted.operation == "is not null":
        return column.is_valid()
    values = [arrow_scalar(value, wanted.type) for value in wanted.values]
    if wanted.operation == "in":
        return column.isin(pa.array(values, wanted.type))
    found: pc.Expression = compared(column, wanted.operation, values)
    return found


def arrow_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    if kind == pa.uuid():
        return pa.scalar(value.bytes if isinstance(value, uuid.UUID) else value, pa.binary(16)).cast(kind)
    return pa.scalar(value, kind)


class DuckDB:
    name = "duckdb"

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = list(paths)
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        # It replaces a filter by the values that it knows of few rows.
        self._connection.execute("SET threads = 1")
        listed = ", ".join(f"'{path}'" for path in paths)
        # By name: on format version 3 a rewritten file has columns of lineage that a file left as it is has not.
        self._source = f"read_parquet([{listed}], union_by_name = true)"
        self._loaded = False

    def rows(self) -> pa.Table:
        return _together(
            [self._connection.execute(f"FROM read_parquet('{path}')").to_arrow_table() for path in self._paths]
        )

    def found(self, wanted: Filter) -> list[int]:
        return self._ids(self._source, wanted)

    def expected(self, wanted: Filter) -> list[int]:
        if not self._loaded:
            self._connection.execute(f"CREATE TABLE loaded AS FROM {self._source}")
            self._loaded = True
        return self._ids("loaded", wanted)

    def _ids(self, source: str, wanted: Filter) -> list[int]:
        text = f"SELECT id FROM {source} WHERE {duckdb_condition(wanted)}"
        try:
            return sorted(number for (number,) in self._connection.execute(text).fetchall())
        except duckdb.BinderException as error:
            raise Unsupported(str(error)) from None


def duckdb_condition(wanted: Filter) -> str:
    return sql_condition(wanted, '"', _duckdb_literal)


def _duckdb_literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return str(value)
    if pa.types.is_floating(kind):
        return f"'{value!r}'::{'FLOAT' if kind == pa.float32() else 'DOUBLE'}"
    if pa.types.is_decimal(kind):
        return f"'{value:f}'::DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            # DuckDB has no nanoseconds with a zone: it reads them as microseconds.
            return f"make_timestamp_ns({value})" if kind.tz is None else f"to_timestamp({value} / 1e9)"
        return f"'{value.isoformat()}'::{'TIMESTAMPTZ' if kind.tz else 'TIMESTAMP'}"
    if kind == pa.uuid():
        return f"'{uuid.UUID(bytes=value) if isinstance(value, bytes) else value}'::UUID"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if pa.types.is_string(kind):
        return "'" + str(value).replace("'", "''") + "'"
    return f"'{value}'::{'DATE' if isinstance(value, dt.date) else 'TIME'}"


class Polars:
    name = "polars"

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = list(paths)
        self._loaded: list[polars.LazyFrame] | None = None

    def rows(self) -> pa.Table:
        return _together([polars.read_parquet(path, hive_partitioning=False).to_arrow() for path in self._paths])

    def found(self, wanted: Filter) -> list[int]:
        scans = [polars.scan_parquet(path, hive_partitioning=False, use_statistics=True) for path in self._paths]
        return sorted(number for scan in scans for number in self._ids(scan, wanted))

    def expected(self, wanted: Filter) -> list[int]:
        if self._loaded is None:
            self._loaded = [polars.read_parquet(path, hive_partitioning=False).lazy() for path in self._paths]
        return sorted(number for frame in self._loaded for number in self._ids(frame, wanted))

    def _ids(self, frame: polars.LazyFrame, wanted: Filter) -> list[int]:
        return frame.filter(_polars_expression(wanted)).select("id").collect()["id"].to_list()


def _polars_expression(wanted: Filter) -> polars.Expr:
    column = polars.col(wanted.path[0])
    for member in wanted.path[1:]:
        column = column.struct.field(member)
    if wanted.operation == "is null":
        return column.is_null()
    if wanted.operation == "is not null":
        return column.is_not_null()
    literals = [_polars_value(value, wanted.type) for value in wanted.values]
    if wanted.operation == "in":
        return column.is_in(polars.concat(literals))
    found: polars.Expr = compared(column, wanted.operation, literals)
    return found


def _polars_value(value: Any, kind: pa.DataType) -> polars.Series:
    if kind == pa.uuid():
        array = pa.array([value.bytes if isinstance(value, uuid.UUID) else value], pa.binary())
    elif pa.types.is_fixed_size_binary(kind):
        array = pa.array([value], pa.binary())
    else:
        array = pa.array([value], kind)
    series = polars.from_arrow(array)
    assert isinstance(series, polars.Series)
    return series


class DataFusion:
    name = "datafusion"

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = list(paths)
        config = datafusion.SessionConfig(
            {
                "datafusion.execution.parquet.pushdown_filters": "true",
                "datafusion.execution.parquet.reorder_filters": "true",
                "datafusion.execution.parquet.enable_page_index": "true",
                "datafusion.execution.parquet.bloom_filter_on_read": "true",
                "datafusion.execution.parquet.pruning": "true",
                "datafusion.execution.target_partitions": "1",
            }
        )
        self._context = datafusion.SessionContext(config)
        self._frames = [self._context.read_parquet(path) for path in paths]
        self._loaded: list[datafusion.DataFrame] | None = None

    def rows(self) -> pa.Table:
        return _together([frame.to_arrow_table() for frame in self._frames])

    def found(self, wanted: Filter) -> list[int]:
        return sorted(number for frame in self._frames for number in self._ids(frame, wanted))

    def expected(self, wanted: Filter) -> list[int]:
        if self._loaded is None:
            self._loaded = [self._context.from_arrow(frame.to_arrow_table()) for frame in self._frames]
        return sorted(number for frame in self._loaded for number in self._ids(frame, wanted))

    def _ids(self, frame: datafusion.DataFrame, wanted: Filter) -> list[int]:
        try:
            found = frame.filter(_datafusion_expression(wanted)).select("id")
        except Exception as error:  # it raises nothing more specific
            if "type_coercion" in str(error):
                raise Unsupported(str(error)) from None
            raise
        return [number for batch in found.collect() for number in batch.column(0).to_pylist()]


def _datafusion_expression(wanted: Filter) -> datafusion.Expr:
    column = datafusion.col(f'"{wanted.path[0]}"')
    for member in wanted.path[1:]:
        column = column[member]
    if wanted.operation == "is null":
        return column.is_null()
    if wanted.operation == "is not null":
        return column.is_not_null()
    values = [datafusion.lit(_datafusion_scalar(value, wanted.type)) for value in wanted.values]
    if wanted.operation == "in":
        return datafusion.functions.in_list(column, values)
    found: datafusion.Expr = compared(column, wanted.operation, values)
    return found


def _datafusion_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    if kind == pa.uuid():
        return pa.scalar(value.bytes if isinstance(value, uuid.UUID) else value, pa.binary(16))
    return pa.scalar(value, kind)


READERS: tuple[type[Reader], ...] = (Arrow, DuckDB, Polars, DataFusion)
