"""Merged deletes, rewritten manifests and the report of storage on an S3 store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, append, compact, delete_files, make_table, options, paths
from tests.builders.manifest_entries import listed, live_entries_of
from tests.builders.s3_warehouse import S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.model.options import Strategy
from tidyberg.testing.deletes import Positions, Vectors, commit_deletes, delete_equal


@pytest.fixture
def warehouse(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    with S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket)) as opened:
        yield opened


def test_deletes_are_merged(warehouse: S3Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    first, second, *_, last = paths(warehouse, table)
    commit_deletes(table, Positions({first: [0], second: [1, 2]}), Positions({first: [3]}, file_scoped=True))
    rows = warehouse.rows(table)
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "committed"
    assert warehouse.rows(table) == rows
    assert len(delete_files(warehouse, table)) == 2

    warehouse.upgrade(table, 3)
    append(warehouse, table, [6], "eu")
    commit_deletes(table, Vectors({second: [7], last: [4]}))
    delete_equal(table, first, {"id": [5, 15, 65]})
    rows = warehouse.rows(table, lineage=True)
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "committed"
    assert warehouse.rows(table, lineage=True) == rows
    assert all(path.endswith(".puffin") for path in delete_files(warehouse, table))
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "tidy"


def test_manifests_are_rewritten_and_storage_reports_who_holds_the_bytes(warehouse: S3Warehouse, bucket: str) -> None:
    table = make_table(warehouse, BY_REGION)
    entries = live_entries_of(table)
    with make_control(warehouse) as control:
        assert control.rewrite_manifests(REF, ManifestOptions(force=True)).outcome == "rewritten"
        assert (len(listed(table.refresh())), live_entries_of(table)) == (1, entries)
        report = control.storage_report(REF)
    print(report)
