"""Tables that both Java and tidyberg work on, and how the tests compact them."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform

from tests.oracle.canonical import canonical_rows
from tidyberg.control.control import Control
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse
from tidyberg.testing.reading import read_rows

NAME = "db.events"

# Every type that Spark can read; `time` it cannot.
SCHEMA = Schema(*(field for field in SAMPLE_SCHEMA.fields if field.name != "clock"))


@dataclass(frozen=True)
class Shape:
    """The partitioning of a table: transforms of source columns."""

    name: str
    fields: tuple[tuple[str, Transform[Any, Any]], ...] = ()

    def spec(self, schema: Schema) -> PartitionSpec:
        return PartitionSpec(
            *(
                PartitionField(schema.find_field(source).field_id, 1000 + number, transform, f"part_{number}")
                for number, (source, transform) in enumerate(self.fields)
            )
        )


SHAPES = (
    Shape("unpartitioned"),
    Shape("day", (("created", DayTransform()),)),
    Shape("bucket", (("id", BucketTransform(3)),)),
    Shape("identity", (("active", IdentityTransform()),)),
    Shape("truncate", (("name", TruncateTransform(6)),)),
    Shape("day-and-bucket", (("day", DayTransform()), ("name", BucketTransform(2)))),
)


def make_table(
    warehouse: Warehouse, shape: Shape = SHAPES[0], format_version: int = 2, schema: Schema = SCHEMA, files: int = 6
) -> Table:
    table = warehouse.create_table(NAME, schema, shape.spec(schema), format_version=format_version)
    return warehouse.append_files(table, files, 40, files_per_commit=2)


def compact(
    warehouse: Warehouse,
    table: str = NAME,
    *,
    strategy: Strategy = Strategy.FULL,
    expect: str | tuple[str, ...] = "committed",
    where: str | None = None,
    engine: Engine | None = None,
    verify: VerifyMode = VerifyMode.FULL,
    **more: Any,
) -> CompactionResult:
    """Rewrites everything that can be rewritten, in this process, with full verification."""
    options = PlanOptions(strategy=strategy, min_input_files=2, where=where, **more)
    store = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    with Control(lambda _: warehouse.catalog, lambda: engine or InlineEngine(), store) as control:
        result = control.compact(TableRef.parse(table, warehouse.name), options, verify=verify)
    assert result.outcome in ((expect,) if isinstance(expect, str) else expect)
    return result


def arrow_rows(table: Table) -> list[str]:
    """Returns the rows as the warehouse reads them, in the form of JavaCatalog.rows."""
    schema = schema_to_pyarrow(table.refresh().schema(), include_field_ids=False)
    return canonical_rows(_as_spark_gives_it(row, schema) for row in read_rows(table, table.current_snapshot()))


def _as_spark_gives_it(row: dict[str, Any], schema: pa.Schema) -> tuple[Any, ...]:
    return tuple(_value(row[field.name], field.type) for field in schema)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Turns Arrow's structs into tuples and its maps into dicts, as Java returns them."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _as_spark_gives_it(value, pa.schema(list(kind)))
    if pa.types.is_map(kind):
        return {key: _value(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(item, kind.value_type) for item in value]
    return value


PREDICATES = (
    "id BETWEEN 1000010 AND 1000020",
    "count > 50000",
    "count IS NULL",
    "ratio < -100000",
    # To Spark NaN is above every number, to Iceberg's bounds it is nothing: left out, or files decide the answer.
    "amount >= 1000000 AND NOT isnan(amount)",
    "isnan(amount)",
    "price = 74937.00 OR price > 90000",
    "name = 'name-660'",
    "name LIKE 'name-1%'",
    "name IS NULL",
    "payload > X'80'",
    "day IN (DATE '2026-01-03', DATE '2026-01-25')",
    "created >= TIMESTAMP_NTZ '2026-01-20 12:00:00'",
    "seen < TIMESTAMP '2026-01-10 00:00:00Z'",
    "key > '80000000-0000-0000-0000-000000000000'",
    "digest < X'40000000'",
    "active",
    "NOT active",
    "place.city < 'name-2' AND place.height > 20000",
    "place IS NULL",
    "size(tags) = 0",
    "tags IS NULL",
    "scores IS NULL",
)
