"""Tests the plain reader that the other tests compare with: it follows the spec's rules for deletes."""

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField

from tests.builders.events_table import BY_REGION, append, data_files, ids, make_table, paths
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions


def test_positions_are_deleted_in_the_named_files_only(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Positions({first: [0, 9], second: [5]}), Positions({second: [6]}, file_scoped=True))
    assert ids(warehouse, table) == [i for i in range(60) if i not in (0, 9, 15, 16)]


def test_positions_count_from_their_sequence_number_on_and_keys_only_before_it(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first, second, *_ = data_files(warehouse, table)
    commit_deletes(table, Positions({first.path: [0], second.path: [0]}, sequence_number=first.sequence_number))
    assert ids(warehouse, table) == [*range(1, 60)]
    commit_deletes(table, EqualTo({"amount": [3]}, first.path, sequence_number=second.sequence_number))
    assert ids(warehouse, table) == [i for i in range(1, 60) if i not in (3, 8)]


def test_equality_deletes_do_not_apply_to_later_rows(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    delete_equal(table, paths(warehouse, table)[0], {"id": [3, 100]})
    append(warehouse, table, [10], "eu")
    assert ids(warehouse, table) == [*(i for i in range(60) if i != 3), *range(100, 110)]


def test_keys_count_in_their_partition_and_those_of_an_unpartitioned_spec_everywhere(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [4]})
    assert ids(warehouse, table) == [i for i in range(60) if i >= 40 or i % 5 != 4]

    with table.update_spec() as update:
        update.remove_field("region")
    commit_deletes(table, EqualTo({"amount": [3]}, spec_id=table.spec().spec_id))
    assert ids(warehouse, table) == [i for i in range(60) if i % 5 != 3 and (i >= 40 or i % 5 != 4)]


def test_null_keys_equal_nulls_also_below_a_null_struct(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    commit_deletes(table, EqualTo({"place.city": [None], "note": ["note-0"]}, first))
    assert ids(warehouse, table) == [i for i in range(60) if i % 5 > 1 or i % 3]
    delete_equal(table, first, {"amount": [None]})
    assert ids(warehouse, table) == [i for i in range(60) if i % 5 and (i % 5 != 1 or i % 3)]


def test_nan_equals_nan_and_the_zeros_differ(warehouse: Warehouse) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", DoubleType()))
    table = warehouse.create_table("db.events", schema)
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "value": [float("nan"), 0.0, -0.0, None]})
    warehouse.append_files(table, 1, rows=lambda _: rows)
    delete_equal(table, paths(warehouse, table)[0], {"value": [float("nan"), 0.0]})
    assert ids(warehouse, table) == [3, 4]


def test_a_key_on_a_column_since_dropped_still_deletes(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    delete_equal(table, paths(warehouse, table)[0], {"note": ["note-1"]})
    with table.update_schema() as update:
        update.delete_column("note")
    assert ids(warehouse, table) == [i for i in range(60) if i % 3 != 1]


def test_the_last_delete_of_several_leaves_nothing(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    for path in paths(warehouse, table):
        delete_positions(table, path, range(10))
    assert warehouse.rows(table) == []
