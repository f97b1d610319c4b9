"""Commits through AWS Glue, as moto plays it: the catalog writes the metadata file itself, also of format version 3."""

from collections.abc import Iterator

import pytest
from moto import mock_aws
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.table import Table

from tests.builders.control import make_control
from tests.builders.events_table import REF, make_table, options
from tests.builders.finished_groups import commit_all
from tidyberg.catalog.metadata_file import as_document
from tidyberg.model.options import VerifyMode
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import delete_rows

ACCESS = {"glue.region": "eu-central-1", "glue.access-key-id": "none", "glue.secret-access-key": "none"}


@pytest.fixture
def glue(warehouse: Warehouse) -> Iterator[GlueCatalog]:
    """A Glue catalog over the warehouse's directory."""
    with mock_aws():
        yield GlueCatalog("lab", warehouse=warehouse.properties["warehouse"], **ACCESS)


def registered(glue: GlueCatalog, table: Table) -> Table:
    glue.create_namespace_if_not_exists("db")
    return glue.register_table("db.events", table.metadata_location)


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_compaction_keeps_rows_and_row_ids(warehouse: Warehouse, glue: GlueCatalog, format_version: int) -> None:
    made = make_table(warehouse, format_version=format_version)
    if format_version > 1:
        delete_rows(made, {warehouse.live_files(made)[0].path: [3]})
    table = registered(glue, made)
    before = warehouse.rows(table, lineage=True)
    with make_control(warehouse, open_catalog=lambda _: glue) as control:
        assert control.compact(REF, options(), verify=VerifyMode.FULL).outcome == "committed"
    assert warehouse.rows(table, lineage=True) == before
    assert len(warehouse.live_files(table)) == 1
    assert table.metadata_location == glue.load_table("db.events").metadata_location != made.metadata_location
    assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)


def test_a_database_of_s3_tables_is_not_asked_whether_the_file_exists(
    warehouse: Warehouse, glue: GlueCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = registered(glue, make_table(warehouse, format_version=3))
    monkeypatch.setattr(glue, "_is_s3tables_database", lambda _: True)
    before = warehouse.rows(table)
    commit_all(table, catalog=glue)
    assert warehouse.rows(table) == before
    assert as_document(table.refresh().metadata)["next-row-id"] == 120


def test_old_metadata_files_go_as_the_table_says(warehouse: Warehouse, glue: GlueCatalog) -> None:
    table = registered(glue, make_table(warehouse))
    assert len(table.metadata.metadata_log) == 6
    with make_control(warehouse, open_catalog=lambda _: glue) as control:
        assert not control.metadata_files(REF).report().deletes_old
        kept = control.metadata_files(REF).keep(2)
    assert (kept.deletes_old, kept.keep, kept.has_changed) == (True, 2, True)
    table.refresh()
    assert len(table.metadata.metadata_log) == 2
    used = {table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log)}
    on_disk = {path for path in warehouse.files_on_disk(table) if path.endswith(".metadata.json")}
    assert on_disk == {local_path(path) for path in used}
