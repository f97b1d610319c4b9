"""Rewriting manifests: every entry stays what it is, and they are clustered, right-sized and committed safely."""

import random
from collections.abc import Iterator

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3

from tests.builders.aged_tables import random_history
from tests.builders.control import leftovers, make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append
from tests.builders.manifest_entries import listed, live_entries_of, raw_entries
from tests.seed import SEED
from tidyberg.control.control import Control
from tidyberg.model.job import JobStatus
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.testing import Warehouse

FORCED = ManifestOptions(force=True)


@pytest.fixture
def control(warehouse: Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as made:
        yield made


def many_commits(warehouse: Warehouse, version: int = 2, commits: int = 24, spec: PartitionSpec = BY_REGION) -> Table:
    """One manifest per commit, in four regions in turn."""
    table = warehouse.create_table("db.events", SCHEMA, spec, format_version=version)
    for number in range(commits):
        append(warehouse, table, [number], f"r{number % 4}")
    return table.refresh()


def next_row_id(table: Table) -> int | None:
    metadata = table.refresh().metadata
    return metadata.next_row_id if isinstance(metadata, TableMetadataV3) else None


def check(warehouse: Warehouse, table: Table, before: list[str], rows: list[str]) -> None:
    assert live_entries_of(table) == before
    version = table.metadata.format_version
    assert warehouse.rows(table, lineage=version > 2) == rows
    assert not {path for path in leftovers(warehouse, table) if ".metadata.json" not in path}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_stay_what_they_are_in_fewer_manifests(warehouse: Warehouse, control: Control, version: int) -> None:
    table = many_commits(warehouse, version)
    before, rows, ids = live_entries_of(table), warehouse.rows(table, lineage=version > 2), next_row_id(table)
    head = table.current_snapshot()
    assert head is not None
    result = control.rewrite_manifests(REF, ManifestOptions())
    assert (result.outcome, result.created, result.replaced, result.kept, result.entries) == ("rewritten", 1, 24, 0, 24)
    check(warehouse, table, before, rows)
    (manifest,) = listed(table)
    entries = raw_entries(table, manifest)
    assert {entry[0] for entry in entries} == {0}
    if version > 1:
        assert all(entry[1] is not None and entry[3] is not None and entry[4] is not None for entry in entries)
    if version > 2:
        assert all(entry[2][142] is not None for entry in entries)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    names = ("manifests-created", "manifests-replaced", "manifests-kept", "entries-processed")
    assert [summary[name] for name in names] == ["1", "24", "0", "24"]
    assert head.summary is not None
    totals = {name: value for name, value in head.summary.additional_properties.items() if name.startswith("total-")}
    assert totals.items() <= summary.items()
    assert next_row_id(table) == ids
    assert snapshot.added_rows == (0 if version > 2 else None)
    job = control.history(REF)[0]
    assert (job.strategy, job.status, job.unresolved, job.snapshot_id) == (
        "rewrite_manifests",
        JobStatus.SUCCEEDED,
        False,
        snapshot.snapshot_id,
    )


def test_a_second_run_does_nothing(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse)
    control.rewrite_manifests(REF, ManifestOptions())
    location = table.refresh().metadata_location
    again = control.rewrite_manifests(REF, ManifestOptions())
    assert (again.outcome, again.plan.verdict, table.refresh().metadata_location) == ("nothing", "tidy", location)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("target", [1, 4000, None])
def test_entries_of_random_histories_stay_what_they_are(
    warehouse: Warehouse, control: Control, version: int, target: int | None
) -> None:
    rng = random.Random(SEED + version + (target or 0))
    table = random_history(warehouse, rng, version)
    before, rows = live_entries_of(table), warehouse.rows(table, lineage=version > 2)
    result = control.rewrite_manifests(REF, ManifestOptions(force=True, target_bytes=target))
    print(f"seed {SEED}: {result.plan}")  # noqa: T201
    assert result.outcome == "rewritten"
    assert live_entries_of(table) == before
    assert warehouse.rows(table, lineage=version > 2) == rows
    again = control.plan_manifests(REF, ManifestOptions(target_bytes=target))
    assert (again.verdict, again.created) == ("tidy", 0)
