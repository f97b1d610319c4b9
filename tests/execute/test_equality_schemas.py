"""Tasks carry their deletes and the columns that equality deletes compare, from the last schema that had them."""

import dataclasses
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from tests.builders.planned_groups import group, inventory, pinned
from tidyberg.errors import Unsupported
from tidyberg.execute.kernel.columns.field_ids import field_id
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.tasks.build import build_tasks
from tidyberg.execute.tasks.equality_schemas import equality_schema_bytes, schemas_newest_first
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import DeleteFile, FileGroup
from tidyberg.model.task import Task


def column(identifier: int, name: str, kind: IcebergType, required: bool = False) -> NestedField:
    return NestedField(identifier, name, kind, required=required)


PERSON = StructType(
    column(5, "first", StringType(), required=True), column(6, "address", StructType(column(7, "zip", LongType())))
)
OLDEST = Schema(column(1, "id", IntegerType()), column(3, "gone", IntegerType()), schema_id=0)
OLDER = Schema(column(1, "id", LongType()), column(3, "renamed", LongType()), schema_id=1)
CURRENT = Schema(
    column(1, "id", LongType(), required=True),
    column(4, "person", PERSON),
    column(8, "tags", ListType(9, StringType(), element_required=False)),
    schema_id=2,
)
TABLE = dataclasses.replace(
    pinned(), schema=CURRENT, schemas={schema.schema_id: schema for schema in (OLDEST, OLDER, CURRENT)}
)


def schema_of(ids: tuple[int, ...]) -> pa.Schema:
    packed = equality_schema_bytes(ids, schemas_newest_first(TABLE), "d.parquet")
    return pa.ipc.read_schema(pa.BufferReader(packed))


def test_columns_come_in_the_order_of_the_ids_and_may_be_null() -> None:
    schema = schema_of((3, 1))
    assert [(c.name, c.type, field_id(c), c.nullable) for c in schema] == [
        ("renamed", pa.int64(), 3, True),
        ("id", pa.int64(), 1, True),
    ]


def test_nested_columns_come_with_the_structs_around_them_and_nothing_else() -> None:
    schema = schema_of((7, 5))
    assert [(leaf.path, leaf.field_id) for leaf in leaves(schema)] == [("person.address.zip", 7), ("person.first", 5)]
    assert [field_id(c) for c in schema] == [4, 4]
    assert field_id(schema.field(0).type.field(0)) == 6


def test_the_current_schema_wins_even_where_it_is_an_older_one_set_again() -> None:
    table = dataclasses.replace(TABLE, schema=OLDEST)
    packed = equality_schema_bytes((3, 5), schemas_newest_first(table), "d.parquet")
    schema = pa.ipc.read_schema(pa.BufferReader(packed))
    assert (schema.field(0).type, schema.field(1).name) == (pa.int32(), "person")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((99,), r"d\.parquet compares field 99, which no schema"),
        ((9,), "field 9, which no schema of the table has outside of lists"),
        ((4,), "compares person, which is a struct"),
        ((), "does not say which columns"),
    ],
)
def test_keys_that_cannot_be_compared_are_refused(ids: tuple[int, ...], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        schema_of(ids)


DELETES = (
    DeleteFile("a", "equality", 10, 1, 5, "m", equality_ids=(1,)),
    DeleteFile("b", "equality", 10, 1, 6, "m", equality_ids=(3, 1)),
    DeleteFile("c", "position", 11, 1, 7, "m", referenced_data_file="s3://bucket/0.parquet"),
    DeleteFile("d", "dv", 12, 1, 8, "m", referenced_data_file="x", content_offset=4, content_size=40),
)


def tasks(groups: Sequence[FileGroup], deletes: Sequence[DeleteFile] = DELETES) -> list[Task]:
    return build_tasks(
        groups,
        inventory(TABLE, groups),
        load_location_provider("s3://bucket/ns/t", {}),
        job_id="j",
        target_file_size=1_000,
        options=PlanOptions(),
        checksum=False,
        deletes=deletes,
    )


def test_tasks_carry_the_deletes_of_their_group_and_only_their_columns() -> None:
    groups = [dataclasses.replace(group(0, 0, ""), deletes=(1, 2)), dataclasses.replace(group(1, 0, ""), deletes=(3,))]
    first, second = tasks(groups)
    assert [(delete.path, delete.kind, delete.sequence_number, delete.size) for delete in first.deletes] == [
        ("b", "equality", 6, 10),
        ("c", "position", 7, 11),
    ]
    assert first.deletes[1].referenced_data_file == "s3://bucket/0.parquet"
    assert first.equality_schemas == {(3, 1): bytes(schema_of((3, 1)).serialize())}
    (vector,) = second.deletes
    assert (vector.referenced_data_file, vector.content_offset, vector.content_size) == ("x", 4, 40)
    assert second.equality_schemas == {}
    assert first.inputs[0].sequence_number == groups[0].files[0].sequence_number == 1


def test_without_deletes_tasks_carry_none() -> None:
    (task,) = tasks([group(0, 0, "")], ())
    assert (task.deletes, task.equality_schemas) == ((), {})
