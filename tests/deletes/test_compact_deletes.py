"""Compaction of tables with deletes keeps the rows, and removes the deletes that it applied."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

from tests.builders.control import leftovers
from tests.builders.delete_scenarios import Scenario, every_scenario, nested_keys, one_key
from tests.builders.events_table import (
    BY_REGION,
    ROWS,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    make_table,
    options,
    paths,
)
from tidyberg.execute.engine import AnyTask, Results
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import Strategy, VerifyMode
from tidyberg.model.plan import Skip
from tidyberg.model.task import Task
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions

every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@every_spec
@every_scenario
def test_a_full_compaction_keeps_the_rows_and_drops_the_deletes(
    warehouse: Warehouse, scenario: Scenario, spec: PartitionSpec
) -> None:
    table = make_table(warehouse, spec)
    scenario(warehouse, table)
    before = warehouse.rows(table)
    stored = sum(file.records for file in data_files(warehouse, table))
    assert len(before) < stored, "the scenario deletes something"

    result = compact(warehouse)

    assert result.outcome == "committed"
    assert not result.groups_left
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []
    assert sum(file.records for file in data_files(warehouse, table)) == len(before)
    assert len(data_files(warehouse, table)) == (1 if spec.is_unpartitioned() else 2)
    assert not leftovers(warehouse, table)
    assert warehouse.rows(table, snapshot_id=result.plan.snapshot_id) == before
    assert compact(warehouse).outcome == "tidy"


def test_keys_inside_optional_structs_are_not_applied_because_readers_differ(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    nested_keys(warehouse, table)
    before, deletes = warehouse.rows(table), delete_files(warehouse, table)
    touched = {file.path for file in data_files(warehouse, table) if file.partition == ("eu",)}
    result = compact(warehouse)
    verdicts = {partition.partition_path: partition.verdict for partition in result.plan.partitions}
    assert isinstance(verdicts["region=eu"], Skip)
    assert "readers differ" in verdicts["region=eu"].reason
    assert touched <= set(paths(warehouse, table))
    assert delete_files(warehouse, table) == deletes
    assert warehouse.rows(table) == before


def test_keys_inside_required_structs_are_applied(warehouse: Warehouse) -> None:
    inner = StructType(NestedField(3, "city", StringType(), required=False))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "place", inner, required=True))
    table = warehouse.create_table("db.events", schema)
    cities = [None, "x", "y"]
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    rows = pa.Table.from_pylist([{"id": n, "place": {"city": cities[n % 3]}} for n in range(9)], arrow)
    warehouse.append_files(table, 3, rows=lambda _: rows)
    delete_equal(table, paths(warehouse, table)[0], {"place.city": [None, "x"]})
    before = warehouse.rows(table)
    assert len(before) == 9
    assert compact(warehouse).outcome == "committed"
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []


@every_scenario
@pytest.mark.parametrize("strategy", [Strategy.SMALL_FILES, Strategy.DELETE_FILES, Strategy.AUTO])
def test_every_strategy_keeps_the_rows_and_ends(warehouse: Warehouse, scenario: Scenario, strategy: Strategy) -> None:
    table = make_table(warehouse, BY_REGION)
    scenario(warehouse, table)
    before = warehouse.rows(table)
    files = len(data_files(warehouse, table))

    result = compact(warehouse, options(strategy), verify=VerifyMode.COUNTS)

    assert result.outcome == "committed"
    assert warehouse.rows(table) == before
    assert len(data_files(warehouse, table)) < files
    assert delete_files(warehouse, table) == []
    assert not leftovers(warehouse, table)
    assert not compact(warehouse, options(strategy)).has_committed


@pytest.mark.parametrize("by_keys", [False, True], ids=["positions", "keys"])
@every_spec
def test_everything_deleted_leaves_no_file_at_all(warehouse: Warehouse, spec: PartitionSpec, by_keys: bool) -> None:
    table = make_table(warehouse, spec)
    files = paths(warehouse, table)
    if by_keys:
        commit_deletes(table, EqualTo({"region": ["eu"]}, files[0]), EqualTo({"region": ["us"]}, files[-1]))
    else:
        commit_deletes(table, *(Positions({path: range(ROWS)}, file_scoped=True) for path in files))
    assert warehouse.rows(table) == []

    result = compact(warehouse)

    assert result.outcome == "committed"
    assert result.stats.files_after == 0
    assert warehouse.live_files(table) == []
    assert warehouse.rows(table) == []
    assert not leftovers(warehouse, table)
    assert compact(warehouse).outcome == "tidy"
    append(warehouse, table, [0], "eu")
    assert len(warehouse.rows(table)) == ROWS


def test_deletes_count_across_specs_and_files_keep_theirs(warehouse: Warehouse) -> None:
    """Equality deletes of the unpartitioned spec apply to the whole table, including files of a later spec."""
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    append(warehouse, table, [6, 7], "eu")
    append(warehouse, table, [8, 9], "us")
    newest = paths(warehouse, table)[-1]
    commit_deletes(
        table,
        Positions({first: [0, 1]}),
        Positions({newest: [2]}),
        EqualTo({"amount": [4]}, first),  # everywhere
        EqualTo({"amount": [3]}, newest),  # us in the new spec
    )
    before = warehouse.rows(table)
    assert len(before) == 100 - 3 - 20 - 4

    compact(warehouse)

    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []
    after = data_files(warehouse, table)
    assert sorted((file.spec_id, file.partition) for file in after) == [(0, ()), (1, ("eu",)), (1, ("us",))]
    assert not leftovers(warehouse, table)


def test_outputs_carry_the_sequence_number_of_the_plans_snapshot(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    one_key(warehouse, table)
    head = table.refresh().current_snapshot()
    assert head is not None
    compact(warehouse)
    assert [file.sequence_number for file in data_files(warehouse, table)] == [head.sequence_number]


def test_the_delete_strategy_rewrites_a_single_file_and_leaves_files_without_deletes(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    first, second, *_ = paths(warehouse, table)
    delete_positions(table, second, range(6))
    before = warehouse.rows(table)

    result = compact(warehouse, options(Strategy.DELETE_FILES))

    assert result.outcome == "committed"
    assert warehouse.rows(table) == before
    after = paths(warehouse, table)
    assert first in after
    assert second not in after
    assert delete_files(warehouse, table) == []
    assert not compact(warehouse, options(Strategy.DELETE_FILES)).has_committed


@pytest.mark.parametrize(("size", "travel"), [(10_000_000, True), (1, False)])
def test_deletes_travel_with_their_task_up_to_a_size(warehouse: Warehouse, size: int, travel: bool) -> None:
    table = make_table(warehouse)
    delete_positions(table, paths(warehouse, table)[0], [1, 2])
    before = warehouse.rows(table)
    seen: list[AnyTask] = []

    class Looking(InlineEngine):
        def run(self, tasks: Sequence[AnyTask], *args: Any, **kwargs: Any) -> Results:
            seen.extend(tasks)
            return super().run(tasks, *args, **kwargs)

    compact(warehouse, replace(options(), inline_delete_size=size), engine=Looking(), verify=VerifyMode.COUNTS)
    (task,) = seen
    assert isinstance(task, Task)
    assert [delete.content is not None for delete in task.deletes] == [travel]
    assert warehouse.rows(table) == before
