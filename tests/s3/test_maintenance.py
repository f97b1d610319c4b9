"""Merged deletes, rewritten manifests and the report of storage on an S3 store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, compact, delete_files, make_table, options, paths
from tests.builders.manifest_entries import listed, live_entries_of
from tests.builders.s3_warehouse import S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.model.options import Strategy
from tidyberg.testing.deletes import Positions, commit_deletes, delete_equal


@pytest.fixture
def warehouse(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    made = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with made:
        yield made


def scanned(table: Table) -> list[int]:
    """PyIceberg reads the table: it knows position deletes and vectors."""
    found: list[int] = table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("format_version", [2, 3])
def test_deletes_are_merged(warehouse: S3Warehouse, format_version: int) -> None:
    table = make_table(warehouse, BY_REGION, format_version=format_version)
    first, second, *_ = paths(warehouse, table)
    if format_version == 2:
        commit_deletes(table, Positions({first: [0], second: [1, 2]}), Positions({first: [3]}, file_scoped=True))
    else:
        delete_equal(table, first, {"id": [0, 3, 41]})
        delete_equal(table, first, {"id": [11, 12]})
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "committed"
    assert scanned(table) == [number for number in range(60) if number not in (0, 3, 11, 12)]
    assert len(delete_files(warehouse, table)) == 2
    assert all("tidyberg-" in path for path in delete_files(warehouse, table))
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "tidy"


def test_manifests_are_rewritten_and_a_report_says_who_holds_the_bytes(
    warehouse: S3Warehouse, s3_server: S3Server, bucket: str
) -> None:
    table = make_table(warehouse, BY_REGION)
    entries = live_entries_of(table)
    with make_control(warehouse) as control:
        assert control.rewrite_manifests(REF, ManifestOptions(force=True)).outcome == "rewritten"
        assert (len(listed(table)), live_entries_of(table)) == (1, entries)
        report = control.storage(REF)
    stored = [path for path in (s3_server.data / bucket).rglob("*") if path.is_file()]
    assert (report.total.files, report.total.bytes) == (len(stored), sum(path.stat().st_size for path in stored))
    assert report.held() == report.total
    assert (report.missing, report.unreadable) == (0, ())
