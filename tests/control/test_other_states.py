"""Metadata files that the catalog does not know: of another catalog, or of commits that never landed [I6]."""

import gzip
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tests.builders.aged_tables import age
from tests.builders.control import make_control
from tests.builders.events_table import REF, SCHEMA, append, compact, make_table, paths
from tests.builders.stray_files import backdate, backdate_all, put
from tidyberg.control.control import Control
from tidyberg.errors import BadInput, DamagedFile, SharedFiles
from tidyberg.model.expiry import ExpireOptions
from tidyberg.model.orphans import OrphanOptions
from tidyberg.model.report import Notice
from tidyberg.observe import unlogged_metadata
from tidyberg.observe.metadata_heads import read_heads
from tidyberg.observe.orphans import OTHER_STATE
from tidyberg.storage.file_io import Storage
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.commits import LabCatalog

NOW = OrphanOptions(now=True)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    made = append(warehouse, warehouse.create_table("db.events", SCHEMA), [0, 1], "eu")
    backdate_all(made)
    return made


@pytest.fixture
def other(warehouse: Warehouse, tmp_path: Path) -> Iterator[Warehouse]:
    """A second catalog over the same files."""
    directory = tmp_path / "other"
    directory.mkdir()
    with Warehouse(directory) as made:
        yield made


def register(other: Warehouse, table: Table) -> Table:
    other.catalog.create_namespace_if_not_exists("db")
    return other.catalog.register_table("db.events", table.refresh().metadata_location)


def check_intact(warehouse: Warehouse, table: Table) -> None:
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)


def abandon_commit(warehouse: Warehouse, table: Table) -> tuple[str, str]:
    """A writer dies between writing its metadata file and the swap. Returns that file and its data file."""
    assert isinstance(warehouse.catalog, LabCatalog)
    before = table.refresh().metadata_location
    known = set(paths(warehouse, table))
    append(warehouse, table, [9], "eu")
    abandoned = table.refresh().metadata_location
    (data,) = set(paths(warehouse, table)) - known
    warehouse.catalog.point_to(table, before)
    table.refresh()
    backdate_all(table)
    return local_path(abandoned), local_path(data)


def test_orphans_of_a_catalog_that_is_behind_another_one_are_refused(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    """The seed of this guard: without it, all files that the other catalog has committed are deleted."""
    theirs = append(other, register(other, table), [2, 3], "eu")
    lost = put(table, "data/lost.parquet")
    backdate_all(table)
    rows = other.rows(theirs)
    with pytest.raises(SharedFiles, match=r"Another catalog has committed to db\.events") as refused:
        control.remove_orphans(REF, NOW)
    assert theirs.refresh().metadata_location.rpartition("/")[2] in str(refused.value.hint)
    with pytest.raises(SharedFiles, match="Another catalog"):
        control.plan_orphans(REF, NOW)
    assert other.rows(theirs) == rows
    check_intact(other, theirs)
    with make_control(other) as of_other:
        assert of_other.remove_orphans(replace(REF, catalog="lab"), NOW).files.files == 1
    assert not Path(lost).exists()
    assert other.rows(theirs) == rows


def test_files_of_a_single_commit_of_another_catalog_are_kept(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    """One commit looks like one that never landed, so nothing is refused, and nothing that it needs goes."""
    theirs = append(other, register(other, table), [2], "eu")
    lost = put(table, "data/lost.parquet")
    backdate_all(table)
    rows = other.rows(theirs)
    result = control.remove_orphans(REF, NOW)
    assert (result.files.files, result.plan.kept[OTHER_STATE]) == (1, 4)
    assert result.plan.other_states == (theirs.refresh().metadata_location,)
    assert not Path(lost).exists()
    check_intact(other, theirs)
    assert other.rows(theirs) == rows


def test_catalogs_that_have_diverged_are_refused_in_both(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    """The other catalog's commits are older than ours, but not older than our log."""
    theirs = append(other, register(other, table), [2, 3], "eu")
    append(warehouse, table, [4, 5], "eu")
    put(table, "data/lost.parquet")
    backdate_all(table)
    with pytest.raises(SharedFiles, match="Another catalog"):
        control.remove_orphans(REF, NOW)
    with make_control(other) as of_other, pytest.raises(SharedFiles, match="Another catalog"):
        of_other.remove_orphans(REF, NOW)
    check_intact(other, theirs)


def test_a_state_is_seen_whose_predecessors_are_deleted(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    theirs = append(other, register(other, table), [2, 3], "eu")
    log = theirs.refresh().metadata.metadata_log
    Path(local_path(log[-1].metadata_file)).unlink()
    put(table, "data/lost.parquet")
    backdate_all(table)
    with pytest.raises(SharedFiles, match="Another catalog"):
        control.remove_orphans(REF, NOW)


def test_metadata_in_a_directory_of_its_own_is_looked_at(
    warehouse: Warehouse, other: Warehouse, control: Control
) -> None:
    elsewhere = f"file://{warehouse.directory}/metadata-of-events"
    made = warehouse.create_table("db.events", SCHEMA, properties={"write.metadata.path": elsewhere})
    append(warehouse, made, [0], "eu")
    theirs = append(other, register(other, made), [1, 2], "eu")
    backdate_all(made)
    put(made, "data/lost.parquet")
    with pytest.raises(SharedFiles, match="Another catalog"):
        control.remove_orphans(REF, NOW)
    only_data = replace(NOW, locations=(f"{made.location()}/data",))
    with pytest.raises(SharedFiles, match="Another catalog"):
        control.remove_orphans(REF, only_data)
    assert len(other.rows(theirs)) == 30


def test_what_a_commit_that_never_landed_left_is_kept_until_it_is_declared_dead(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    metadata, data = abandon_commit(warehouse, table)
    lost = put(table, "data/lost.parquet")
    heard: list[object] = []
    result = control.remove_orphans(REF, NOW, on_event=heard.append)
    assert (result.files.files, result.plan.kept[OTHER_STATE]) == (1, 4)
    assert not Path(lost).exists()
    assert Path(data).exists()
    assert any(isinstance(one, Notice) and metadata in one.message for one in heard)
    name = metadata.rpartition("/")[2]
    for given in (metadata, f"file://{metadata}", name):
        assert control.plan_orphans(REF, replace(NOW, dead_metadata=(given,))).files.files == 4
    result = control.remove_orphans(REF, replace(NOW, dead_metadata=(name,)))
    assert (result.files.metadata_files, result.files.files) == (1, 4)
    assert not Path(data).exists()
    assert not Path(metadata).exists()
    assert control.history(REF)[0].options["dead_metadata"] == [name]
    assert control.remove_orphans(REF, replace(NOW, dead_metadata=(name,))).outcome == "nothing"
    check_intact(warehouse, table)


def test_what_a_commit_that_never_landed_left_goes_once_the_log_is_newer(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    metadata, data = abandon_commit(warehouse, table)
    change_document(metadata, lambda document: document.update({"last-updated-ms": 1_000_000}))
    assert control.remove_orphans(REF, NOW).files.files == 4
    assert not Path(data).exists()
    check_intact(warehouse, table)


def change_document(path: str, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(Path(path).read_text())
    change(document)
    Path(path).write_text(json.dumps(document))
    backdate(path, 10)


def test_declaring_the_newest_file_dead_lets_all_go_that_it_builds_on(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    """The catalog was restored from a backup, and the commits since then are given up."""
    theirs = append(other, register(other, table), [2, 3, 4], "eu")
    backdate_all(table)
    newest = theirs.refresh().metadata_location
    result = control.remove_orphans(REF, replace(NOW, dead_metadata=(newest,)))
    assert (result.files.metadata_files, result.files.data_files) == (3, 3)
    check_intact(warehouse, table)


@pytest.mark.parametrize("logged", [True, False])
def test_a_metadata_file_that_the_table_uses_is_not_dead(
    warehouse: Warehouse, control: Control, table: Table, logged: bool
) -> None:
    used = table.metadata.metadata_log[0].metadata_file if logged else table.metadata_location
    put(table, "data/lost.parquet")
    with pytest.raises(BadInput, match="is not dead"):
        control.remove_orphans(REF, replace(NOW, dead_metadata=(used,)))


def test_compressed_metadata_of_another_catalog_is_read(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table
) -> None:
    theirs = append(other, register(other, table), [2, 3], "eu")
    newest = Path(local_path(theirs.refresh().metadata_location))
    packed = newest.with_name(newest.name.replace(".metadata.json", ".gz.metadata.json"))
    packed.write_bytes(gzip.compress(newest.read_bytes()))
    newest.unlink()
    put(table, "data/lost.parquet")
    backdate_all(table)
    with pytest.raises(SharedFiles, match=r"\.gz\.metadata\.json builds on"):
        control.remove_orphans(REF, NOW)


def test_a_state_that_cannot_be_parsed_is_refused(control: Control, table: Table) -> None:
    document = {"table-uuid": str(table.metadata.table_uuid), "last-updated-ms": 2**50, "format-version": 2}
    put(table, "metadata/00009-x.metadata.json", content=json.dumps(document).encode())
    put(table, "data/lost.parquet")
    with pytest.raises(DamagedFile, match=r"00009-x\.metadata\.json is not a metadata file"):
        control.remove_orphans(REF, NOW)


def test_old_metadata_files_are_not_read_in_full(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with many commits has many of them, and each can have megabytes."""
    document = json.loads(Path(local_path(table.metadata.metadata_log[0].metadata_file)).read_text())
    document = {"location": document["location"], **document, "last-updated-ms": 1_000_000}
    document["properties"] = {"padding": "x" * 20_000}
    directory = Path(local_path(table.location())) / "metadata"
    first = directory / f"00000-{uuid.uuid4()}.metadata.json"
    first.write_text(json.dumps(document))
    for _ in range(999):
        shutil.copy(first, directory / f"00000-{uuid.uuid4()}.metadata.json")
    backdate_all(table)
    read: list[str] = []
    read_all, read_state = Storage.read_all, unlogged_metadata._read_state

    def noted(storage: Any, place: Any) -> bytes:
        read.append(place.location)
        return read_all(storage, place)

    def noted_state(io: FileIO, path: str, check: Callable[[], None]) -> Any:
        read.append(path)
        return read_state(io, path, check)

    monkeypatch.setattr(Storage, "read_all", noted)
    monkeypatch.setattr(unlogged_metadata, "_read_state", noted_state)
    result = control.remove_orphans(REF, NOW)
    assert result.files.metadata_files == 1000
    assert read == []


def test_only_the_newest_of_many_states_is_read_before_the_refusal(
    warehouse: Warehouse, other: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(other, register(other, table), list(range(2, 8)), "eu")
    put(table, "data/lost.parquet")
    backdate_all(table)
    read: list[str] = []
    read_state = unlogged_metadata._read_state

    def noted(io: FileIO, path: str, check: Callable[[], None]) -> Any:
        read.append(path)
        return read_state(io, path, check)

    monkeypatch.setattr(unlogged_metadata, "_read_state", noted)
    with pytest.raises(SharedFiles):
        control.remove_orphans(REF, NOW)
    assert len(read) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_the_head_of_a_file_tells_its_table_and_its_time(table: Table, packed: bool) -> None:
    document = {
        "format-version": 2,
        "table-uuid": "A1",
        "location": 'a "quoted" \\ \u00fc text',
        "last-sequence-number": 34,
        "last-updated-ms": 1602638573590,
        "properties": {"table-uuid": "not this one", "padding": "x" * 5000},
    }
    content = json.dumps(document).encode()
    path = put(table, "a.metadata.json", content=gzip.compress(content) if packed else content)
    (head,) = read_heads(table.io, [f"file://{path}"], lambda: None)
    assert (head.table_uuid, head.last_updated_ms, head.last_sequence_number) == ("a1", 1602638573590, 34)


# --- expire ---


@pytest.fixture
def aged(warehouse: Warehouse) -> Table:
    """Six appends and a compaction: the first six snapshots are old."""
    made = make_table(warehouse)
    compact(warehouse)
    return age(made.refresh(), [10, 9, 8, 7, 6, 5.5, 1])


def test_an_expiry_from_a_catalog_that_is_behind_another_one_is_refused(
    warehouse: Warehouse, other: Warehouse, control: Control, aged: Table
) -> None:
    theirs = append(other, register(other, aged), [7, 8], "eu")
    before = warehouse.files_on_disk(aged)
    for dry_run in (True, False):
        with pytest.raises(SharedFiles, match="Another catalog"):
            control.expire(REF, ExpireOptions(), dry_run=dry_run)
    assert warehouse.files_on_disk(aged) == before
    assert len(aged.refresh().metadata.snapshots) == 7
    check_intact(other, theirs)


def test_an_expiry_keeps_what_a_newer_metadata_file_names(
    warehouse: Warehouse, other: Warehouse, control: Control, aged: Table
) -> None:
    theirs = append(other, register(other, aged), [7], "eu")
    heard: list[object] = []
    result = control.expire(REF, ExpireOptions(), on_event=heard.append)
    assert (result.outcome, result.snapshots_expired, result.files.files) == ("expired", 6, 0)
    assert any(isinstance(one, Notice) and theirs.metadata_location in one.message for one in heard)
    check_intact(other, theirs)
    assert {one.snapshot_id: len(other.rows(theirs, snapshot_id=one.snapshot_id)) for one in theirs.metadata.snapshots}


def test_an_expiry_is_not_held_up_by_a_commit_that_lost(warehouse: Warehouse, control: Control, aged: Table) -> None:
    """It builds on a metadata file that is no longer current, so it can never land."""
    before = aged.metadata_location
    assert isinstance(warehouse.catalog, LabCatalog)
    append(warehouse, aged, [7], "eu")
    warehouse.catalog.point_to(aged, before)
    append(warehouse, aged.refresh(), [8], "eu")
    result = control.expire(REF, ExpireOptions())
    assert (result.snapshots_expired, result.files.data_files) == (6, 6)
    check_intact(warehouse, aged.refresh())


def test_an_expiry_without_anything_to_expire_lists_nothing(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("listed")

    monkeypatch.setattr("tidyberg.control.other_states.files_in", fail)
    assert control.expire(REF, ExpireOptions()).outcome == "nothing"


def test_an_expiry_without_the_right_to_list_says_what_was_not_checked(
    warehouse: Warehouse, control: Control, aged: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("no listing")

    monkeypatch.setattr("tidyberg.control.other_states.files_in", refuse)
    heard: list[object] = []
    assert control.expire(REF, ExpireOptions(), on_event=heard.append).snapshots_expired == 6
    assert any(isinstance(one, Notice) and "were not looked for" in one.message for one in heard)
