"""Outputs and inventory write partition values the same way; conflicts are found by comparing them."""

import math
import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.builders.engines import Spoiling
from tests.builders.events_table import REF, make_table
from tests.builders.moved_tables import change_spec, move
from tidyberg.commit.new_partitions import partition_summaries
from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel.columns.transforms import plain_values
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.model.task import TaskResult
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.testing import Warehouse
from tidyberg.testing.reading import local_path

DAY = 86_400_000_000
MICROS = [-1, 0, 1, -DAY, -DAY - 1, 365 * DAY - 1, -62_135_596_800_000_000, 253_402_300_799_999_999]
NANOS = [-1, 0, 1, -DAY * 1000, -DAY * 1000 - 1, 999, -(2**62), 2**62]
TIMES = ("identity", "year", "month", "day", "hour", "bucket[7]")
CASES: list[tuple[PrimitiveType, list[Any], tuple[str, ...]]] = [
    (BooleanType(), [True, False], ("identity",)),
    (IntegerType(), [-1, 0, 1, -10, 2**31 - 1, -(2**31) + 1000], ("identity", "bucket[5]", "truncate[10]")),
    (LongType(), [-1, 0, 1, 2**63 - 1, -(2**63) + 1000], ("identity", "bucket[5]", "truncate[10]")),
    (FloatType(), [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1e-45], ("identity",)),
    (DoubleType(), [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 0.1 + 2**-56, 1e300, 5e-324], ("identity",)),
    (DecimalType(9, 2), ["0.00", "-0.01", "1.50", "-9999999.50", "9999999.99", "100.00"],
     ("identity", "bucket[5]", "truncate[50]")),
    (DecimalType(38, 0), ["0", "-1", "100", "9" * 38, "-" + "9" * 37 + "0"], ("identity", "bucket[5]", "truncate[10]")),
    (DecimalType(38, 20), ["0", "-0.00000000000000000001", "1e-20", "5"], ("identity", "bucket[5]", "truncate[10]")),
    (StringType(), ["", " ", "a", "null", "a/b=c%&?#", "😀😀x", "\ud7ff\ue000", "e\u0301é", "\x00", "x" * 40],
     ("identity", "bucket[5]", "truncate[1]", "truncate[2]", "truncate[20]")),
    (BinaryType(), [b"", b"\x00", b"\xff" * 30, b"a'b\\"], ("identity", "bucket[5]", "truncate[1]")),
    (FixedType(4), [b"\x00" * 4, b"\xff" * 4, b"a'b\\"], ("identity", "bucket[5]")),
    (UUIDType(), [UUID(int=0), UUID(int=2**128 - 1), UUID(int=7)], ("identity", "bucket[5]")),
    (DateType(), [-1, 0, 1, -719_162, 2_932_896, -365], ("identity", "year", "month", "day", "bucket[5]")),
    (TimeType(), [0, 1, DAY - 1], ("identity", "bucket[5]")),
    (TimestampType(), MICROS, TIMES),
    (TimestamptzType(), MICROS, TIMES),
    (TimestampNanoType(), NANOS, TIMES),
    (TimestamptzNanoType(), NANOS, TIMES),
]  # fmt: skip


class Recording(Spoiling):
    """Records the partitions of outputs, and may report wrong ones."""

    def __init__(self, claim: tuple[Any, ...] | None = None) -> None:
        super().__init__(self._record)
        self.partitions: set[str] = set()
        self._claim = claim

    def _record(self, result: TaskResult) -> TaskResult:
        self.partitions |= {repr(output.partition) for output in result.outputs}
        if self._claim is None:
            return result
        return replace(result, outputs=tuple(replace(output, partition=self._claim) for output in result.outputs))


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.array([value and value.bytes for value in values], pa.binary(16)).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_decimal(kind):
        return pa.array([value and Decimal(value) for value in values], kind)
    return pa.array(values, kind)


def test_outputs_of_another_partition_than_they_claim_are_not_committed(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), ("region", parse_transform("identity")))
    before = table.current_snapshot()
    with pytest.raises(VerificationFailed, match="wrong partitions"):
        move(warehouse, engine=Recording(claim=("asia",)))
    assert table.refresh().current_snapshot() == before


@pytest.mark.parametrize(("kind", "values", "transforms"), CASES, ids=[str(case[0]) for case in CASES])
def test_outputs_and_inventory_write_partitions_the_same_way(
    warehouse: Warehouse, kind: PrimitiveType, values: list[Any], transforms: tuple[str, ...]
) -> None:
    fields = [NestedField(number, f"c{number}", kind, required=False) for number in range(1, len(transforms) + 1)]
    inner = NestedField(101, "inner", StructType(NestedField(102, "leaf", kind, required=False)), required=False)
    table = warehouse.create_table("db.events", Schema(*fields, inner), format_version=3)
    target = arrow_schema(table.schema())
    data = column([*values, None], target.field(0).type)
    inside = pa.StructArray.from_arrays([data], fields=list(target.field("inner").type))
    rows = pa.table([*([data] * len(transforms)), inside], schema=target)
    warehouse.append_files(table, 2, rows=lambda _: rows)
    fields_of_spec = [(f"c{number}", parse_transform(name)) for number, name in enumerate(transforms, start=1)]
    change_spec(table, *fields_of_spec, ("inner.leaf", parse_transform(transforms[0])))
    engine = Recording()

    move(warehouse, engine=engine)

    inventory = take_inventory(table.refresh(), pin(table, REF))
    found = {repr(partition.values) for partition in inventory.partitions}
    assert found == engine.partitions
    assert len(found) == len(values) + 1
    outputs = [pq.read_table(local_path(path)) for path in inventory.data_files["path"].to_pylist()]
    assert {output.num_rows for output in outputs} == {2}
    written = pa.concat_tables(outputs).select(rows.column_names)
    assert texts(written) == texts(pa.concat_tables([rows, rows]))


def texts(rows: pa.Table) -> list[str]:
    plain = pa.table({name: plain_values(rows[name].combine_chunks()) for name in rows.column_names if name != "inner"})
    inner = plain_values(pc.struct_field(rows["inner"], [0]).combine_chunks())
    return sorted(map(repr, plain.append_column("inner", inner).to_pylist()))


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
@pytest.mark.parametrize(("kind", "layout"), [(FloatType(), "<f"), (DoubleType(), "<d")])
def test_a_manifests_summary_covers_both_zeros(kind: PrimitiveType, layout: str, zeros: tuple[float, float]) -> None:
    summary = partition_summaries([kind], [(zero,) for zero in zeros])[0]
    assert (summary[510], summary[511]) == (struct.pack(layout, -0.0), struct.pack(layout, 0.0))
