"""Iceberg Java and parquet-mr: writes tables with them, and reads rows with them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.matrix.filters import Filter, sql_condition
from tests.oracle.canonical import canonical_rows
from tests.oracle.client import JavaCatalog, OracleError
from tidyberg.parquet.pages import page_spans
from tidyberg.testing import local_path

_COLUMNS = (
    "id BIGINT, small INT, name STRING, ratio DOUBLE, weight FLOAT, price DECIMAL(20, 2), cents DECIMAL(7, 2), "
    "at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, flag BOOLEAN, raw BINARY, never INT, "
    "place STRUCT<x: INT, label: STRING>, tags ARRAY<STRUCT<p: INT, q: MAP<STRING, DOUBLE>>>"
)
_VALUES = (
    "id, IF(id % 7 = 0, NULL, int(id % 100)) AS small, concat('näme-', id % 150) AS name, "
    "CASE WHEN id % 50 = 0 THEN double('NaN') WHEN id % 50 = 1 THEN double('-0.0') ELSE id / 7 END AS ratio, "
    "float(id) AS weight, CAST(id * 100 AS DECIMAL(20, 2)) AS price, CAST(id % 1000 AS DECIMAL(7, 2)) AS cents, "
    "timestamp_seconds(1700000000 + id * 60) AS at, {local} AS local, "
    "date_add(DATE '2024-01-01', int(id % 300)) AS day, id % 3 = 0 AS flag, unhex(hex(id * 77)) AS raw, "
    "CAST(NULL AS INT) AS never, "
    "IF(id % 3 = 0, NULL, named_struct('x', int(id), 'label', concat('l', id % 10))) AS place, "
    "IF(id % 4 = 0, NULL, IF(id % 4 = 1, array(), "
    "array(named_struct('p', int(id), 'q', map('a', id / 3)), NULL))) AS tags"
)
_LOCAL = "CAST(timestamp_seconds(1700000000 + id * 60) AS TIMESTAMP_NTZ)"
_SMALL_PAGES = {"write.parquet.page-row-limit": "50", "write.parquet.row-group-check-min-record-count": "100"}
_SMALL_GROUPS = {"write.parquet.row-group-size-bytes": "20000", "write.parquet.dict-size-bytes": "600"}
_BLOOM = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("id", "name", "price", "day")}

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3  # as page headers say it
_MOST_SCANS = 24  # of a query: over hundreds Spark thinks for minutes


@dataclass(frozen=True)
class JavaWriter:
    """A table that Java writes by its properties. Spark's own writer writes INT96, and add_files adds the files."""

    name: str
    codec: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    int96: bool = False

    @property
    def page_kind(self) -> int:
        """Of its data pages."""
        return _DATA_PAGE_V2 if self.properties.get("write.parquet.page-version") == "v2" else _DATA_PAGE

    def __str__(self) -> str:
        return self.name


# Not brotli: Iceberg's runtime for Spark has no such codec.
JAVA_WRITERS = (
    JavaWriter(
        "java-bloom", "zstd", _SMALL_PAGES | _SMALL_GROUPS | _BLOOM | {"write.parquet.bloom-filter-max-bytes": "4096"}
    ),
    JavaWriter("java-v2", "snappy", _SMALL_PAGES | {"write.parquet.page-version": "v2"}),
    JavaWriter("java-plain", "gzip", _SMALL_PAGES | {"write.parquet.dict-size-bytes": "64"}),
    JavaWriter("java-lz4", "lz4", _SMALL_GROUPS),
    JavaWriter("java-uncompressed", "uncompressed", _SMALL_PAGES),
    JavaWriter("spark-int96", "snappy", int96=True),
)


def fill(java: JavaCatalog, name: str, writer: JavaWriter, directory: Path, version: int = 2, rows: int = 600) -> None:
    """Writes three files, and checks that their pages have the type that the writer stands for."""
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    given = {"format-version": str(version), "write.parquet.compression-codec": writer.codec, **writer.properties}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    java.sql(f"CREATE TABLE {name} ({_COLUMNS}) USING iceberg TBLPROPERTIES ({listed})")
    if writer.int96:
        _add_int96(java, name, directory, rows)
    else:
        for first in range(0, rows, rows // 3):
            source = f"range({first}, {first + rows // 3})"
            java.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {_VALUES.format(local=_LOCAL)} FROM {source}")
    for (path,) in java.sql(f"SELECT file_path FROM {name}.files"):
        found = page_kinds(local_path(path)) - {_DICTIONARY_PAGE}
        assert found == {writer.page_kind}, f"{writer} wrote pages of kinds {found}"


def _add_int96(java: JavaCatalog, name: str, directory: Path, rows: int) -> None:
    java.set_conf("spark.sql.parquet.outputTimestampType", "INT96")
    # Spark keeps local times out of INT96, in a type of their own.
    java.sql(
        f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet "
        f"SELECT /*+ REPARTITION(3) */ {_VALUES.format(local=_LOCAL)} FROM range(0, {rows})"
    )
    java.call("add_files", table=name, source_table=f"`parquet`.`{directory}`")


def page_kinds(path: str) -> set[int]:
    """Returns the page types in the page headers of a file."""
    content, footer = Path(path).read_bytes(), pq.read_metadata(path)
    found = set()
    for group, leaf in product(range(footer.num_row_groups), range(footer.num_columns)):
        chunk = footer.row_group(group).column(leaf)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        found |= {place.kind for place in page_spans(content[start : start + chunk.total_compressed_size])}
    return found


@dataclass(frozen=True)
class JavaReader:
    name: str
    settings: tuple[tuple[str, str], ...]  # of the session
    by_path: bool = False  # reads Parquet files, not the table
    vectorized: bool | None = None  # of the table

    def __str__(self) -> str:
        return self.name


JAVA_READERS = (
    JavaReader("iceberg-vectorized", (), vectorized=True),
    JavaReader("iceberg-rows", (), vectorized=False),
    JavaReader(
        "parquet-mr",
        (
            ("spark.sql.parquet.enableVectorizedReader", "false"),
            ("spark.sql.parquet.filterPushdown", "true"),
            ("parquet.filter.columnindex.enabled", "true"),
            ("parquet.filter.bloom.enabled", "true"),
            ("parquet.filter.dictionary.enabled", "true"),
            ("parquet.page.verify-checksum.enabled", "true"),
        ),
        by_path=True,
    ),
)


@dataclass(frozen=True)
class Files:
    """Of a table, and the columns that it has: rewritten files may have those of lineage too."""

    table: str
    columns: Sequence[str]
    paths: Sequence[str]


class Asked:
    """A table, or the files of one, through one of these readers."""

    def __init__(self, java: JavaCatalog, reader: JavaReader, files: Files, snapshot_id: int | None = None) -> None:
        self._java, self._columns = java, ", ".join(f"`{name}`" for name in files.columns)
        for key, value in reader.settings:
            java.set_conf(key, value)
        if reader.vectorized is not None:
            chosen = str(reader.vectorized).lower()
            java.set_conf("spark.sql.iceberg.vectorization.enabled", chosen)
        self._source = files.table if snapshot_id is None else f"{files.table} VERSION AS OF {snapshot_id}"
        if reader.by_path:
            listed = " UNION ALL ".join(f"SELECT {self._columns} FROM parquet.`{path}`" for path in files.paths)
            java.sql(f"CREATE OR REPLACE TEMPORARY VIEW given AS {listed}")
            self._source = "given"

    def rows(self) -> list[str]:
        return canonical_rows(self._java.sql(f"SELECT {self._columns} FROM {self._source}"))

    def found(self, wanted: Sequence[Filter]) -> list[tuple[list[int], list[int]]]:
        """Returns the ids for each filter twice: with pruning, and by the same condition without pruning."""
        conditions = [spark_condition(one) for one in wanted]
        return list(zip(self._pruned(conditions), self._expected(conditions), strict=True))

    def answers(self, wanted: Sequence[Filter]) -> dict[Filter, str]:
        """Returns what is wrong with each filter: nothing, "other rows", or Java's error."""
        try:
            found = self.found(wanted)
        except OracleError as error:
            by_column: dict[tuple[str, ...], list[Filter]] = {}
            for one in wanted:
                by_column.setdefault(one.path, []).append(one)
            if len(by_column) == 1:
                return dict.fromkeys(wanted, str(error))
            return {one: answer for some in by_column.values() for one, answer in self.answers(some).items()}
        return {
            one: "" if pruned == expected else self._alone(one, len(wanted))
            for one, (pruned, expected) in zip(wanted, found, strict=True)
        }

    def _alone(self, wanted: Filter, asked_together: int) -> str:
        """Spark may evaluate a condition wrongly if the same query has conditions with 0.0 and with -0.0."""
        return "other rows" if asked_together == 1 else self.answers([wanted])[wanted]

    def _pruned(self, conditions: Sequence[str]) -> Iterator[list[int]]:
        for first in range(0, len(conditions), _MOST_SCANS):
            some = conditions[first : first + _MOST_SCANS]
            branches = [
                f"SELECT {number} AS f, id FROM {self._source} WHERE {condition}"
                for number, condition in enumerate(some)
            ]
            ids: list[list[int]] = [[] for _ in some]
            for number, row in self._java.sql(" UNION ALL ".join(branches)):
                ids[number].append(row)
            yield from map(sorted, ids)

    def _expected(self, conditions: Sequence[str]) -> list[list[int]]:
        listed = ", ".join(f"coalesce({condition}, false)" for condition in conditions)
        rows = sorted(self._java.sql(f"SELECT id, {listed} FROM {self._source}"))
        return [[row[0] for row in rows if row[place]] for place in range(1, 1 + len(conditions))]


def spark_condition(wanted: Filter) -> str:
    return sql_condition(wanted, "`", _literal)


def _literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return str(value).lower()
    if pa.types.is_integer(kind):
        return f"CAST({value} AS {'INT' if kind == pa.int32() else 'BIGINT'})"
    if pa.types.is_floating(kind):
        return f"CAST('{value!r}' AS {'FLOAT' if kind == pa.float32() else 'DOUBLE'})"
    if pa.types.is_decimal(kind):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_timestamp(kind):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        return f"TIMESTAMP '{text}Z'" if kind.tz else f"TIMESTAMP_NTZ '{text}'"
    if pa.types.is_date(kind):
        return f"DATE '{value.isoformat()}'"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return f"X'{value.hex()}'"
