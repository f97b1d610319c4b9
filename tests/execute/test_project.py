"""Projection by field id against a plain Python model of the Iceberg spec's rules."""

import datetime as dt
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.tasks import field
from tidyberg.execute.kernel.columns.project import leaves, project, select
from tidyberg.failures import FailureKind, KernelFailure

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
def evolved(draw: st.DrawFn, old: tuple[Column, ...], numbers: Numbering) -> tuple[Column, ...]:
    """Dropped, renamed, reordered, promoted and added columns, nested ones too; some take the name of a dropped one."""
    kept: list[Column] = []
    dropped: list[str] = []
    for column in old:
        if draw(st.integers(0, 4)) == 0:
            dropped.append(column.name)
            continue
        name = f"r{column.identifier}" if draw(st.booleans()) else column.name
        kept.append(replace(column, name=name, kind=draw(evolved_kind(column.kind, numbers))))
    grows = draw(st.booleans()) or not kept
    added = []
    for column in draw(columns(numbers, 1)) if grows else ():
        reuses_name = bool(dropped) and draw(st.booleans())
        added.append(replace(column, name=dropped.pop()) if reuses_name else column)
    return tuple(draw(st.permutations([*kept, *added])))


@st.composite
def evolved_kind(draw: st.DrawFn, kind: Kind, numbers: Numbering) -> Kind:
    if kind.name == "struct":
        return replace(kind, fields=draw(evolved(kind.fields, numbers)))
    if kind.name in ("list", "map"):
        *keys, last = kind.fields
        return replace(kind, fields=(*keys, replace(last, kind=draw(evolved_kind(last.kind, numbers)))))
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


@dataclass(frozen=True)
class Model:
    """What a reader must find by the specification: fields by id; absent fields are their constants, or null."""

    constants: dict[int, Any]
    unmapped: set[int]  # fields of a file without ids that its name mapping does not know

    def value(self, value: Any, old: Kind, new: Kind) -> Any:
        if value is None:
            return None
        if new.name == "struct":
            return self.struct(value, old.fields, new.fields)
        if new.name == "list":
            return [self.value(part, old.fields[0].kind, new.fields[0].kind) for part in value]
        if new.name == "map":
            return [(key, self.value(part, old.fields[1].kind, new.fields[1].kind)) for key, part in value]
        return value

    def struct(self, value: dict[str, Any], old: tuple[Column, ...], new: tuple[Column, ...]) -> dict[str, Any]:
        known = {column.identifier: column for column in old if column.identifier not in self.unmapped}
        found = {}
        for column in new:
            source = known.get(column.identifier)
            if source is None:
                found[column.name] = self.constants.get(column.identifier)
            else:
                found[column.name] = self.value(value[source.name], source.kind, column.kind)
        return found


def all_columns(columns: tuple[Column, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Column]]:
    for column in columns:
        yield (*above, column.name), column
        yield from all_columns(column.kind.fields, (*above, column.name))


@settings(max_examples=250)
@given(st.data())
def test_projection_equals_a_plain_model_under_any_evolution(data: st.DataObject) -> None:
    numbers = Numbering()
    has_ids = data.draw(st.booleans())
    old = data.draw(columns(numbers))
    new = data.draw(evolved(old, numbers))
    rows = data.draw(st.lists(st.fixed_dictionaries({c.name: values(c.kind) for c in old}), max_size=6))
    constants = {
        column.identifier: data.draw(VALUES[column.kind.name])
        for _, column in all_columns(new)
        if column.kind.name in VALUES and data.draw(st.booleans())
    }
    unmapped = set() if has_ids else {c.identifier for _, c in all_columns(old) if data.draw(st.integers(0, 5)) == 0}
    mapping = {path: c.identifier for path, c in all_columns(old) if c.identifier not in unmapped}

    stored_schema = arrow_schema(old, ids=has_ids, storage=True)
    table = pa.Table.from_pylist([stored(row) for row in rows], schema=stored_schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, store_schema=False, row_group_size=4)
    target = arrow_schema(new)
    parquet = pq.ParquetFile(buffer)
    selection = select(parquet.schema_arrow, target, mapping)
    assert (selection.ids is None) == has_ids
    given = {identifier: stored(value) for identifier, value in constants.items()}
    found = []
    for batch in parquet.reader.iter_batches(
        3, row_groups=range(parquet.num_row_groups), column_indices=selection.columns, use_threads=False
    ):
        projected = project(batch, target, constants=given, ids=selection.ids)
        projected.validate(full=True)
        assert projected.schema.equals(target, check_metadata=True)
        found += projected.to_pylist()
        # A batch that is a slice of a longer one has offsets: they must be followed.
        sliced = project(batch.slice(1), target, constants=given, ids=selection.ids)
        sliced.validate(full=True)
        assert sliced.to_pylist() == projected.to_pylist()[1:]
    model = Model(constants, unmapped)
    assert found == [model.struct(row, old, new) for row in rows]


@settings(max_examples=100)
@given(st.data())
def test_only_needed_leaves_are_read(data: st.DataObject) -> None:
    numbers = Numbering()
    old = data.draw(columns(numbers))
    new = data.draw(evolved(old, numbers))
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
    assert project(batch, schema, constants={}).to_pylist() == [{"u": identifier}, {"u": None}]


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
        (pa.array([7], pa.uint32()), pa.int64(), [7]),
        (pa.array([7], pa.int8()), pa.int32(), [7]),
        (pa.array([7], pa.time32("ms")), pa.time64("us"), [dt.time(0, 0, 0, 7000)]),
        (pa.array([19_700], pa.date32()), pa.timestamp("us"), [dt.datetime.fromisoformat("2023-12-09")]),
        (pa.array([b"a", b"b"]).dictionary_encode(), pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
        (pa.array([b"0" * 16], pa.binary(16)), pa.uuid(), [UUID(bytes=b"0" * 16)]),
    ],
)
def test_other_encodings_of_the_same_values_are_read(
    source: pa.Array, wanted: pa.DataType, expected_values: list[Any]
) -> None:
    batch = pa.RecordBatch.from_arrays([source], schema=pa.schema([field("c", source.type, 1)]))
    target = pa.schema([field("c", wanted, 1)])
    assert project(batch, target, constants={}).column(0).to_pylist() == expected_values


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
        (pa.array([2**31], pa.uint32()), pa.int64()),  # Java takes it for a negative number
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([0.1], pa.float64()), pa.float32()),
        (pa.array([2_000_000], pa.date32()), pa.timestamp("ns")),
        (pa.array([1], pa.date32()), pa.timestamp("us", tz="UTC")),
        (pa.array([b"\xff"]).dictionary_encode(), pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_values_that_would_change_are_refused(source: pa.Array, wanted: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([source], schema=pa.schema([field("c", source.type, 1)]))
    target = pa.schema([field("c", wanted, 1)])

    def read() -> None:
        select(batch.schema, target)
        project(batch, target, constants={})

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
    projected = project(batch, target, constants={3: 19_700, 4: "eu"})
    day = dt.date(2023, 12, 9)
    assert projected.to_pylist() == [{"day": day, "id": i, "region": "eu"} for i in (1, 2)]


def test_a_leaf_is_selected_once_though_two_targets_need_it() -> None:
    def person(*children: pa.Field) -> pa.Field:
        return field("person", pa.struct(list(children)), 4)

    stored = pa.schema([person(field("age", pa.int32(), 5))])
    target = pa.schema([person(field("first", pa.string(), 6)), person(field("last", pa.string(), 7))])
    assert select(stored, target).columns == [0]


def test_files_without_ids_and_mapping_are_read_by_position_as_java_does() -> None:
    stored = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string())), ("c", pa.map_(pa.string(), pa.int32()))])
    target = pa.schema(
        [
            field("renamed", pa.list_(field("element", pa.string(), 7)), 2),
            field("added", pa.int64(), 4),
            field("a", pa.int64(), 1),
        ]
    )
    batch = pa.RecordBatch.from_arrays([pa.array([5]), pa.array([["x", None]])], schema=pa.schema(list(stored)[:2]))
    selection = select(stored, target)
    assert selection.columns == [0, 1]
    assert project(batch, target, constants={4: 9}, ids=selection.ids).to_pylist() == [
        {"renamed": ["x", None], "added": 9, "a": 5}
    ]


def test_structs_without_ids_and_mapping_are_refused_where_they_are_wanted() -> None:
    person = pa.struct([("age", pa.int32())])
    stored = pa.schema([("id", pa.int64()), ("people", pa.list_(person))])
    assert select(stored, pa.schema([field("id", pa.int64(), 1)])).columns == [0]
    target = pa.schema([field("people", pa.list_(field("element", pa.struct([field("age", pa.int32(), 4)]), 3)), 2)])
    with pytest.raises(KernelFailure, match=r"'people' holds structs without field ids.*schema.name-mapping.default"):
        select(stored, target)


def test_one_id_anywhere_makes_all_columns_count_by_id() -> None:
    inner = pa.struct([field("x", pa.int64(), 3), pa.field("y", pa.int64())])
    stored = pa.schema([pa.field("id", pa.int64()), pa.field("l", pa.list_(pa.field("element", inner)))])
    target = pa.schema([field("id", pa.int64(), 1)])
    selection = select(stored, target, {("id",): 1})
    assert selection.ids is None
    assert selection.source_of == {}


def test_two_columns_of_one_field_are_refused() -> None:
    stored = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with pytest.raises(KernelFailure, match="'a' and 'b' are both field 1"):
        select(stored, pa.schema([field("a", pa.int64(), 1)]), {("a",): 1, ("b",): 1})


@pytest.mark.parametrize("nested", [False, True])
def test_a_required_column_that_a_file_lacks_is_never_null(nested: bool) -> None:
    lacking = field("must", pa.int64(), 2, nullable=False)
    old, new = field("id", pa.int64(), 1), lacking
    if nested:
        old, new = field("s", pa.struct([old]), 5), field("s", pa.struct([lacking]), 5)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "s": {"id": 1}}], schema=pa.schema([old]))
    with pytest.raises(KernelFailure, match="must', which the table requires"):
        project(batch, pa.schema([new]), constants={})
    projected = project(batch, pa.schema([new]), constants={2: 4})
    assert projected.to_pylist() == [{"s": {"must": 4}} if nested else {"must": 4}]
