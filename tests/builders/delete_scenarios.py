"""Histories of the events table with deletes of every kind."""

from collections.abc import Callable

import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from tests.builders.events_table import ROWS, append, data_files, paths
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions

Scenario = Callable[[Warehouse, Table], None]


def file_scoped(warehouse: Warehouse, table: Table) -> None:
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Positions({first: [0, 3]}, file_scoped=True), Positions({second: [9]}, file_scoped=True))
    delete_positions(table, first, [3, 4])


def partition_scoped(warehouse: Warehouse, table: Table) -> None:
    first, second, third, *_ = paths(warehouse, table)
    commit_deletes(table, Positions({first: [1, 2], third: range(ROWS)}), Positions({second: [0]}))


def one_key(warehouse: Warehouse, table: Table) -> None:
    delete_equal(table, paths(warehouse, table)[0], {"id": [3, 14, 15, 999]})


def several_key_sets(warehouse: Warehouse, table: Table) -> None:
    first = paths(warehouse, table)[0]
    commit_deletes(table, EqualTo({"id": [0, 39]}, first), EqualTo({"note": ["note-1"], "amount": [2]}, first))
    append(warehouse, table, [6], "eu")  # too late for these deletes
    delete_equal(table, first, {"amount": [2, 3], "note": ["note-2", "note-0"]})


def one_key_set_several_times(warehouse: Warehouse, table: Table) -> None:
    """Each key has the sequence number of its own delete, even if a later delete has the same columns."""
    first, _, third, *_ = data_files(warehouse, table)
    delete_equal(table, first.path, {"amount": [2]})
    append(warehouse, table, [6], "eu")  # its rows with amount 2 stay
    commit_deletes(table, EqualTo({"amount": [3]}, first.path, sequence_number=third.sequence_number))
    delete_equal(table, first.path, {"amount": [4]})


def null_keys(warehouse: Warehouse, table: Table) -> None:
    delete_equal(table, paths(warehouse, table)[0], {"amount": [None, 1], "note": ["note-0", "note-1"]})


def nested_keys(warehouse: Warehouse, table: Table) -> None:
    delete_equal(table, paths(warehouse, table)[0], {"place.city": [None, "city-3"]})


def dropped_column(warehouse: Warehouse, table: Table) -> None:
    delete_equal(table, paths(warehouse, table)[0], {"note": ["note-1"]})
    with table.update_schema() as update:
        update.delete_column("note")
    append(warehouse, table, [6], "eu")


def renamed_column(warehouse: Warehouse, table: Table) -> None:
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"note": ["note-1"]})
    with table.update_schema() as update:
        update.rename_column("note", "remark")
    delete_equal(table, first, {"remark": ["note-2"]})


def promoted_column(warehouse: Warehouse, table: Table) -> None:
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"amount": [1]})
    with table.update_schema() as update:
        update.update_column("amount", LongType())
    delete_equal(table, first, {"amount": [2, 2**40]})


def added_column(warehouse: Warehouse, table: Table) -> None:
    """Old files have null in the new column, and so the key does delete their rows."""
    with table.update_schema() as update:
        update.add_column("late", StringType())
    delete_equal(table, paths(warehouse, table)[0], {"late": [None], "note": ["note-0"]})
    append(warehouse, table, [6], "eu")


def older_sequence_numbers(warehouse: Warehouse, table: Table) -> None:
    """Rewritten delete files have such numbers: position deletes apply to files of the same number, keys do not."""
    first, second, third, *_ = data_files(warehouse, table)
    commit_deletes(
        table,
        Positions({first.path: [0], second.path: [0]}, sequence_number=first.sequence_number),
        EqualTo({"amount": [3]}, first.path, sequence_number=third.sequence_number),
    )


def mixed(warehouse: Warehouse, table: Table) -> None:
    first, second, third, *_ = paths(warehouse, table)
    delete_positions(table, first, [0, 1])
    delete_equal(table, second, {"id": [1, 2, 11]})
    append(warehouse, table, [0, 6], "eu")
    newest = paths(warehouse, table)[-1]
    commit_deletes(table, Positions({third: [9], newest: [9]}), EqualTo({"amount": [4]}, first))


SCENARIOS: list[Scenario] = [
    file_scoped,
    partition_scoped,
    one_key,
    several_key_sets,
    one_key_set_several_times,
    null_keys,
    dropped_column,
    renamed_column,
    promoted_column,
    added_column,
    older_sequence_numbers,
    mixed,
]
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
