"""Orphans: what counts as one, what never does, and which guards refuse to look [I6]."""

import gzip
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tests.builders.aged_tables import DAY_MS, add_statistics_files, change_metadata, random_history, set_ref
from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, make_table, paths, rows_of
from tests.builders.job_records import job as recorded_job
from tests.builders.stray_files import backdate, backdate_all, put, seen_days_ago
from tests.faults.lab import EVERYTHING
from tests.seed import SEED
from tidyberg.control.control import Control
from tidyberg.control.orphan_plan import OrphanFinder
from tidyberg.control.orphan_sightings import Sightings
from tidyberg.control.quarantine import MOVED
from tidyberg.errors import AccessDenied, BadInput, DamagedFile, SharedFiles, TableBusy, UnknownJob, Unsupported
from tidyberg.model.job import Intent, JobStatus
from tidyberg.model.orphans import OrphanOptions, OrphanResult
from tidyberg.model.report import Notice
from tidyberg.observe import orphans as observed
from tidyberg.record.process import this_process
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import Vectors, commit_deletes

NOW = OrphanOptions(now=True)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Two appends, and every file is ten days old."""
    made = append(warehouse, warehouse.create_table("db.events", SCHEMA), [0, 1], "eu")
    backdate_all(made)
    return made


def on_disk(table: Table) -> set[str]:
    """All files except tidyberg's own."""
    root = Path(local_path(table.location()))
    return {str(path) for path in root.rglob("*") if path.is_file() and "_tidyberg" not in path.parts}


def check_intact(warehouse: Warehouse, table: Table) -> None:
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)


def test_unreferenced_files_are_deleted_and_nothing_else(warehouse: Warehouse, control: Control, table: Table) -> None:
    before = on_disk(table)
    orphans = {
        put(table, "data/lost.parquet"),
        put(table, "data/region=eu/lost.parquet"),
        put(table, "metadata/lost-m0.avro"),
        put(table, "metadata/snap-1-1-lost.avro"),
        put(table, "metadata/lost.stats"),
        put(table, "notes.txt"),
    }
    result = control.remove_orphans(REF, NOW)
    assert (result.outcome, result.files.files, result.files.bytes) == ("deleted", 6, 600)
    counts = result.files
    assert (counts.data_files, counts.manifests, counts.manifest_lists, counts.statistics_files) == (2, 1, 1, 1)
    assert on_disk(table) == before
    assert not orphans & warehouse.files_on_disk(table)
    job = control.history(REF)[0]
    assert (job.strategy, job.status) == ("orphans", JobStatus.SUCCEEDED)
    assert "6 orphans deleted" in job.notes[-1]
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    assert not (Path(local_path(table.location())) / "_tidyberg" / "orphans-seen.arrow").exists()


def test_a_plan_changes_nothing_and_says_what_a_run_does(warehouse: Warehouse, control: Control, table: Table) -> None:
    put(table, "data/lost.parquet", content=b"x" * 1024**2)
    before = warehouse.files_on_disk(table)
    plan = control.plan_orphans(REF, NOW)
    assert warehouse.files_on_disk(table) == before
    assert control.history(REF) == []
    assert (plan.verdict, plan.files.files, plan.files.bytes) == ("delete", 1, 1024**2)
    assert plan.dollars_per_month == pytest.approx(0.023 / 1024)
    assert plan.listed == len(before)
    assert control.plan_orphans(REF, OrphanOptions()).verdict == "wait"
    assert control.remove_orphans(REF, NOW).plan.files == plan.files
    assert control.plan_orphans(REF, NOW).verdict == "nothing"


@pytest.mark.parametrize("version", [1, 2, 3] if EVERYTHING else [3])
def test_nothing_of_a_random_history_is_an_orphan(warehouse: Warehouse, control: Control, version: int) -> None:
    table = random_history(warehouse, random.Random(SEED + version), version)
    rows = {one.snapshot_id: warehouse.rows(table, snapshot_id=one.snapshot_id) for one in table.metadata.snapshots}
    backdate_all(table)
    before = on_disk(table)
    orphan = put(table, "data/lost.parquet")
    result = control.remove_orphans(REF, NOW)
    left_by_expired = before - on_disk(table)
    assert not left_by_expired & warehouse.referenced_files(table)
    assert orphan not in on_disk(table)
    print(f"seed {SEED}, version {version}: {result.files}")  # noqa: T201
    statistics = {
        local_path(one.statistics_path) for one in (*table.metadata.statistics, *table.metadata.partition_statistics)
    }
    assert statistics <= on_disk(table)
    assert {number: warehouse.rows(table, snapshot_id=number) for number in rows} == rows
    check_intact(warehouse, table)


def test_statistics_version_hints_and_logged_metadata_are_referenced(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    newest = table.metadata.snapshots[-1].snapshot_id
    add_statistics_files(table, [newest])
    add_statistics_files(table, [newest], by_partition=True)
    put(table, "metadata/version-hint.text")
    backdate_all(table)
    before = on_disk(table)
    assert len(table.metadata.metadata_log) >= 2
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    assert on_disk(table) == before


def test_an_old_metadata_file_that_nothing_tracks_is_an_orphan(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    oldest = local_path(table.metadata.metadata_log[0].metadata_file)
    change_metadata(table, lambda document: document["metadata-log"].pop(0))
    result = control.remove_orphans(REF, NOW)
    assert (result.files.metadata_files, result.files.files) == (1, 1)
    assert not Path(oldest).exists()


def test_files_of_branches_and_tags_are_referenced(warehouse: Warehouse, control: Control, table: Table) -> None:
    first, *_, last = table.metadata.snapshots
    set_ref(table, "q1", last.snapshot_id)
    set_ref(table, "work", last.snapshot_id, is_branch=True)
    append_to = warehouse.append_files(table, 1, rows=lambda _: rows_of(9, "eu"), branch="work")
    set_ref(append_to, "main", first.snapshot_id, is_branch=True)
    backdate_all(table)
    before = on_disk(table)
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    assert on_disk(table) == before


def test_a_puffin_file_is_referenced_while_one_vector_is_live(warehouse: Warehouse, control: Control) -> None:
    table = make_table(warehouse, format_version=3)
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Vectors({first: [1], second: [2]}))
    backdate_all(table)
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    check_intact(warehouse, table)


def test_young_files_stay(warehouse: Warehouse, control: Control, table: Table) -> None:
    young, old = put(table, "data/young.parquet", days=2.9), put(table, "data/old.parquet", days=3.1)
    result = control.remove_orphans(REF, NOW)
    assert result.plan.kept["younger than the age"] == 1
    assert young in on_disk(table)
    assert old not in on_disk(table)


def test_a_file_without_a_time_counts_as_young(warehouse: Warehouse, control: Control, table: Table) -> None:
    path = put(table, "data/lost.parquet")
    os.utime(path, (0, 0))
    assert control.remove_orphans(REF, NOW).outcome == "nothing"


def test_an_age_below_a_day_needs_a_reason_which_is_recorded(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet", days=0.5)
    hour = replace(NOW, older_than_ms=3_600_000)
    for force in (None, "  "):
        with pytest.raises(BadInput, match="24 hours"):
            control.remove_orphans(REF, replace(hour, force=force))
    result = control.remove_orphans(REF, replace(hour, force="all writers are stopped"))
    assert result.files.files == 1
    assert control.history(REF)[0].options["force"] == "all writers are stopped"


def test_files_older_than_a_moment_can_be_kept(warehouse: Warehouse, control: Control, table: Table) -> None:
    older, newer = put(table, "data/older.parquet", days=20), put(table, "data/newer.parquet", days=5)
    moment = control.now_ms() - 12 * DAY_MS
    result = control.remove_orphans(REF, replace(NOW, newer_than_ms=moment))
    assert result.files.files == 1
    assert older in on_disk(table)
    assert newer not in on_disk(table)


def test_the_age_is_measured_by_the_clock_of_the_storage(warehouse: Warehouse, table: Table) -> None:
    """This machine's clock is ten days ahead: a file that was written yesterday looks eleven days old."""
    path = put(table, "data/new.parquet", days=1)
    heard: list[object] = []
    with make_control(warehouse, now_ms=lambda: Control.now_ms() + 10 * DAY_MS) as control:
        assert control.plan_orphans(REF, NOW).verdict == "delete"
        result = control.remove_orphans(REF, NOW, on_event=heard.append)
    assert (result.outcome, result.files.files) == ("waiting", 0)
    assert path in on_disk(table)
    assert any(isinstance(one, Notice) and "ahead of the storage's clock" in one.message for one in heard)


def test_an_orphan_must_have_been_seen_by_an_earlier_run(warehouse: Warehouse, control: Control, table: Table) -> None:
    path = put(table, "data/lost.parquet")
    first = control.remove_orphans(REF, OrphanOptions())
    assert (first.outcome, first.plan.waiting.files) == ("waiting", 1)
    again = control.remove_orphans(REF, OrphanOptions())
    assert again.outcome == "waiting", "the first run was only a moment ago"
    assert path in on_disk(table)
    seen_days_ago(table, 0.51)
    new = put(table, "data/new.parquet")
    result = control.remove_orphans(REF, OrphanOptions())
    assert (result.outcome, result.files.files, result.plan.waiting.files) == ("deleted", 1, 1)
    assert path not in on_disk(table)
    assert new in on_disk(table)
    seen_days_ago(table, 1)
    assert control.remove_orphans(REF, OrphanOptions()).files.files == 1
    assert new not in on_disk(table)


def test_a_file_that_changed_since_it_was_seen_is_seen_for_the_first_time(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    control.remove_orphans(REF, OrphanOptions())
    seen_days_ago(table, 1)
    put(table, "data/lost.parquet", days=9)
    assert control.remove_orphans(REF, OrphanOptions()).outcome == "waiting"


def test_damaged_sightings_count_as_none(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    control.remove_orphans(REF, OrphanOptions())
    seen_days_ago(table, 1)
    seen = Path(local_path(table.location())) / "_tidyberg" / "orphans-seen.arrow"
    seen.write_bytes(seen.read_bytes()[:-40])
    assert control.remove_orphans(REF, OrphanOptions()).outcome == "waiting"


def test_hidden_files_stay_but_partitions_of_hidden_fields_are_looked_at(
    warehouse: Warehouse, control: Control
) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_region"))
    table = append(warehouse, warehouse.create_table("db.events", SCHEMA, spec), [0, 1], "eu")
    backdate_all(table)
    hidden = {
        put(table, "data/_lost.parquet"),
        put(table, "data/.lost.parquet.crc"),
        put(table, "_spark_metadata/lost.parquet"),
        put(table, "data/_other=1/lost.parquet"),
        put(table, "data/_region=eu/_lost.parquet"),
        put(table, "data/_regional/lost.parquet"),
    }
    lost = put(table, "data/_region=eu/lost.parquet")
    result = control.remove_orphans(REF, NOW)
    assert (result.files.files, result.plan.kept["hidden"]) == (1, 6)
    assert hidden <= on_disk(table)
    assert lost not in on_disk(table)
    check_intact(warehouse, table)


def test_a_table_that_forbids_it_is_refused(control: Control, table: Table) -> None:
    path = put(table, "data/lost.parquet")
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    with pytest.raises(BadInput, match=r"gc\.enabled=false"):
        control.remove_orphans(REF, NOW)
    assert path in on_disk(table)


def meddle_before_listing_ends(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], None]) -> None:
    """`meddle` is called after the files were listed and before the metadata is read."""
    load = OrphanFinder.load
    calls: list[int] = []

    def loaded(finder: OrphanFinder, table_uuid: str) -> Table:
        calls.append(1)
        if len(calls) == 1:
            meddle()
        return load(finder, table_uuid)

    monkeypatch.setattr(OrphanFinder, "load", loaded)


def test_a_commit_between_listing_and_reading_counts_as_referenced(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer commits files that it wrote long ago."""
    rows = len(warehouse.rows(table))

    def commit() -> None:
        table.refresh()
        append(warehouse, table, [7], "eu")
        publish(table, staged)
        backdate_all(table)

    staged = stage_old_file(warehouse, table)
    meddle_before_listing_ends(monkeypatch, commit)
    put(table, "data/lost.parquet")
    assert control.plan_orphans(REF, NOW).files.files == 1
    assert control.remove_orphans(REF, NOW).files.files == 1
    assert len(warehouse.rows(table)) == rows + 20
    check_intact(warehouse, table)


def stage_old_file(warehouse: Warehouse, table: Table) -> Any:
    """Writes a data file and commits it nowhere. Returns its entry."""
    (staged,) = _dataframe_to_data_files(table.metadata, rows_of(9, "eu"), table.io)
    backdate_all(table)
    return staged


def publish(table: Table, staged: Any) -> None:
    with table.refresh().transaction() as transaction, transaction.update_snapshot().fast_append() as append_files:
        append_files.append_data_file(staged)


def test_a_file_that_is_committed_right_before_its_deletion_stays(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage_old_file(warehouse, table)
    write = Sightings.write

    def commit_then_write(*arguments: Any) -> None:
        write(*arguments)
        if not any(staged.file_path == path for path in paths(warehouse, table)):
            publish(table, staged)

    monkeypatch.setattr("tidyberg.control.orphan_sightings.Sightings.write", commit_then_write)
    lost = put(table, "data/lost.parquet")
    result = control.remove_orphans(REF, NOW)
    assert (result.files.files, result.referenced_meanwhile) == (1, 1)
    assert lost not in on_disk(table)
    check_intact(warehouse, table)


def test_files_of_open_runs_stay(warehouse: Warehouse, control: Control, table: Table) -> None:
    run = "7f985b29-0000-4000-8000-000000000001"
    adopted = put(table, "data/tidyberg-adopted.parquet")
    job = replace(
        recorded_job(run),
        status=JobStatus.FAILED,
        unresolved=True,
        intent=Intent(run, 1, {}, 1, {}, 0.0, adopted={0: (f"file://{adopted}",)}),
    )
    control.store.save(job)
    kept = {
        adopted,
        put(table, f"data/00000-{run}-a0.parquet"),
        put(table, f"metadata/{run}-c0-m0.avro"),
        put(table, "metadata/tidyberg-expire-7f985b29-0000-4000-8000-000000000009.arrow"),
    }
    lost = put(table, "data/00000-7f985b29-0000-4000-8000-000000000002.parquet")
    result = control.remove_orphans(REF, NOW)
    assert kept <= on_disk(table)
    assert lost not in on_disk(table)
    assert result.plan.kept["of tidyberg's own jobs"] == 4


def test_a_noted_path_of_an_open_run_stays(control: Control, table: Table) -> None:
    run = "7f985b29-0000-4000-8000-000000000001"
    control.store.save(replace(recorded_job(run), status=JobStatus.FAILED, unresolved=True))
    noted, fence = put(table, "metadata/noted.avro"), put(table, "metadata/fence.avro")
    control.store.note_paths(run, [f"file://{noted}"])
    control.store.note_paths(f"{run}/fence", [f"file://{fence}"])
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    assert {noted, fence} <= on_disk(table)


def test_a_file_with_the_name_of_a_referenced_one_stays(warehouse: Warehouse, control: Control, table: Table) -> None:
    """It may be the same file, reached through another path: a mount, a link, an access point."""
    name = paths(warehouse, table)[0].rpartition("/")[2]
    copy = put(table, f"mounted/{name}")
    result = control.remove_orphans(REF, NOW)
    assert result.plan.kept["named like a referenced file"] == 1
    assert copy in on_disk(table)


def test_links_are_not_followed(warehouse: Warehouse, control: Control, table: Table, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.parquet").write_bytes(b"x")
    os.utime(elsewhere / "precious.parquet", (1e9, 1e9))
    (Path(local_path(table.location())) / "data" / "link").symlink_to(elsewhere)
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    assert (elsewhere / "precious.parquet").exists()


def test_a_reference_with_another_authority_is_an_error(warehouse: Warehouse, control: Control, table: Table) -> None:
    path = put(table, "metadata/old.stats")
    odd = f"hdfs://node:8020{path}"

    def change(document: dict[str, Any]) -> None:
        entry = {"snapshot-id": table.metadata.snapshots[-1].snapshot_id, "statistics-path": odd}
        entry |= {"file-size-in-bytes": 10, "file-footer-size-in-bytes": 4, "blob-metadata": []}
        document.setdefault("statistics", []).append(entry)

    change_metadata(table, change)
    backdate_all(table)
    with pytest.raises(BadInput, match="another scheme or authority"):
        control.remove_orphans(REF, NOW)
    ignored = control.remove_orphans(REF, replace(NOW, prefix_mismatch="ignore"))
    assert ignored.plan.kept["other scheme or authority"] == 1
    assert path in on_disk(table)
    assert control.remove_orphans(REF, replace(NOW, prefix_mismatch="delete")).files.files == 1
    assert path not in on_disk(table)


def test_equal_schemes_and_authorities_are_one_spelling() -> None:
    spellings = observed.Spellings((("s3", "s3a"),), (("b", "b.host:9000"),))
    assert set(spellings.of("s3a://b/t")) == {"/", "s3://b/", "s3a://b/", "s3://b.host:9000/", "s3a://b.host:9000/"}
    assert spellings.of("s3a://b/t")[-1] == "s3a://b/"
    assert spellings.of("gs://b/t") == ("/", "gs://b.host:9000/", "gs://b/")
    assert spellings.of("/tmp/t") == spellings.of("file:///tmp/t") == ("/", "file:/")


# --- shared locations ---


def second_table(warehouse: Warehouse, location: str, name: str = "db.other") -> Table:
    table = warehouse.catalog.create_table(name, SCHEMA, location=location)
    append(warehouse, table, [0, 1], "eu")
    backdate_all(table)
    return table


@pytest.mark.parametrize("below", ["", "/nested", "/data/region=eu"])
def test_two_tables_in_one_location_are_refused(
    warehouse: Warehouse, control: Control, table: Table, below: str
) -> None:
    other = second_table(warehouse, f"{table.location()}{below}")
    rows = warehouse.rows(other)
    for ref, name in ((REF, r"db\.other|table [0-9a-f-]{36}"), (replace(REF, name="other"), "events|table [0-9a-f-]")):
        put(table if ref is REF else other, "data/lost.parquet")
        with pytest.raises(SharedFiles, match=name):
            control.remove_orphans(ref, NOW)
    assert warehouse.rows(other) == rows
    check_intact(warehouse, table)
    check_intact(warehouse, other)


def test_another_tables_data_path_in_this_location_is_refused_by_name(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    """Its metadata lies elsewhere, so only the catalog shows it."""
    other = warehouse.create_table("db.other", SCHEMA, properties={"write.data.path": f"{table.location()}/theirs"})
    append(warehouse, other, [0], "eu")
    backdate_all(table)
    with pytest.raises(SharedFiles, match=r"db\.other in file.*/theirs"):
        control.remove_orphans(REF, NOW)
    assert len(warehouse.rows(other)) == 10


def test_a_table_of_another_catalog_is_found_by_its_metadata(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    other = second_table(warehouse, f"{table.location()}/nested")
    uuid = str(other.metadata.table_uuid)
    with pytest.raises(BadInput, match="was not dropped"):
        control.remove_orphans(REF, replace(NOW, dropped_tables=(uuid,)))
    warehouse.catalog.drop_table("db.other")
    fresh = make_control(warehouse)
    with pytest.raises(SharedFiles, match=uuid):
        fresh.remove_orphans(REF, NOW)
    result = fresh.remove_orphans(REF, replace(NOW, dropped_tables=(uuid,)))
    assert result.files.data_files == 2
    check_intact(warehouse, table)
    fresh.close()


def test_metadata_that_cannot_be_read_is_refused(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    for content in (b"{", b"[]", b'{"format-version": 1}', gzip.compress(b"{")[:-4]):
        put(table, "old/metadata/v1.metadata.json", content=content)
        with pytest.raises(SharedFiles, match="cannot be read"):
            control.remove_orphans(REF, NOW)


def test_the_id_is_found_wherever_it_stands_and_if_compressed(control: Control, table: Table) -> None:
    uuid = str(table.metadata.table_uuid)
    documents = (
        {"format-version": 2, "table-uuid": uuid, "last-updated-ms": 1, "last-column-id": 1},
        {"location": 'file:///"a"', "table-uuid": uuid.upper(), "last-updated-ms": 1},
        {"properties": {"table-uuid": "x"}, "schemas": ["y" * 5000], "table-uuid": uuid, "last-updated-ms": 1},
    )
    for number, document in enumerate(documents):
        put(table, f"metadata/{number}.metadata.json", content=json.dumps(document).encode())
        put(table, f"metadata/{number}.gz.metadata.json", content=gzip.compress(json.dumps(document).encode()))
    assert control.remove_orphans(REF, NOW).files.metadata_files == 6


def test_what_could_not_be_checked_is_reported(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = second_table(warehouse, f"file://{warehouse.directory}/elsewhere")
    Path(local_path(other.metadata_location)).unlink()
    put(table, "data/lost.parquet")
    heard: list[object] = []
    with make_control(warehouse) as control:
        result = control.remove_orphans(REF, NOW, on_event=heard.append)
        assert len(result.plan.not_checked) == 1
        assert "db.other" in result.plan.not_checked[0]
        assert any(isinstance(one, Notice) and "not checked" in one.message for one in heard)

    def fail(*_: Any) -> Any:
        raise OSError("no listing")

    monkeypatch.setattr(warehouse.catalog, "list_namespaces", fail)
    put(table, "data/lost.parquet")
    with make_control(warehouse) as control:
        (said,) = control.remove_orphans(REF, NOW).plan.not_checked
        assert "cannot be listed" in said


def test_nested_locations_of_a_whole_catalog_are_found(warehouse: Warehouse, control: Control, table: Table) -> None:
    second_table(warehouse, f"{table.location()}/nested")
    second_table(warehouse, f"{table.location()}/nested", "db.third")
    second_table(warehouse, f"{table.location()}2", "db.sibling")
    found, shared = control.check_locations()
    assert len(found.tables) == 4
    pairs = {frozenset((str(one.table), str(one.other))) for one in shared}
    assert pairs == {
        frozenset({"db.events", "db.other"}),
        frozenset({"db.events", "db.third"}),
        frozenset({"db.other", "db.third"}),
    }


def test_a_snapshot_without_a_manifest_list_is_refused(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    change_metadata(table, lambda document: document["snapshots"][0].update({"manifest-list": ""}))
    with pytest.raises(Unsupported, match="no manifest list"):
        control.remove_orphans(REF, NOW)


# --- other locations ---


def test_paths_outside_of_the_location_are_looked_at_only_if_named(
    warehouse: Warehouse, control: Control, tmp_path: Path
) -> None:
    outside = f"file://{warehouse.directory}/data-of-events"
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION, properties={"write.data.path": outside})
    append(warehouse, table, [0], "eu")
    backdate_all(table)
    for file in Path(local_path(outside)).rglob("*.parquet"):
        os.utime(file, (1e9, 1e9))
    lost = Path(local_path(outside)) / "lost.parquet"
    lost.write_bytes(b"x")
    os.utime(lost, (1e9, 1e9))
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    with pytest.raises(BadInput, match="is not a location of"):
        control.remove_orphans(REF, replace(NOW, locations=(f"file://{tmp_path}/unrelated",)))
    assert control.remove_orphans(REF, replace(NOW, locations=(outside,))).files.files == 1
    assert not lost.exists()
    assert warehouse.rows(table)


def test_sightings_of_a_location_survive_a_run_on_another(warehouse: Warehouse, control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    control.remove_orphans(REF, OrphanOptions())
    seen_days_ago(table, 1)
    only = replace(OrphanOptions(), locations=(f"{table.location()}/metadata",))
    assert control.remove_orphans(REF, only).outcome == "nothing"
    assert control.remove_orphans(REF, OrphanOptions()).outcome == "deleted"


# --- deletion that is refused, leases ---


def test_files_that_storage_does_not_delete_are_reported_and_the_next_run_deletes_them(
    control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other = put(table, "data/stuck.parquet"), put(table, "data/other.parquet")
    delete = os.unlink

    def refuse(path: str) -> None:
        if path.endswith("stuck.parquet"):
            raise PermissionError("access denied")
        delete(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        result = control.remove_orphans(REF, NOW)
    assert (result.outcome, result.files.files, result.refused) == ("partly", 1, 1)
    assert isinstance(result.failure, AccessDenied)
    assert result.failure.exit_code == 5
    assert stuck in on_disk(table)
    assert other not in on_disk(table)
    seen_days_ago(table, 1)
    assert control.remove_orphans(REF, OrphanOptions()).outcome == "deleted"
    assert stuck not in on_disk(table)


def test_a_table_that_another_job_holds_is_busy(control: Control, table: Table) -> None:
    uuid = str(table.metadata.table_uuid)
    control.store.acquire(uuid, "other", this_process(), now_ms=control.now_ms(), ttl_ms=60_000)
    with pytest.raises(TableBusy):
        control.remove_orphans(REF, NOW)
    assert control.plan_orphans(REF, NOW).verdict == "nothing"


# --- quarantine ---


def quarantine(control: Control) -> OrphanResult:
    return control.remove_orphans(REF, replace(NOW, quarantine=True))


def test_quarantined_files_come_back(warehouse: Warehouse, control: Control, table: Table) -> None:
    lost = {put(table, "data/region=eu/lost.parquet"), put(table, "data/lost.parquet")}
    before = on_disk(table)
    result = quarantine(control)
    assert (result.outcome, result.files.files) == ("quarantined", 2)
    assert on_disk(table) == before - lost
    assert control.remove_orphans(REF, NOW).outcome == "nothing", "quarantined files are no orphans"
    assert result.job is not None
    restored = control.restore_orphans(REF, result.job.job_id[:8])
    assert (restored.outcome, restored.files, restored.bytes) == ("restored", 2, 200)
    assert on_disk(table) == before
    assert control.restore_orphans(REF).outcome == "nothing"
    with pytest.raises(UnknownJob):
        control.restore_orphans(REF, "1234")


def test_a_place_that_is_taken_is_not_overwritten(control: Control, table: Table) -> None:
    lost = put(table, "data/lost.parquet")
    quarantine(control)
    put(table, "data/lost.parquet", content=b"new")
    restored = control.restore_orphans(REF)
    assert (restored.files, restored.already_there) == (0, 1)
    assert Path(lost).read_bytes() == b"new"
    Path(lost).unlink()
    assert control.restore_orphans(REF).files == 1
    assert Path(lost).read_bytes() == b"x" * 100


def test_purge_deletes_what_has_been_in_quarantine_for_long(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    put(table, "data/lost.parquet")
    quarantine(control)
    assert control.purge_orphans(REF, 30 * DAY_MS).outcome == "nothing"
    with pytest.raises(BadInput, match="--job"):
        control.purge_orphans(REF, 0)
    for path in (Path(local_path(table.location())) / "_tidyberg").rglob("record.arrow"):
        os.utime(path, (1e9, 1e9))
    purged = control.purge_orphans(REF, 30 * DAY_MS)
    assert (purged.outcome, purged.files) == ("purged", 1)
    assert not [path for path in warehouse.files_on_disk(table) if "_tidyberg" in path]
    assert control.restore_orphans(REF).outcome == "nothing"


def age_of_records(table: Table, days: float) -> None:
    for path in (Path(local_path(table.location())) / "_tidyberg").rglob("record.arrow"):
        backdate(path, days)


def test_the_time_in_quarantine_is_measured_by_the_clock_of_the_storage(warehouse: Warehouse, table: Table) -> None:
    """This machine's clock is forty days ahead: a run of ten days ago looks fifty days old."""
    put(table, "data/lost.parquet")
    with make_control(warehouse) as control:
        quarantine(control)
    age_of_records(table, 10)
    with make_control(warehouse, now_ms=lambda: Control.now_ms() + 40 * DAY_MS) as control:
        assert control.purge_orphans(REF, 30 * DAY_MS).outcome == "nothing"
    seen = Path(local_path(table.location())) / "_tidyberg" / "orphans-seen.arrow"
    assert not seen.exists(), "what a purge writes to learn the time is removed again"
    age_of_records(table, 31)
    with make_control(warehouse) as control:
        assert control.purge_orphans(REF, 30 * DAY_MS).files == 1


def test_a_purge_keeps_sightings(control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    quarantine(control)
    put(table, "data/other.parquet")
    control.remove_orphans(REF, OrphanOptions())
    seen_days_ago(table, 1)
    control.purge_orphans(REF, 30 * DAY_MS)
    assert control.remove_orphans(REF, OrphanOptions()).outcome == "deleted"


def test_a_purge_deletes_only_what_the_record_names(warehouse: Warehouse, control: Control, table: Table) -> None:
    put(table, "data/lost.parquet")
    result = quarantine(control)
    assert result.quarantine is not None
    foreign = Path(local_path(result.quarantine)) / "files" / "0" / "precious.parquet"
    foreign.write_bytes(b"x")
    age_of_records(table, 31)
    heard: list[object] = []
    purged = control.purge_orphans(REF, 30 * DAY_MS, on_event=heard.append)
    assert (purged.outcome, purged.files) == ("purged", 1)
    assert foreign.exists()
    assert any(isinstance(one, Notice) and "precious.parquet" in one.message for one in heard)
    record = foreign.parents[2] / "record.arrow"
    assert record.exists(), "it explains what the directory is"
    record.write_bytes(b"damaged")
    age_of_records(table, 31)
    with pytest.raises(DamagedFile, match="not a record"):
        control.purge_orphans(REF, 30 * DAY_MS)
    assert foreign.exists()


def test_a_forged_record_of_moved_files_is_refused(control: Control, table: Table, tmp_path: Path) -> None:
    put(table, "data/lost.parquet")
    quarantine(control)
    (record,) = (Path(local_path(table.location())) / "_tidyberg").rglob("record.arrow")
    with pa.ipc.open_file(record.read_bytes()) as reader:
        moved = reader.read_all()
    forged = pa.table([[f"file://{tmp_path}/elsewhere"], moved["moved_to"].to_pylist(), [1]], schema=MOVED)
    with pa.ipc.new_file(record, moved.schema) as writer:
        writer.write_table(forged.replace_schema_metadata(moved.schema.metadata))
    with pytest.raises(DamagedFile, match="outside"):
        control.restore_orphans(REF)
