"""Format version 3 through Iceberg's own REST catalog server, which checks the row ids of a snapshot."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import CommitTableResponse, Table

from tests.builders.control import make_control
from tests.rest.lab import FULL, SCHEMA, RestLab
from tidyberg.model.options import VerifyMode
from tidyberg.testing.deletes import delete_rows

pytestmark = pytest.mark.slow


def numbers(table: Table) -> tuple[int | None, int | None, int | None]:
    """The snapshot's first row id and added rows, and the table's next row id."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.first_row_id, snapshot.added_rows, getattr(table.metadata, "next_row_id", None)


def test_row_ids_are_kept_and_counted(lab: RestLab) -> None:
    table = lab.untidy_table(format_version=3)
    paths = [file.path for file in lab.live_files(table)]
    delete_rows(table, {paths[0]: [0, 1], paths[1]: [5]})
    before = lab.rows(table, lineage=True)
    assert len(before) == 117
    assert numbers(table) == (120, 0, 120)
    with lab.control() as control:
        control.compact(lab.ref, FULL, verify=VerifyMode.FULL)
    assert lab.rows(table, lineage=True) == before
    assert numbers(table) == (120, 117, 237)
    assert len(lab.live_files(table)) == 1
    assert not lab.leftovers(table)


@pytest.mark.parametrize("version", [1, 2])
def test_rows_of_an_upgraded_table_get_ids(lab: RestLab, version: int) -> None:
    table = lab.untidy_table(format_version=version)
    before = lab.rows(table)
    lab.upgrade(table, 3)
    with lab.control() as control:
        control.compact(lab.ref, FULL, verify=VerifyMode.FULL)
    assert lab.rows(table) == before
    assert numbers(table) == (0, 120, 120)
    lab.append_files(table, 3, 20, seed=30)
    lineage = lab.rows(table, lineage=True)
    with lab.control() as control:
        control.compact(lab.ref, FULL, verify=VerifyMode.FULL)
    assert lab.rows(table, lineage=True) == lineage


def compact_overtaken(lab: RestLab, meddle: Callable[[], object]) -> None:
    """Something else lands between the making of a commit and its sending, once."""
    waiting = [meddle]

    class Overtaken(RestCatalog):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            if waiting:
                waiting.pop()()
            answer: CommitTableResponse = super().commit_table(table, requirements, updates)
            return answer

    catalog = Overtaken(lab.name, uri=lab.server.uri)
    with make_control(lab, open_catalog=lambda _: catalog) as control:
        options = replace(FULL, ignore_wap_branches=True)
        assert control.compact(lab.ref, options, verify=VerifyMode.FULL).outcome == "committed"
    catalog.close()


def test_row_ids_are_assigned_again_when_another_branch_takes_them(lab: RestLab) -> None:
    table = lab.untidy_table(format_version=3)
    head = table.refresh().current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "side").commit()
    before = lab.rows(table, lineage=True)
    compact_overtaken(
        lab, lambda: lab.append_files(lab.catalog.load_table(lab.ref.identifier), 1, 7, seed=9, branch="side")
    )
    assert lab.rows(table, lineage=True) == before
    assert numbers(table) == (127, 120, 247)


@pytest.mark.parametrize(("version", "then"), [(1, 2), (2, 3), (1, 3)])
def test_a_commit_is_built_again_after_an_upgrade_before_it_was_sent(lab: RestLab, version: int, then: int) -> None:
    table = lab.create_table(str(lab.ref), SCHEMA, format_version=version)
    lab.append_files(table, 4, 20, files_per_commit=2)
    before = lab.rows(table)
    compact_overtaken(lab, lambda: lab.upgrade(lab.catalog.load_table(lab.ref.identifier), then))
    assert table.refresh().metadata.format_version == then
    assert lab.rows(table) == before
    assert len(lab.live_files(table)) == 1
