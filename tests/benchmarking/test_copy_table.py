"""A copied table has the rows, deletes and row ids of the original, and shares no path with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bench_plans import FULL, NO_LIMIT, planned, put_copy
from tidyberg.benchmarking.sample import choose_sample
from tidyberg.benchmarking.scratch import REF, Scratch
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_rows


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lake") as opened:
        yield opened


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_copy_has_the_same_rows(warehouse: Warehouse, tmp_path: Path, format_version: int) -> None:
    table = warehouse.create_table("db.events", format_version=format_version)
    warehouse.append_files(table, 5, 20, files_per_commit=2)
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, choose_sample(planned(warehouse, tmp_path), NO_LIMIT))
        lineage = format_version > 2
        assert warehouse.rows(copy, lineage=lineage) == warehouse.rows(table, lineage=lineage)
        assert copy.metadata.table_uuid != table.metadata.table_uuid


def test_position_and_equality_deletes_apply_to_the_copy(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.create_table("db.events")
    warehouse.append_files(table, 4, 20)
    paths = sorted(file.path for file in warehouse.live_files(table))
    commit_deletes(table, Positions({paths[2]: [1, 5], paths[0]: [0]}), Positions({paths[1]: [3]}, file_scoped=True))
    commit_deletes(table, EqualTo({"id": [2, 7]}))
    with Scratch(str(tmp_path), table) as scratch:
        choice = choose_sample(planned(warehouse, tmp_path), NO_LIMIT)
        assert len(choice.deletes) == 3
        copy = put_copy(scratch, table, choice)
        assert len(warehouse.rows(table)) < 80
        assert warehouse.rows(copy) == warehouse.rows(table)


def test_deletion_vectors_apply_to_the_copy(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.create_table("db.events", format_version=3)
    warehouse.append_files(table, 4, 20)
    paths = [file.path for file in warehouse.live_files(table)]
    delete_rows(table, {paths[0]: [1, 2], paths[3]: [19]})
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, choose_sample(planned(warehouse, tmp_path), NO_LIMIT))
        assert len(warehouse.rows(table)) == 77
        assert warehouse.rows(copy, lineage=True) == warehouse.rows(table, lineage=True)


@pytest.mark.parametrize("format_version", [2, 3])
def test_copy_can_be_compacted_and_reset(warehouse: Warehouse, tmp_path: Path, format_version: int) -> None:
    table = warehouse.create_table("db.events", format_version=format_version)
    warehouse.append_files(table, 6, 20)
    delete_rows(table, {warehouse.live_files(table)[0].path: [1, 2]})
    before = table.refresh().metadata_location, warehouse.files_on_disk(table)
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, choose_sample(planned(warehouse, tmp_path), NO_LIMIT))
        for _ in range(2):
            assert len(warehouse.live_files(copy.refresh())) == 7
            store = SqliteStore(scratch.directory / "jobs.db", is_alive)
            with Control(lambda _: scratch.open_catalog(), InlineEngine, store) as control:
                assert control.compact(REF, FULL).outcome == "committed"
            assert len(warehouse.live_files(copy.refresh())) == 1
            assert warehouse.rows(copy) == warehouse.rows(table)
            scratch.reset()
        assert all(path.startswith(str(scratch.directory)) for path in warehouse.referenced_files(copy))
    assert (table.refresh().metadata_location, warehouse.files_on_disk(table)) == before
    assert not scratch.directory.exists()


def test_copy_ignores_write_paths_of_the_original(warehouse: Warehouse, tmp_path: Path) -> None:
    elsewhere = (tmp_path / "elsewhere").as_uri()
    table = warehouse.create_table("db.events", properties={"write.data.path": elsewhere})
    warehouse.append_files(table, 4, 20)
    before = sorted((tmp_path / "elsewhere").rglob("*.parquet"))
    assert len(before) == 4
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, choose_sample(planned(warehouse, tmp_path), NO_LIMIT))
        with Control(
            lambda _: scratch.open_catalog(), InlineEngine, SqliteStore(scratch.directory / "jobs.db", is_alive)
        ) as control:
            assert control.compact(REF, FULL).outcome == "committed"
        (output,) = warehouse.live_files(copy.refresh())
        assert local_path(output.path).startswith(str(scratch.directory))
        assert sorted((tmp_path / "elsewhere").rglob("*.parquet")) == before


def test_sample_size_is_limited(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.create_table("db.events")
    warehouse.append_files(table, 6, 20)
    plan = planned(warehouse, tmp_path)
    each = max(file.size for file in plan.groups[0].files)
    chosen = choose_sample(plan, each * 4)
    assert (len(chosen.files), chosen.files_left_out) == (4, 2)
    assert len(choose_sample(plan, 1).files) == 2  # the minimum for a rewrite
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, chosen)
        assert len(warehouse.live_files(copy)) == 4
        assert len(warehouse.rows(copy)) == 80


def test_deletes_of_other_files_are_not_copied(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.create_table("db.events")
    warehouse.append_files(table, 3, 20)
    plan = planned(warehouse, tmp_path)
    first, *_, last = (file.path for file in plan.groups[0].files)
    commit_deletes(table, Positions({first: [0], last: [4, 5]}), Positions({last: [7]}))
    chosen = choose_sample(planned(warehouse, tmp_path), 1)
    assert chosen.files[0].path == first
    with Scratch(str(tmp_path), table) as scratch:
        copy = put_copy(scratch, table, chosen)
        kept = [file for file in warehouse.live_files(copy) if file.content.value == 1]
        assert [file.records for file in kept] == [1]
        assert len(warehouse.rows(copy)) == 39
