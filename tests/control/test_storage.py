"""Who holds the bytes of a table, against a model that reads every snapshot with other code and asks the disk."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import (
    DAY_MS,
    add_statistics_files,
    age,
    change_metadata,
    metadata_files,
    random_history,
    set_ref,
)
from tests.builders.control import make_control
from tests.builders.events_table import REF, append, make_table
from tests.seed import SEED
from tidyberg.control.control import Control
from tidyberg.control.expiry_plan import refs_of
from tidyberg.errors import AccessDenied
from tidyberg.model.expiry import ExpireOptions
from tidyberg.model.options import PlanOptions, Prices
from tidyberg.model.storage_report import Holder, StorageReport, StoredBytes, StoredKind
from tidyberg.observe.held_files import StoredFiles
from tidyberg.observe.missing_files import absent
from tidyberg.observe.pin import snapshots_of
from tidyberg.planning.expiry import decide_expiry
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.manifests import live_files


def on_disk(warehouse: Warehouse, table: Table) -> dict[str, int]:
    return {path: Path(path).stat().st_size for path in warehouse.files_on_disk(table)}


def files_of(table: Table, snapshot_id: int) -> set[str]:
    """Everything that one snapshot needs, read with PyIceberg."""
    metadata = table.metadata
    snapshot = metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    found = {snapshot.manifest_list, *(one.manifest_path for one in snapshot.manifests(table.io))}
    found |= {file.path for file in live_files(table, snapshot)}
    several = (*metadata.statistics, *metadata.partition_statistics)
    found |= {one.statistics_path for one in several if one.snapshot_id == snapshot_id}
    return {local_path(path) for path in found}


def stored(sizes: dict[str, int], paths: set[str]) -> StoredBytes:
    return StoredBytes(len(paths), sum(sizes[path] for path in paths))


def report_of(warehouse: Warehouse, **overrides: Any) -> StorageReport:
    with make_control(warehouse, **overrides) as control:
        return control.storage(REF)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_byte_on_disk_is_counted_once_as_a_model_says(warehouse: Warehouse, version: int) -> None:
    table = random_history(warehouse, random.Random(SEED * 10 + version), version, steps=8)
    home = Path(local_path(table.location()))
    (home / "data" / "lost.parquet").write_bytes(b"12345")
    (home / "metadata" / "00000-old.metadata.json").write_bytes(b"{}")
    now_ms = wall_clock_ms()
    report = report_of(warehouse, now_ms=lambda: now_ms)

    sizes, metadata = on_disk(warehouse, table), table.refresh().metadata
    needs = {one.snapshot_id: files_of(table, one.snapshot_id) for one in metadata.snapshots}
    heads = {str(ref): needs[ref.snapshot_id] for ref in refs_of(metadata) if ref.snapshot_id in needs}
    assert report.total == stored(sizes, set(sizes)) == sum((one.stored for one in report.holdings), StoredBytes())
    current = heads["branch main"]
    assert report.held(Holder.CURRENT) == stored(sizes, current)
    others = [files - current for name, files in heads.items() if name != "branch main"]
    assert report.held(Holder.REF, Holder.SEVERAL_REFS) == stored(sizes, set[str]().union(*others))
    history = set[str]().union(*needs.values()) - set[str]().union(*heads.values())
    assert report.held(Holder.HISTORY) == stored(sizes, history)
    tracked = {table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    assert report.held(Holder.TABLE) == stored(sizes, {local_path(path) for path in tracked})
    lost = set(sizes) - set[str]().union(*needs.values()) - {local_path(path) for path in tracked}
    assert report.held(Holder.ORPHAN) == stored(sizes, lost)
    assert {str(home / "data" / "lost.parquet"), str(home / "metadata" / "00000-old.metadata.json")} <= lost
    for ref in report.refs:
        rest = set[str]().union(*(files for name, files in heads.items() if name != ref.ref))
        assert ref.total == stored(sizes, heads[ref.ref])
        assert ref.only == stored(sizes, heads[ref.ref] - rest)
    for each in report.ages:
        options = ExpireOptions(older_than_ms=each.older_than_ms)
        decision = decide_expiry(snapshots_of(metadata), refs_of(metadata), metadata.properties, options, now_ms)
        kept = set[str]().union(*(needs[number] for number in decision.retained))
        gone = set[str]().union(*needs.values()) - kept
        assert each.freed == stored(sizes, gone)
        assert each.snapshots == len(decision.snapshot_ids)
    assert (report.missing, report.unreadable, report.outside.files) == (0, (), 0)


def test_expire_frees_exactly_what_the_report_said(warehouse: Warehouse) -> None:
    table = random_history(warehouse, random.Random(SEED), 2, steps=8)
    now_ms = wall_clock_ms()
    with make_control(warehouse, now_ms=lambda: now_ms) as control:
        report = control.storage(REF, PlanOptions())
        before, known = on_disk(warehouse, table), metadata_files(warehouse, table)
        control.expire(REF, ExpireOptions())
    after = on_disk(warehouse, table)
    gone = set(before) - set(after)
    action = next(one for one in report.actions if one.command == "tidyberg expire db.events")
    assert (action.frees_bytes, action.exactness) == (sum(before[path] for path in gone), "exact")
    assert set(after) - set(before) == metadata_files(warehouse, table) - known


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Seven snapshots with one file each."""
    made = make_table(warehouse)
    return append(warehouse, made, [7], "us")


def aged(table: Table) -> Table:
    """All snapshots but the newest are older than five days."""
    older = len(table.metadata.snapshots) - 1
    return age(table, [*(6.0 + older - number for number in range(older)), 0])


def test_a_referenced_file_that_is_missing_is_reported(warehouse: Warehouse, table: Table) -> None:
    path = next(file.path for file in warehouse.live_files(table))
    os.unlink(local_path(path))
    report = report_of(warehouse)
    assert (report.missing, report.first_missing) == (1, path)
    assert report.total == stored(on_disk(warehouse, table), set(on_disk(warehouse, table)))


def test_many_missing_files_are_not_asked_for_one_by_one(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidyberg.observe.held_files._MOST_LOOKUPS", 2)
    asked: list[str] = []

    def ask(io: Any, paths: list[str], check: Any) -> list[str]:
        asked.extend(paths)
        return absent(io, paths, check)

    monkeypatch.setattr("tidyberg.observe.held_files.absent", ask)
    for file in warehouse.live_files(table):
        os.unlink(local_path(file.path))
    assert report_of(warehouse).missing == 7
    assert len(asked) == 2


@pytest.mark.parametrize("is_list", [True, False])
def test_an_unreadable_manifest_of_an_old_snapshot_is_said_and_nothing_is_guessed(
    warehouse: Warehouse, table: Table, is_list: bool
) -> None:
    aged(table)
    path = set_apart(warehouse, table)
    snapshot = table.refresh().metadata.snapshot_by_name("apart")
    assert snapshot is not None
    damaged = snapshot.manifest_list if is_list else snapshot.manifests(table.io)[0].manifest_path
    change_metadata(table, lambda document: document["refs"].pop("apart"))
    Path(local_path(damaged)).write_bytes(b"not Avro")
    with make_control(warehouse) as control:
        report = control.storage(REF, PlanOptions())
    assert len(report.unreadable) == 1
    assert damaged in report.unreadable[0]
    assert report.held(Holder.ORPHAN) == StoredBytes()
    assert report.of_kind(StoredKind.OTHER, holders=(Holder.UNKNOWN,)).bytes >= Path(local_path(path)).stat().st_size
    unsure = {one.command.split()[1]: one.frees_bytes for one in report.actions if one.exactness == "unknown"}
    assert unsure == {"expire": None, "orphans": None}


def set_apart(warehouse: Warehouse, table: Table) -> str:
    """Appends a file to a branch of its own, and returns the file's path."""
    set_ref(table, "apart", table.refresh().metadata.snapshots[-1].snapshot_id, is_branch=True)
    known = {file.path for file in warehouse.live_files(table)}
    warehouse.append_files(table, 1, 5, branch="apart")
    head = table.refresh().metadata.snapshot_by_name("apart")
    return next(file.path for file in live_files(table, head) if file.path not in known)


def test_files_outside_of_the_tables_locations_are_counted_apart(warehouse: Warehouse, table: Table) -> None:
    outside = add_statistics_files(table, [table.metadata.snapshots[0].snapshot_id])
    moved = Path(local_path(outside)).rename(warehouse.directory / "elsewhere.stats")

    def move(document: dict[str, Any]) -> None:
        document["statistics"][0]["statistics-path"] = f"file://{moved}"

    change_metadata(table, move)
    report = report_of(warehouse)
    assert report.outside == StoredBytes(1, 10)
    assert report.missing == 0
    assert report.total == stored(on_disk(warehouse, table), set(on_disk(warehouse, table)))


def test_a_location_inside_another_is_listed_once(warehouse: Warehouse, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"write.data.path": f"{table.location()}/data"})
    report = report_of(warehouse)
    assert report.total == stored(on_disk(warehouse, table), set(on_disk(warehouse, table)))


def test_a_file_in_two_spellings_is_one_file(warehouse: Warehouse, table: Table) -> None:
    def respell(document: dict[str, Any]) -> None:
        for snapshot in document["snapshots"]:
            snapshot["manifest-list"] = snapshot["manifest-list"].replace("file:///", "file:/")

    change_metadata(table, respell)
    report = report_of(warehouse)
    assert report.held(Holder.ORPHAN) == StoredBytes()
    assert report.missing == 0


def test_what_gc_forbids_is_not_offered(warehouse: Warehouse, table: Table) -> None:
    aged(table)
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    report = report_of(warehouse)
    action = next(one for one in report.actions if "expire" in one.command)
    assert (action.frees_bytes, action.why) == (0, "gc.enabled=false forbids it")
    assert next(one for one in report.ages if one.is_own).freed.files == 6, "six manifest lists"


def test_young_orphans_may_belong_to_writers(warehouse: Warehouse, table: Table) -> None:
    home = Path(local_path(table.location())) / "data"
    for name, days in (("young.parquet", 1), ("old.parquet", 4)):
        (home / name).write_bytes(b"x" * days)
        then = wall_clock_ms() / 1000 - days * DAY_MS / 1000
        os.utime(home / name, (then, then))
    report = report_of(warehouse)
    assert (report.held(Holder.ORPHAN), report.young_orphans) == (StoredBytes(2, 5), StoredBytes(1, 1))
    action = next(one for one in report.actions if "orphans" in one.command)
    assert (action.frees_bytes, action.exactness) == (4, "estimate")


def test_a_version_hint_belongs_to_the_table(warehouse: Warehouse, table: Table) -> None:
    (Path(local_path(table.location())) / "metadata" / "version-hint.text").write_bytes(b"3")
    report = report_of(warehouse)
    assert report.held(Holder.ORPHAN) == StoredBytes()
    assert report.of_kind(StoredKind.OTHER, holders=(Holder.TABLE,)) == StoredBytes(1, 1)


def test_a_commit_after_the_listing_makes_no_orphans_and_no_missing_files(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_and_commit(*given: Any) -> Any:
        listed = listing(*given)
        append(warehouse, table, [8], "eu")
        return listed

    listing = StoredFiles.of
    monkeypatch.setattr(StoredFiles, "of", staticmethod(list_and_commit))
    report = report_of(warehouse)
    assert (report.held(Holder.ORPHAN), report.missing) == (StoredBytes(), 0)


def test_files_of_a_commit_during_the_listing_are_no_orphans(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_and_list(*given: Any) -> Any:
        append(warehouse, table, [8], "eu")
        return listing(*given)

    listing = StoredFiles.of
    monkeypatch.setattr(StoredFiles, "of", staticmethod(commit_and_list))
    report = report_of(warehouse)
    assert (report.held(Holder.ORPHAN), report.missing) == (StoredBytes(), 0)


def test_an_empty_table_has_only_its_metadata(warehouse: Warehouse) -> None:
    warehouse.create_table("db.events")
    report = report_of(warehouse)
    assert [one.kind for one in report.holdings] == [StoredKind.METADATA_JSON]
    assert report.refs == ()


def test_a_location_that_cannot_be_listed_is_an_error(
    control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("tidyberg.observe.held_files.files_in", denied)
    with pytest.raises(AccessDenied, match="Cannot list"):
        control.storage(REF)


def test_prices_come_from_the_settings(warehouse: Warehouse, table: Table) -> None:
    report = report_of(warehouse, prices=Prices(storage_per_gb_month=2.0))
    assert report.dollars(1024**3) == 2.0
