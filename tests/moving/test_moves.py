"""Files of older partition specs move to the current spec if the option is set, and stay otherwise."""

from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
)

from tests.builders.control import leftovers
from tests.builders.engines import Meddling
from tests.builders.events_table import (
    BY_REGION,
    SPECS,
    append,
    data_files,
    delete_files,
    ids,
    make_table,
    options,
    paths,
)
from tests.builders.moved_tables import MOVE, change_spec, move
from tidyberg.errors import Conflict, TidybergError, TooManyOutputs
from tidyberg.model.options import Strategy
from tidyberg.model.plan import Rewrite
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, commit_deletes, delete_equal, delete_positions

REGION: tuple[str, Transform[Any, Any]] = ("region", IdentityTransform())
BUCKET: tuple[str, Transform[Any, Any]] = ("id", BucketTransform(3))


def specs_of(warehouse: Warehouse, table: Table) -> set[int]:
    return {file.spec_id for file in data_files(warehouse, table)}


def test_without_the_option_files_stay_in_their_spec(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    rows = warehouse.rows(table)
    assert move(warehouse, how=options()).outcome == "committed"
    assert specs_of(warehouse, table) == {0}
    assert warehouse.rows(table) == rows


@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.SMALL_FILES, Strategy.DELETE_FILES, Strategy.AUTO])
def test_every_strategy_moves_and_the_second_run_does_nothing(warehouse: Warehouse, strategy: Strategy) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION, BUCKET)
    rows = warehouse.rows(table)

    result = move(warehouse, how=replace(MOVE, strategy=strategy))

    verdict = result.plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.reason == "6 of 6 files moved to the current partition spec"
    assert warehouse.rows(table) == rows
    files = data_files(warehouse, table)
    assert {file.spec_id for file in files} == {1}
    assert len({file.partition for file in files}) == len(files) == 6
    assert {file.sequence_number for file in files} == {6}
    assert not leftovers(warehouse, table)
    assert not move(warehouse, how=replace(MOVE, strategy=strategy)).has_committed


def test_files_of_the_current_spec_are_not_touched_by_a_move(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    append(warehouse, table, [7], "eu")
    newest = paths(warehouse, table)[-1]
    rows = warehouse.rows(table)
    move(warehouse)
    assert newest in paths(warehouse, table)
    assert warehouse.rows(table) == rows


def test_a_partition_field_may_be_nested_removed_or_of_a_null_struct(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, BY_REGION), ("place.city", TruncateTransform(6)), remove=["region"])
    rows = warehouse.rows(table)
    move(warehouse)
    assert warehouse.rows(table) == rows
    assert {file.partition[-1] for file in data_files(warehouse, table)} == {None, "city-2"[:6], "city-3", "city-4"}


def test_back_to_an_unpartitioned_spec(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, BY_REGION), remove=["region"])
    rows = warehouse.rows(table)
    result = move(warehouse)
    assert result.groups_committed == 2
    assert warehouse.rows(table) == rows
    assert {file.partition for file in data_files(warehouse, table)} == {()}


def test_a_version_1_table_is_moved(warehouse: Warehouse) -> None:
    """Its removed fields stay in the spec as void ones."""
    table = change_spec(make_table(warehouse, BY_REGION, format_version=1), BUCKET, remove=["region"])
    assert len(table.spec().fields) == 2
    rows = warehouse.rows(table)
    move(warehouse)
    assert warehouse.rows(table) == rows
    assert {file.partition for file in data_files(warehouse, table)} == {(None, 0), (None, 1), (None, 2)}
    assert not move(warehouse).has_committed


def test_hours_become_days_with_one_output_for_each_group(warehouse: Warehouse) -> None:
    spec = PartitionSpec(PartitionField(9, 1000, HourTransform(), "hour"))
    table = warehouse.append_files(warehouse.create_table("db.events", partition_spec=spec), 2, 30)
    change_spec(table, ("created", DayTransform()), remove=["hour"])
    rows = warehouse.rows(table)
    result = move(warehouse)
    assert {group.outputs for group in result.plan.groups} == {1}
    assert warehouse.rows(table) == rows
    for file in data_files(warehouse, table):
        assert file.spec_id == 1


def test_a_job_that_fails_leaves_none_of_many_more_outputs_than_were_planned(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), ("id", IdentityTransform()))
    before = warehouse.files_on_disk(table)

    def fail() -> None:
        assert len(warehouse.files_on_disk(table) - before) >= 60
        raise TidybergError("no luck")

    with pytest.raises(TidybergError, match="no luck"):
        move(warehouse, engine=Meddling(fail))
    assert warehouse.files_on_disk(table) == before


def test_deletes_of_the_old_spec_are_applied_and_removed(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    delete_equal(table, files[0], {"id": [3, 41]})  # 41 is in region us: not reached
    delete_positions(table, files[4], [1])
    change_spec(table, BUCKET, remove=["region"])
    move(warehouse)
    assert ids(warehouse, table) == [i for i in range(60) if i not in (3, 41)]
    assert delete_files(warehouse, table) == []


def test_a_new_equality_delete_of_an_old_partition_blocks_its_group_and_no_other(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    first = paths(warehouse, table)[0]
    change_spec(table, BUCKET, remove=["region"])

    result = move(warehouse, engine=Meddling(lambda: delete_equal(table, first, {"id": [3]})))

    assert result.groups_committed == 1
    assert "old partition spec" in result.groups_left[0]
    assert ids(warehouse, table) == [i for i in range(60) if i != 3]
    assert len(delete_files(warehouse, table)) == 1
    assert not leftovers(warehouse, table)
    move(warehouse)
    assert ids(warehouse, table) == [i for i in range(60) if i != 3]
    assert delete_files(warehouse, table) == []


def test_a_new_equality_delete_of_an_outputs_partition_blocks_the_group(warehouse: Warehouse) -> None:
    """It does not apply to the inputs, which have another spec, so it must not apply to the outputs."""
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    append(warehouse, table, [0], "eu")  # in the current spec, with the ids of an old file
    like = paths(warehouse, table)[-1]

    with pytest.raises(Conflict, match="would be subject to"):
        move(warehouse, engine=Meddling(lambda: delete_equal(table, like, {"id": [3, 15]})))

    assert ids(warehouse, table) == sorted([*range(60), *(i for i in range(10) if i != 3)])
    assert not leftovers(warehouse, table)
    move(warehouse)
    assert ids(warehouse, table) == sorted([*range(60), *(i for i in range(10) if i != 3)])


def test_a_new_equality_delete_of_another_partition_of_the_current_spec_blocks_nothing(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    append(warehouse, table, [0], "asia")
    like = paths(warehouse, table)[-1]
    move(warehouse, engine=Meddling(lambda: delete_equal(table, like, {"id": [3, 15]})))
    assert specs_of(warehouse, table) == {1}
    assert ids(warehouse, table) == sorted([*range(60), *(i for i in range(10) if i != 3)])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_new_global_equality_delete_reaches_the_outputs_as_it_reached_the_inputs(
    warehouse: Warehouse, spec: PartitionSpec
) -> None:
    table = make_table(warehouse, spec)
    if spec == BY_REGION:
        change_spec(table, remove=["region"])
    unpartitioned = table.spec().spec_id if spec == BY_REGION else 0
    change_spec(table, BUCKET)
    everywhere = EqualTo({"id": [3, 55]}, spec_id=unpartitioned)
    result = move(warehouse, engine=Meddling(lambda: commit_deletes(table, everywhere)))
    assert result.groups_left == ()
    assert specs_of(warehouse, table) == {table.spec().spec_id}
    assert ids(warehouse, table) == [i for i in range(60) if i not in (3, 55)]


def test_an_equality_delete_as_old_as_the_plan_never_reaches_the_outputs(warehouse: Warehouse) -> None:
    """A delete in the current spec that is older than the move never applied to these rows, and must not now."""
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    append(warehouse, table, [0], "eu")
    delete_equal(table, paths(warehouse, table)[-1], {"id": [3, 15]})
    expected = sorted([*range(60), *(i for i in range(10) if i != 3)])
    assert ids(warehouse, table) == expected
    move(warehouse, how=replace(MOVE, strategy=Strategy.SMALL_FILES))
    assert specs_of(warehouse, table) == {1}
    assert ids(warehouse, table) == expected


def test_a_new_position_delete_blocks_the_group(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    first = paths(warehouse, table)[0]
    with pytest.raises(Conflict, match="deleted meanwhile"):
        move(warehouse, engine=Meddling(lambda: delete_positions(table, first, [0])))
    assert ids(warehouse, table) == list(range(1, 60))


def test_another_spec_change_during_the_job_does_no_harm(warehouse: Warehouse) -> None:
    table = change_spec(make_table(warehouse, UNPARTITIONED_PARTITION_SPEC), REGION)
    move(warehouse, engine=Meddling(lambda: change_spec(table, BUCKET)))
    assert specs_of(warehouse, table) == {1}
    assert ids(warehouse, table) == list(range(60))
    move(warehouse)
    assert specs_of(warehouse, table) == {2}
    assert ids(warehouse, table) == list(range(60))


@pytest.mark.parametrize("most", [2, 5], ids=["by one task", "by all together"])
def test_rows_that_fall_into_more_partitions_than_a_job_may_write_files_end_it(warehouse: Warehouse, most: int) -> None:
    """Their number is known only when rows are sorted. A column of ids would flood the storage."""
    table = change_spec(make_table(warehouse, BY_REGION), BUCKET)
    before = warehouse.rows(table)
    with pytest.raises(TooManyOutputs, match="files"):
        move(warehouse, how=replace(MOVE, max_output_files=most))
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)
