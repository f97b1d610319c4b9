"""Several tasks rewrite one large file as one group, which is committed, removed or continued as a whole [I6, I7]."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from tests.builders.control import chunks, leftovers, make_control
from tests.builders.engines import OneAtATime
from tests.builders.interrupted_jobs import go_on, kill
from tests.builders.sales_table import REF
from tidyberg.control.control import Control
from tidyberg.errors import EngineError
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.planning.document import plan_from_json, plan_hash, plan_to_json
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes
from tidyberg.testing.warehouse import local_path

ROWS = 6_000


def one_large_file(warehouse: Warehouse, format_version: int = 2) -> Table:
    table = warehouse.create_table(
        "db.sales", properties={"write.parquet.row-group-limit": "500"}, format_version=format_version
    )
    return warehouse.append_files(table, 1, ROWS)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return one_large_file(warehouse)


def options_for(warehouse: Warehouse, table: Table) -> PlanOptions:
    """Eight outputs, as the plan judges by the size of the input."""
    (file,) = warehouse.live_files(table)
    size = Path(local_path(file.path)).stat().st_size
    return PlanOptions(strategy=Strategy.FULL, mode=RewriteMode.ENCODE, target_file_size=size // 8)


@pytest.mark.parametrize("verify", list(VerifyMode))
@pytest.mark.parametrize("format_version", [2, 3])
def test_a_large_file_is_rewritten_by_several_tasks_and_committed_as_one_group(
    warehouse: Warehouse, format_version: int, verify: VerifyMode
) -> None:
    table = one_large_file(warehouse, format_version)
    before = warehouse.rows(table, lineage=format_version == 3)
    options, engine = options_for(warehouse, table), OneAtATime()
    with make_control(warehouse, engine) as control:
        plan = control.plan(REF, options)
        result = control.compact(REF, options, verify=verify)
        assert (len(plan.groups), plan.groups[0].outputs) == (1, 8)
        assert engine.rewritten == [0, 0, 0, 0]
        assert (result.outcome, result.groups_committed, result.job.commits) == ("committed", 1, 1)
        assert result.job.progress.bytes_read == plan.groups[0].bytes
        assert warehouse.rows(table, lineage=format_version == 3) == before
        assert len(warehouse.live_files(table)) <= 8
        assert all("-g00000p000" in file.path for file in warehouse.live_files(table))
        assert not leftovers(warehouse, table)
        assert control.compact(REF, options).outcome == "tidy"


def test_apply_divides_a_group_as_the_plan_says(warehouse: Warehouse, table: Table) -> None:
    before, engine = warehouse.rows(table), OneAtATime()
    with make_control(warehouse, engine) as control:
        plan = control.plan(REF, options_for(warehouse, table))
        assert [group.tasks for group in plan.groups] == [4]
        halved = replace(plan, groups=tuple(replace(group, tasks=2) for group in plan.groups))
        document = plan_to_json(replace(halved, hash=plan_hash(halved)))
        assert control.apply(plan_from_json(document)).outcome == "committed"
    assert engine.rewritten == [0, 0]
    assert warehouse.rows(table) == before


def test_deletes_reach_every_part(warehouse: Warehouse, control: Control, table: Table) -> None:
    options = options_for(warehouse, table)
    (file,) = warehouse.live_files(table)
    commit_deletes(table, Positions({file.path: [*range(0, ROWS, 70), ROWS - 1]}, file_scoped=True))
    commit_deletes(table, EqualTo({"id": [row["id"] for row in table.scan().to_arrow().to_pylist()[5::90]]}))
    before = warehouse.rows(table)
    assert control.compact(REF, options, verify=VerifyMode.FULL).outcome == "committed"
    assert warehouse.rows(table) == before
    assert {file.content for file in warehouse.live_files(table)} == {DataFileContent.DATA}
    assert len({Path(file.path).name.split("-")[-3] for file in warehouse.live_files(table)}) == 4


def test_a_part_that_fails_leaves_no_files_of_the_others(warehouse: Warehouse, table: Table) -> None:
    before, files = warehouse.rows(table), warehouse.files_on_disk(table)

    def fail(part: int) -> None:
        if part == 2:
            assert leftovers(warehouse, table)
            raise EngineError("a part failed")

    with make_control(warehouse, OneAtATime(fail)) as control, pytest.raises(EngineError, match="a part failed"):
        control.compact(REF, options_for(warehouse, table))
    assert warehouse.rows(table) == before
    assert warehouse.files_on_disk(table) == files


def test_parts_of_a_dead_job_are_removed_and_done_again(warehouse: Warehouse, table: Table) -> None:
    before, options = warehouse.rows(table), options_for(warehouse, table)
    kill(warehouse, "trace", 3, options)
    names = {Path(path).name.split("-g")[1][:10] for path in leftovers(warehouse, table)}
    assert names == {"00000p0000", "00000p0001", "00000p0002"}
    assert go_on(warehouse, options) == [0, 0, 0, 0]
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_a_divided_group_that_a_dead_job_had_finished_is_reused(warehouse: Warehouse, table: Table) -> None:
    before, options = warehouse.rows(table), options_for(warehouse, table)
    kill(warehouse, "save_finished", 1, options)
    assert go_on(warehouse, options) == []
    assert warehouse.rows(table) == before
    assert len(chunks(table)) == 1
    assert not leftovers(warehouse, table)


def test_files_with_one_row_group_are_not_divided(warehouse: Warehouse) -> None:
    table = warehouse.append_files(warehouse.create_table("db.sales"), 1, ROWS)
    before, engine = warehouse.rows(table), OneAtATime()
    with make_control(warehouse, engine) as control:
        assert control.compact(REF, options_for(warehouse, table)).outcome == "committed"
    assert engine.rewritten == [0]
    assert warehouse.rows(table) == before


def test_the_plan_counts_on_the_cores_that_parts_use(warehouse: Warehouse, control: Control, table: Table) -> None:
    options = options_for(warehouse, table)
    alone = control.plan(REF, replace(options, max_parallelism=1)).estimate
    together = control.plan(REF, replace(options, max_parallelism=2)).estimate
    assert together.seconds < alone.seconds
