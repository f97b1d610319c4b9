"""Projection by field id against a plain Python model of the Iceberg spec's rules."""

import datetime as dt
import io
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.execute.builders import field
from tidyberg.execute.kernel.failures import FailureKind, KernelFailure
from tidyberg.execute.kernel.project import AMBIGUOUS, leaves, project, select

PROMOTIONS = {"int": "long", "float": "double", "decimal(9,2)": "decimal(20,2)"}
ARROW = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(),
    "string": pa.string(), "binary": pa.binary(), "fixed": pa.binary(4), "date": pa.date32(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", tz="UTC"), "time": pa.time64("us"),
    "decimal(9,2)": pa.decimal128(9, 2), "decimal(20,2)": pa.decimal128(20, 2), "uuid": pa.uuid(),
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "fixed": st.binary(min_size=4, max_size=4),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(dt.UTC)),
    "time": st.times(),
    "decimal(9,2)": st.decimals(-9999999, 9999999, places=2),
    "decimal(20,2)": st.decimals(-(10**17), 10**17, places=2),
    "uuid": st.uuids(),
}


@dataclass(frozen=True)
class Kind:
    """A type: a primitive's name, or "struct", "list", "map" with fields."""

    name: str
    fields: tuple["Column", ...] = ()


@dataclass(frozen=True)
class Column:
    identifier: int
    name: str
    kind: Kind


class Numbering:
    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


@st.composite
def kinds(draw: st.DrawFn, numbers: Numbering, depth: int = 2) -> Kind:
    name = draw(st.sampled_from([*ARROW, *(["struct", "list", "map"] * 3 if depth else [])]))
    if name == "struct":
        return Kind(name, draw(columns(numbers, depth - 1)))
    if name == "list":
        return Kind(name, (Column(numbers.next(), "element", draw(kinds(numbers, depth - 1))),))
    if name == "map":
        key = Column(numbers.next(), "key", Kind("string"))
        return Kind(name, (key, Column(numbers.next(), "value", draw(kinds(numbers, depth - 1)))))
    return Kind(name)


@st.composite
def columns(draw: st.DrawFn, numbers: Numbering, depth: int = 2) -> tuple[Column, ...]:
    return tuple(
        Column(identifier := numbers.next(), f"c{identifier}", draw(kinds(numbers, depth)))
        for _ in range(draw(st.integers(1, 3)))
    )


@st.composite
def evolved(draw: st.DrawFn, old: tuple[Column, ...], numbers: Numbering, renames: bool) -> tuple[Column, ...]:
    """Dropped, renamed, reordered, promoted and added columns, nested ones too."""
    kept = []
    for column in old:
        if draw(st.integers(0, 4)) == 0:
            continue
        name = f"r{column.identifier}" if renames and draw(st.booleans()) else column.name
        kept.append(replace(column, name=name, kind=draw(evolved_kind(column.kind, numbers, renames))))
    grows = draw(st.booleans()) or not kept
    added = draw(columns(numbers, 1)) if grows else ()
    return tuple(draw(st.permutations([*kept, *added])))


@st.composite
def evolved_kind(draw: st.DrawFn, kind: Kind, numbers: Numbering, renames: bool) -> Kind:
    if kind.name == "struct":
        return replace(kind, fields=draw(evolved(kind.fields, numbers, renames)))
    if kind.name in ("list", "map"):
        *keys, last = kind.fields
        return replace(kind, fields=(*keys, replace(last, kind=draw(evolved_kind(last.kind, numbers, renames)))))
    return Kind(PROMOTIONS.get(kind.name, kind.name)) if draw(st.booleans()) else kind


def arrow_type(kind: Kind, ids: bool, storage: bool) -> pa.DataType:
    parts = [arrow_field(column, ids, storage) for column in kind.fields]
    if kind.name == "struct":
        return pa.struct(parts)
    if kind.name == "list":
        return pa.list_(parts[0])
    if kind.name == "map":
        return pa.map_(parts[0].with_nullable(False), parts[1])
    return pa.binary(16) if storage and kind.name == "uuid" else ARROW[kind.name]


def arrow_field(column: Column, ids: bool, storage: bool) -> pa.Field:
    kind = arrow_type(column.kind, ids, storage)
    return field(column.name, kind, column.identifier) if ids else pa.field(column.name, kind)


def arrow_schema(columns: tuple[Column, ...], ids: bool = True, storage: bool = False) -> pa.Schema:
    return pa.schema([arrow_field(column, ids, storage) for column in columns])


def values(kind: Kind) -> st.SearchStrategy[Any]:
    if kind.name == "struct":
        present: st.SearchStrategy[Any] = st.fixed_dictionaries({c.name: values(c.kind) for c in kind.fields})
    elif kind.name == "list":
        present = st.lists(values(kind.fields[0].kind), max_size=3)
    elif kind.name == "map":
        present = st.dictionaries(st.text(max_size=3), values(kind.fields[1].kind), max_size=3).map(
            lambda d: list(d.items())
        )
    else:
        present = VALUES[kind.name]
    return st.none() | present


def stored(value: Any) -> Any:
    """Arrow builds no nested extension arrays from Python values: uuids go in as their bytes."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, dict):
        return {name: stored(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(stored(part) for part in value)
    return value


def expected(value: Any, old: Kind, new: Kind, by_name: bool) -> Any:
    if value is None:
        return None
    if new.name == "struct":
        return expected_struct(value, old.fields, new.fields, by_name)
    if new.name == "list":
        return [expected(part, old.fields[0].kind, new.fields[0].kind, by_name) for part in value]
    if new.name == "map":
        return [(key, expected(part, old.fields[1].kind, new.fields[1].kind, by_name)) for key, part in value]
    return value


def expected_struct(
    value: dict[str, Any], old: tuple[Column, ...], new: tuple[Column, ...], by_name: bool
) -> dict[str, Any]:
    found = {}
    for column in new:
        source = next(
            (o for o in old if (o.name == column.name if by_name else o.identifier == column.identifier)), None
        )
        found[column.name] = None if source is None else expected(value[source.name], source.kind, column.kind, by_name)
    return found


@settings(max_examples=250)
@given(st.data())
def test_projection_equals_a_plain_model_under_any_evolution(data: st.DataObject) -> None:
    numbers = Numbering()
    by_name = data.draw(st.booleans())
    old = data.draw(columns(numbers))
    new = data.draw(evolved(old, numbers, renames=not by_name))
    rows = data.draw(st.lists(st.fixed_dictionaries({c.name: values(c.kind) for c in old}), max_size=6))

    stored_schema = arrow_schema(old, ids=not by_name, storage=True)
    table = pa.Table.from_pylist([stored(row) for row in rows], schema=stored_schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, store_schema=False, row_group_size=4)
    target = arrow_schema(new)
    parquet = pq.ParquetFile(buffer)
    selection = select(parquet.schema_arrow, target)
    assert selection.by_name == by_name
    found = []
    for batch in parquet.reader.iter_batches(
        3, row_groups=range(parquet.num_row_groups), column_indices=selection.columns, use_threads=False
    ):
        projected = project(batch, target, by_name=by_name, constants={})
        projected.validate(full=True)
        assert projected.schema.equals(target, check_metadata=True)
        found += projected.to_pylist()
        # A batch that is a slice of a longer one has offsets: they must be followed.
        sliced = project(batch.slice(1), target, by_name=by_name, constants={})
        sliced.validate(full=True)
        assert sliced.to_pylist() == projected.to_pylist()[1:]
    assert found == [expected_struct(row, old, new, by_name) for row in rows]


@settings(max_examples=100)
@given(st.data())
def test_only_needed_leaves_are_read(data: st.DataObject) -> None:
    numbers = Numbering()
    old = data.draw(columns(numbers))
    new = data.draw(evolved(old, numbers, renames=True))
    file_leaves = leaves(arrow_schema(old, storage=True))
    selection = select(arrow_schema(old, storage=True), arrow_schema(new))
    wanted = {leaf.field_id for leaf in leaves(arrow_schema(new))}
    assert len(set(selection.columns)) == len(selection.columns)
    for identifier, index in selection.source_of.items():
        assert file_leaves[index].field_id == identifier
        assert identifier in wanted
    # Others are read only for the nulls of a struct all of whose fields are new.
    extra = set(selection.columns) - set(selection.source_of.values())
    assert all("." in file_leaves[index].path for index in extra)


def test_uuid_file_column_stays_uuid() -> None:
    identifier = uuid4()
    schema = pa.schema([field("u", pa.uuid(), 1)])
    buffer = io.BytesIO()
    pq.write_table(pa.table([pa.array([identifier, None], pa.uuid())], schema=schema), buffer, store_schema=False)
    batch = pq.ParquetFile(buffer).read().to_batches()[0]
    assert project(batch, schema, by_name=False, constants={}).to_pylist() == [{"u": identifier}, {"u": None}]


@pytest.mark.parametrize(
    ("source", "wanted", "expected_values"),
    [
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array([b"a", None]), pa.string(), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([[1], None, []], pa.large_list(pa.int32())), pa.list_(pa.int64()), [[1], None, []]),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.list_(pa.int32()), [[1, 2], None]),
        (pa.nulls(2), pa.int32(), [None, None]),
        (pa.array([5], pa.timestamp("ms")), pa.timestamp("us"), [dt.datetime.fromisoformat("1970-01-01T00:00:00.005")]),
        (
            pa.array([5], pa.timestamp("us")),
            pa.timestamp("us", tz="UTC"),
            [dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)],
        ),
        (pa.array([Decimal("1.20")], pa.decimal128(4, 2)), pa.decimal128(30, 2), [Decimal("1.20")]),
    ],
)
def test_other_encodings_of_the_same_values_are_read(
    source: pa.Array, wanted: pa.DataType, expected_values: list[Any]
) -> None:
    batch = pa.RecordBatch.from_arrays([source], schema=pa.schema([field("c", source.type, 1)]))
    target = pa.schema([field("c", wanted, 1)])
    assert project(batch, target, by_name=False, constants={}).column(0).to_pylist() == expected_values


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (pa.array([1.5]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([Decimal("1.25")], pa.decimal128(4, 2)), pa.decimal128(9, 1)),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([1_001], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
    ],
)
def test_values_that_would_change_are_refused(source: pa.Array, wanted: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([source], schema=pa.schema([field("c", source.type, 1)]))
    target = pa.schema([field("c", wanted, 1)])

    def read() -> None:
        select(batch.schema, target)
        project(batch, target, by_name=False, constants={})

    with pytest.raises(KernelFailure) as raised:
        read()
    assert raised.value.kind is FailureKind.SCHEMA
    assert "'c'" in raised.value.message


def test_absent_identity_partition_column_takes_its_constant() -> None:
    schema = pa.schema([field("id", pa.int64(), 1)])
    target = pa.schema(
        [
            field("day", pa.date32(), 3),
            field("id", pa.int64(), 1),
            field("region", pa.dictionary(pa.int32(), pa.string()), 4),
        ]
    )
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2])], schema=schema)
    projected = project(batch, target, by_name=False, constants={3: 19_700, 4: "eu"})
    day = dt.date(2023, 12, 9)
    assert projected.to_pylist() == [{"day": day, "id": i, "region": "eu"} for i in (1, 2)]


def test_a_partition_value_that_may_be_null_or_text_is_not_guessed() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])], schema=pa.schema([field("id", pa.int64(), 1)]))
    target = pa.schema([field("region", pa.string(), 2)])
    with pytest.raises(KernelFailure, match="may be the text"):
        project(batch, target, by_name=False, constants={2: AMBIGUOUS})


def test_a_leaf_is_selected_once_though_two_targets_need_it() -> None:
    def person(*children: pa.Field) -> pa.Field:
        return field("person", pa.struct(list(children)), 4)

    stored = pa.schema([person(field("age", pa.int32(), 5))])
    target = pa.schema([person(field("first", pa.string(), 6)), person(field("last", pa.string(), 7))])
    assert select(stored, target).columns == [0]
