"""Commits to tables of format version 3: row ids, deletion vectors, and upgrades while a job runs [I2 I5 I8]."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table

from tests.builders.control import leftovers, make_control
from tests.builders.engines import Meddling
from tests.builders.events_table import (
    BY_REGION,
    REF,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    make_table,
    options,
    paths,
    rows_of,
)
from tests.builders.finished_groups import inventory_of
from tidyberg.errors import Conflict
from tidyberg.model.options import VerifyMode
from tidyberg.testing import Warehouse
from tidyberg.testing.commits import manifests_of
from tidyberg.testing.deletes import EqualTo, Vectors, commit_deletes, delete_rows

EU = "region = 'eu'"


def row_ids(warehouse: Warehouse, table: Table) -> list[int | None]:
    found = [row.removesuffix(")").split(", ")[-2] for row in warehouse.rows(table, lineage=True)]
    return [None if row_id == "None" else int(row_id) for row_id in found]


def append_to_both_regions(warehouse: Warehouse, table: Table) -> None:
    """Two commits, whose manifests list files of both partitions."""
    both = [pa.concat_tables([rows_of(number, "eu"), rows_of(number + 1, "us")]) for number in (6, 8)]
    warehouse.append_files(table, 2, rows=both.__getitem__, files_per_commit=1)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_row_keeps_its_id_and_the_time_of_its_last_update(warehouse: Warehouse, spec: Any) -> None:
    table = make_table(warehouse, spec, format_version=3)
    before = warehouse.rows(table, lineage=True)
    assert sorted(filter(None, row_ids(warehouse, table))) == list(range(1, 60))
    for _ in range(2):  # also of rows that say themselves what they are
        compact(warehouse)
        assert warehouse.rows(table, lineage=True) == before
        append(warehouse, table, [9], "eu")
        delete_rows(table, {paths(warehouse, table)[-1]: range(10)})
    assert not leftovers(warehouse, table)


def test_files_that_stay_in_a_touched_manifest_keep_their_row_ids(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3)
    append_to_both_regions(warehouse, table)
    before = warehouse.rows(table, lineage=True)
    for where in (EU, "region = 'us'"):
        compact(warehouse, options(where=where))
        assert warehouse.rows(table, lineage=True) == before


def test_a_snapshot_says_from_where_and_how_many_rows_got_ids(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3)
    next_row_id = table.metadata.next_row_id  # type: ignore[union-attr]
    assert next_row_id == 60
    known = {line.path: line.first_row_id for line in manifests_of(table)}
    compact(warehouse, options(where=EU))
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    lines = manifests_of(table)
    for line in lines:
        if line.path in known:
            assert line.first_row_id == known[line.path]
    fresh = [line for line in lines if line.path not in known]
    rows = sum(line.fields[512] + line.fields[513] for line in fresh)
    assert rows == 40
    assert snapshot.first_row_id == 60
    assert snapshot.added_rows == 40
    assert table.metadata.next_row_id == 100  # type: ignore[union-attr]
    assert sorted(line.first_row_id for line in fresh if line.first_row_id is not None)[0] == 60


def test_rows_that_move_to_the_current_spec_keep_their_ids(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_rows(table, {paths(warehouse, table)[0]: [1]})
    with table.update_spec() as update:
        update.add_identity("region")
    before = warehouse.rows(table, lineage=True)
    compact(warehouse, replace(options(), rewrite_to_current_spec=True))
    assert warehouse.rows(table, lineage=True) == before
    assert {file.partition for file in data_files(warehouse, table)} == {("eu",), ("us",)}


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_commit_after_an_upgrade_gives_every_row_an_id(warehouse: Warehouse, version: int) -> None:
    table = make_table(warehouse, BY_REGION, format_version=version)
    append_to_both_regions(warehouse, table)
    rows = warehouse.rows(table)
    warehouse.upgrade(table, 3)
    assert set(row_ids(warehouse, table)) == {None}
    compact(warehouse, options(where=EU))
    assert warehouse.rows(table) == rows
    assert len(set(row_ids(warehouse, table)) - {None}) == 100
    lineage = warehouse.rows(table, lineage=True)
    append(warehouse, table, [8], "us")
    compact(warehouse)
    assert set(lineage) <= set(warehouse.rows(table, lineage=True))
    assert len(set(row_ids(warehouse, table))) == 110


def test_an_upgraded_table_whose_rows_have_ids_keeps_them(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, format_version=1)
    warehouse.upgrade(table, 2)
    delete_rows(table, {paths(warehouse, table)[0]: [3], paths(warehouse, table)[-1]: [0]})
    warehouse.upgrade(table, 3)
    append(warehouse, table, [6], "eu")
    delete_rows(table, {paths(warehouse, table)[0]: [4]})
    before = warehouse.rows(table, lineage=True)
    assert len(before) == 67
    compact(warehouse)
    assert warehouse.rows(table, lineage=True) == before
    assert delete_files(warehouse, table) == []


def test_the_vectors_of_replaced_files_go_and_their_neighbours_in_the_puffin_file_stay(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3)
    files = paths(warehouse, table)
    delete_rows(table, {files[0]: [1], files[4]: [2], files[5]: [3]})
    before = warehouse.rows(table, lineage=True)
    assert len(before) == 57
    compact(warehouse, options(where=EU))
    assert warehouse.rows(table, lineage=True) == before
    left = inventory_of(table).delete_files
    assert sorted(left["referenced_data_file"].to_pylist()) == sorted(files[4:])
    assert len(set(left["path"].to_pylist())) == 1
    compact(warehouse)
    assert warehouse.rows(table, lineage=True) == before
    assert delete_files(warehouse, table) == []


@pytest.mark.parametrize("has_one", [False, True], ids=["first", "in-place-of-another"])
def test_a_vector_that_comes_meanwhile_leaves_its_group_out_and_no_other(warehouse: Warehouse, has_one: bool) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3)
    files = paths(warehouse, table)
    if has_one:
        delete_rows(table, {files[0]: [1], files[-1]: [0]})

    result = compact(warehouse, engine=Meddling(lambda: delete_rows(table, {files[0]: [5]})), replans=0)

    assert result.outcome == "committed"
    assert set(files[:4]) <= set(paths(warehouse, table))
    assert not set(files[4:]) & set(paths(warehouse, table))
    expected = {0, *range(60)} - ({1, 5, 50} if has_one else {5})
    assert {int(row.removeprefix("(").split(",")[0]) for row in warehouse.rows(table)} == expected


def test_a_vector_that_was_only_rewritten_meanwhile_is_removed_with_its_file(warehouse: Warehouse) -> None:
    """The same positions under the same sequence number, elsewhere: nothing changed, and nothing may be left over."""
    table = make_table(warehouse, format_version=3)
    first = paths(warehouse, table)[0]
    delete_rows(table, {first: [1]})
    number = table.metadata.next_sequence_number() - 1
    before = warehouse.rows(table, lineage=True)

    compact(warehouse, engine=Meddling(lambda: commit_deletes(table, Vectors({first: []}, number))))

    assert warehouse.rows(table, lineage=True) == before
    assert delete_files(warehouse, table) == []


def test_an_equality_delete_that_comes_meanwhile_still_applies(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    first = paths(warehouse, table)[0]
    before = warehouse.rows(table, lineage=True)
    compact(warehouse, engine=Meddling(lambda: commit_deletes(table, EqualTo({"id": [3, 14]}, first))))
    assert warehouse.rows(table, lineage=True) == [row for row in before if not row.startswith(("(3,", "(14,"))]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (1, 3)])
def test_an_upgrade_while_a_job_runs_does_not_stop_it(warehouse: Warehouse, before: int, after: int) -> None:
    table = make_table(warehouse, BY_REGION, format_version=before)
    rows = warehouse.rows(table)
    numbers = {file.sequence_number for file in data_files(warehouse, table)}

    compact(warehouse, options(where=EU), engine=Meddling(lambda: warehouse.upgrade(table, after)))

    assert table.refresh().metadata.format_version == after
    assert warehouse.rows(table) == rows
    assert {file.sequence_number for file in data_files(warehouse, table)} <= numbers
    if after == 3:
        assert len(set(row_ids(warehouse, table)) - {None}) == 60


@pytest.mark.parametrize("before", [1, 2])
def test_rows_that_got_ids_while_a_job_ran_keep_them(warehouse: Warehouse, before: int) -> None:
    table = make_table(warehouse, BY_REGION, format_version=before)
    lineage: list[str] = []

    def upgrade_and_append() -> None:
        warehouse.upgrade(table, 3)
        append(warehouse, table, [8], "eu")
        lineage.extend(warehouse.rows(table, lineage=True))

    with pytest.raises(Conflict, match="got ids meanwhile"):
        compact(warehouse, engine=Meddling(upgrade_and_append), replans=0)
    assert warehouse.rows(table, lineage=True) == lineage
    compact(warehouse)
    assert warehouse.rows(table, lineage=True) == lineage


def test_groups_planned_again_after_an_upgrade_keep_the_ids_their_rows_got(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    lineage: list[str] = []

    def upgrade_and_append() -> None:
        warehouse.upgrade(table, 3)
        append(warehouse, table, [8], "eu")
        lineage.extend(warehouse.rows(table, lineage=True))

    assert compact(warehouse, engine=Meddling(upgrade_and_append)).outcome == "committed"
    assert warehouse.rows(table, lineage=True) == lineage
    assert len(set(row_ids(warehouse, table)) - {None}) == 70


def overtaken_by(warehouse: Warehouse, meddle: Callable[[], object]) -> SqlCatalog:
    """A catalog where something else lands between the making of a commit and its sending, once."""
    waiting = [meddle]

    class Overtaken(SqlCatalog):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            if waiting:
                waiting.pop()()
            return super().commit_table(table, requirements, updates)

    return Overtaken(warehouse.name, **{key: value for key, value in warehouse.properties.items() if key != "type"})


def compact_through(warehouse: Warehouse, catalog: SqlCatalog) -> None:
    with make_control(warehouse, open_catalog=lambda _: catalog, replans=0) as control:
        asked = replace(options(), ignore_wap_branches=True)
        assert control.compact(REF, asked, verify=VerifyMode.FULL).outcome == "committed"


@pytest.mark.parametrize("branch", ["main", "side"])
def test_row_ids_are_assigned_again_when_another_commit_takes_them(warehouse: Warehouse, branch: str) -> None:
    table = make_table(warehouse, format_version=3)
    head = table.current_snapshot()
    assert head is not None
    before = warehouse.rows(table, lineage=True)
    if branch == "side":
        table.manage_snapshots().create_branch(head.snapshot_id, branch).commit()

    def meddle() -> None:
        other = warehouse.catalog.load_table("db.events")
        warehouse.append_files(other, 1, 10, seed=3, branch=branch)

    catalog = overtaken_by(warehouse, meddle)
    compact_through(warehouse, catalog)
    catalog.engine.dispose()
    assert set(before) <= set(warehouse.rows(table, lineage=True))
    assert len(set(row_ids(warehouse, table))) == (70 if branch == "main" else 60)
    assert table.metadata.next_row_id == 60 + 10 + 60  # type: ignore[union-attr]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3)])
def test_a_commit_is_built_again_after_an_upgrade_before_it_was_sent(
    warehouse: Warehouse, before: int, after: int
) -> None:
    table = make_table(warehouse, format_version=before)
    rows = warehouse.rows(table)
    catalog = overtaken_by(warehouse, lambda: warehouse.upgrade(warehouse.catalog.load_table("db.events"), after))
    compact_through(warehouse, catalog)
    catalog.engine.dispose()
    assert warehouse.rows(table) == rows
    assert len(data_files(warehouse, table)) == 1
    assert table.metadata.format_version == after
    assert table.metadata.next_sequence_number() > 1


def test_ids_given_between_making_and_sending_a_commit_are_not_lost(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    warehouse.upgrade(table, 3)
    catalog = overtaken_by(warehouse, lambda: append(warehouse, warehouse.catalog.load_table("db.events"), [8], "eu"))
    with pytest.raises(Conflict, match="got ids meanwhile"):
        compact_through(warehouse, catalog)
    catalog.engine.dispose()
    assert len(set(row_ids(warehouse, table)) - {None}) == 70
    assert len(data_files(warehouse, table)) == 7
