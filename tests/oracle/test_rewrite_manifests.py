"""Java judges rewritten manifests: it reads the same rows, and its own rewrite leaves the same entries."""

import random
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import NAME, random_history, rewind
from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.manifest_entries import listed, live_entries_of
from tests.faults.lab import EVERYTHING
from tests.oracle.client import JavaCatalog
from tests.seed import SEED
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.testing import Warehouse

ROUNDS = 30 if EVERYTHING else 1
LINEAGE = "_row_id, _last_updated_sequence_number"


def rows_in_java(java: JavaCatalog, version: int) -> list[tuple[Any, ...]]:
    java.sql(f"REFRESH TABLE {java.name}.{NAME}")
    return sorted(java.sql(f"SELECT *{', ' + LINEAGE if version > 2 else ''} FROM {NAME}"), key=repr)


def counts_in_java(java: JavaCatalog) -> dict[str, Any]:
    fields = "status, snapshot_id, sequence_number, file_sequence_number, data_file.file_path, data_file.record_count"
    return {
        "entries": sorted(java.sql(f"SELECT {fields} FROM {NAME}.entries WHERE status < 2"), key=repr),
        "partitions": sorted(java.sql(f"SELECT * FROM {NAME}.partitions"), key=repr),
    }


def summary_of(table: Table) -> dict[str, str]:
    head = table.refresh().current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties


@pytest.mark.parametrize("round_number", range(ROUNDS))
@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_the_same_rows_and_rewrites_to_the_same_entries(
    warehouse: Warehouse, java: JavaCatalog, version: int, round_number: int
) -> None:
    rng = random.Random(SEED * 1000 + version * 100 + round_number)
    table = random_history(warehouse, rng, version)
    location, rows, before = table.metadata_location, rows_in_java(java, version), live_entries_of(table)
    options = ManifestOptions(target_bytes=rng.choice([1, 4000, None]), force=True, ignore_wap_branches=True)
    print(f"seed {SEED}, version {version}, round {round_number}: {options}")  # noqa: T201

    with make_control(warehouse) as control:
        assert control.rewrite_manifests(REF, options).outcome == "rewritten"
    assert rows_in_java(java, version) == rows
    ours, our_counts, our_summary = live_entries_of(table), counts_in_java(java), summary_of(table)
    assert ours == before

    # Java continues: it rewrites our manifests, and reads the same rows.
    for spec_id in sorted({manifest.spec_id for manifest in listed(table)}):
        java.sql(f"CALL {java.name}.system.rewrite_manifests(table => '{NAME}', spec_id => {spec_id})")
    assert rows_in_java(java, version) == rows
    assert live_entries_of(table) == before

    # Java rewrites the manifests of the same table as it was: the same entries.
    rewind(warehouse, table, location)
    java.sql(f"REFRESH TABLE {java.name}.{NAME}")
    for spec_id in sorted({manifest.spec_id for manifest in listed(table)}):
        java.sql(f"CALL {java.name}.system.rewrite_manifests(table => '{NAME}', spec_id => {spec_id})")
    assert live_entries_of(table) == ours
    theirs = counts_in_java(java)
    without_status = [entry[1:] for entry in theirs["entries"]]
    assert sorted(without_status, key=repr) == sorted((entry[1:] for entry in our_counts["entries"]), key=repr)
    their_summary = summary_of(table)
    totals = {name: value for name, value in their_summary.items() if name.startswith("total-")}
    assert {name: our_summary.get(name) for name in totals} == totals
    if "manifests-created" in their_summary:
        names = {name for name in their_summary if name.startswith(("manifests-", "entries-"))}
        assert names == {name for name in our_summary if name.startswith(("manifests-", "entries-"))}


def test_java_goes_on_after_a_rewrite(warehouse: Warehouse, java: JavaCatalog) -> None:
    """Row ids of new rows follow those of the table, whose next row id the rewrite did not change."""
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    for number in range(4):
        java.sql(f"INSERT INTO {NAME} VALUES ({number}, 'r{number % 2}'), ({number + 10}, 'r{number % 2}')")
    java.sql(f"DELETE FROM {NAME} WHERE id = 10")
    table = warehouse.catalog.load_table(NAME)
    before = rows_in_java(java, 3)
    with make_control(warehouse) as control:
        control.rewrite_manifests(REF, ManifestOptions(force=True))
    assert rows_in_java(java, 3) == before
    java.sql(f"INSERT INTO {NAME} VALUES (99, 'r0')")
    java.sql(f"DELETE FROM {NAME} WHERE id = 11")
    after = rows_in_java(java, 3)
    ids = [row[2] for row in after]
    assert len(set(ids)) == len(ids) == 7
    assert [row for row in after if row[0] != 99] == [row for row in before if row[0] != 11]
    assert table.refresh() is not None
