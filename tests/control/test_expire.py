"""Expiring snapshots: what goes, what stays, and that nothing goes that a retained snapshot needs [I6]."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from tests.builders.aged_tables import (
    DAY_MS,
    add_statistics_files,
    age,
    change_metadata,
    content_on_disk,
    metadata_files,
    random_history,
    set_branch,
    set_ref,
)
from tests.builders.control import leftovers, make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, compact, make_table, paths
from tests.seed import SEED
from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit import expiry as expiry_commit
from tidyberg.commit.ownership import expiry_list_name
from tidyberg.control.control import Control
from tidyberg.errors import BadInput, CatalogUnreachable, Conflict, DamagedFile, StorageError
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.job import JobStatus
from tidyberg.record.documents import JOB
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import Vectors, commit_deletes

ALL = ExpireOptions(older_than_ms=0)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Six appends and a compaction: the first six snapshots are old."""
    made = make_table(warehouse)
    compact(warehouse)
    return age(made.refresh(), [10, 9, 8, 7, 6, 5.5, 1])


def ids_of(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots]


def rows_of_all(warehouse: Warehouse, table: Table) -> dict[int, list[str]]:
    return {number: warehouse.rows(table, snapshot_id=number) for number in ids_of(table)}


def check(warehouse: Warehouse, table: Table, before: dict[int, list[str]]) -> None:
    """Nothing is missing, nothing is left over, and every retained snapshot reads as before."""
    after = rows_of_all(warehouse, table)
    assert after == {number: before[number] for number in after}
    statistics = {
        local_path(one.statistics_path) for one in (*table.metadata.statistics, *table.metadata.partition_statistics)
    }
    referenced = warehouse.referenced_files(table) | statistics
    assert not referenced - warehouse.files_on_disk(table)
    assert not {path for path in leftovers(warehouse, table) - statistics if ".metadata.json" not in path}


def test_old_snapshots_go_with_the_files_that_only_they_need(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    before, replaced = rows_of_all(warehouse, table), len(ids_of(table)) - 1
    result = control.expire(REF, ExpireOptions())
    assert (result.outcome, result.snapshots_expired, len(ids_of(table))) == ("expired", 6, 1)
    assert (result.files.data_files, result.files.manifest_lists) == (6, replaced)
    assert result.files.bytes > 0
    assert result.verified
    check(warehouse, table, before)
    job = control.history(REF)[0]
    assert (job.strategy, job.status, job.unresolved) == ("expire", JobStatus.SUCCEEDED, False)
    assert "6 snapshots expired" in job.notes[-1]


def test_a_second_run_finds_nothing(control: Control, table: Table) -> None:
    control.expire(REF, ExpireOptions())
    location = table.refresh().metadata_location
    assert control.expire(REF, ExpireOptions()).outcome == "nothing"
    assert table.refresh().metadata_location == location


def test_a_dry_run_changes_nothing_and_says_what_a_run_does(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    files, location = warehouse.files_on_disk(table), table.metadata_location
    planned = control.expire(REF, ExpireOptions(), dry_run=True)
    assert (warehouse.files_on_disk(table), table.refresh().metadata_location) == (files, location)
    assert planned.outcome == "planned"
    assert control.history(REF)[0].strategy != "expire"
    done = control.expire(REF, ExpireOptions())
    assert (done.files, done.decision.snapshot_ids) == (planned.files, planned.decision.snapshot_ids)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_retained_snapshot_of_a_random_history_reads_as_before(
    warehouse: Warehouse, control: Control, version: int
) -> None:
    rng = random.Random(SEED + version)
    table = random_history(warehouse, rng, version)
    before = rows_of_all(warehouse, table)
    parents = {one.snapshot_id: one.parent_snapshot_id for one in table.metadata.snapshots}
    for clean in (False, True):
        options = ExpireOptions(rng.choice([None, rng.randint(0, 29) * DAY_MS]), clean_metadata=clean)
        result = control.expire(REF, options)
        print(f"seed {SEED}, version {version}: {result.snapshots_expired} expired, {result.files}")  # noqa: T201
        check(warehouse, table, before)
        assert {one.snapshot_id: one.parent_snapshot_id for one in table.metadata.snapshots} == {
            number: parents[number] for number in ids_of(table)
        }


def test_a_tag_keeps_the_files_of_its_snapshot(warehouse: Warehouse, control: Control, table: Table) -> None:
    tagged = ids_of(table)[2]
    set_ref(table, "q1", tagged)
    before = rows_of_all(warehouse, table)
    result = control.expire(REF, ExpireOptions())
    assert result.decision.retained[tagged] == ("tag q1",)
    assert (result.snapshots_expired, result.files.data_files) == (5, 3)
    check(warehouse, table, before)


def test_a_puffin_file_stays_while_one_of_its_vectors_is_live(warehouse: Warehouse, control: Control) -> None:
    table = make_table(warehouse, format_version=3)
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Vectors({first: [1], second: [2]}))
    puffin = {path for path in warehouse.files_on_disk(table) if path.endswith(".puffin")}
    commit_deletes(table, Vectors({first: [3]}))  # replaces one of the two vectors
    before = rows_of_all(warehouse, table)
    control.expire(REF, ALL)
    assert len(puffin) == 1
    assert puffin <= warehouse.files_on_disk(table)
    check(warehouse, table, before)


@pytest.mark.parametrize("by_partition", [False, True])
def test_statistics_of_expired_snapshots_go_unless_a_retained_one_uses_the_file(
    control: Control, table: Table, by_partition: bool
) -> None:
    numbers = ids_of(table)
    own = add_statistics_files(table, numbers[:1], by_partition=by_partition)
    shared = add_statistics_files(table, [numbers[1], numbers[-1]], by_partition=by_partition)
    result = control.expire(REF, ExpireOptions())
    metadata = table.refresh().metadata
    found = metadata.partition_statistics if by_partition else metadata.statistics
    assert [(one.snapshot_id, one.statistics_path) for one in found] == [(numbers[-1], shared)]
    assert result.files.statistics_files == 1
    assert not Path(local_path(own)).exists()
    assert Path(local_path(shared)).exists()


def test_unused_schemas_and_specs_go_only_when_asked(warehouse: Warehouse, control: Control) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    append(warehouse, table, [0], "eu")
    for name in ("a", "b"):
        with table.update_spec() as spec:
            spec.remove_field("region") if name == "a" else spec.add_identity("region")
        with table.update_schema() as schema:
            schema.add_column(name, IntegerType())
        append(warehouse, table, [1], "eu")
    age(table, [30, 20, 10])
    assert control.expire(REF, ExpireOptions(verify=False)).schemas_removed == ()
    assert (len(table.refresh().metadata.schemas), len(table.metadata.partition_specs)) == (3, 2)
    result = control.expire(REF, ExpireOptions(clean_metadata=True))
    metadata = table.refresh().metadata
    assert result.outcome == "expired"
    assert [one.schema_id for one in metadata.schemas] == [metadata.current_schema_id]
    assert len(metadata.partition_specs) == 2 - len(result.specs_removed)
    assert len(warehouse.rows(table)) == 30


def test_a_table_whose_files_others_may_share_is_refused(warehouse: Warehouse, control: Control, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    files = warehouse.files_on_disk(table)
    with pytest.raises(BadInput, match=r"gc\.enabled=false"):
        control.expire(REF, ALL)
    assert warehouse.files_on_disk(table) == files


def test_a_snapshot_that_a_tag_or_branch_points_to_cannot_be_named(control: Control, table: Table) -> None:
    set_ref(table, "q1", ids_of(table)[0])
    with pytest.raises(BadInput, match="tag q1 points to it"):
        control.expire(REF, ExpireOptions(snapshot_ids=(ids_of(table)[0],)))
    with pytest.raises(BadInput, match="branch main points to it"):
        control.expire(REF, ExpireOptions(snapshot_ids=(ids_of(table)[-1],)))
    with pytest.raises(BadInput, match="There is no snapshot 5 among"):
        control.expire(REF, ExpireOptions(snapshot_ids=(5,)))
    assert len(ids_of(table)) == 7


def test_a_ref_to_a_missing_snapshot_is_reported(control: Control, table: Table) -> None:
    """PyIceberg cannot remove it. REST servers do."""
    lost = {"snapshot-id": 99, "type": "tag"}
    change_metadata(table, lambda document: document["refs"].update(lost=lost))
    notices: list[Any] = []
    result = control.expire(REF, ExpireOptions(), on_event=notices.append)
    assert (result.snapshots_expired, result.decision.refs) == (6, ())
    assert any("tag lost points to snapshot 99" in getattr(event, "message", "") for event in notices)


def test_refs_that_are_too_old_go_and_their_snapshots_may_stay(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    numbers, before = ids_of(table), rows_of_all(warehouse, table)
    set_ref(table, "old", numbers[-1], {"max_ref_age_ms": 1})
    result = control.expire(REF, ExpireOptions(30 * DAY_MS))
    assert ([ref.name for ref in result.decision.refs], result.snapshots_expired) == (["old"], 0)
    assert (result.outcome, set(table.refresh().metadata.refs), result.files.files) == ("expired", {"main"}, 0)
    assert ids_of(table) == numbers
    check(warehouse, table, before)


def test_files_outside_of_the_tables_locations_stay(
    warehouse: Warehouse, control: Control, table: Table, tmp_path: Path
) -> None:
    """Another table may have added them too."""
    elsewhere = f"file://{tmp_path}/elsewhere"
    change_metadata(table, lambda document: document.update(location=elsewhere))
    files = set(warehouse.directory.rglob("*.parquet"))
    result = control.expire(REF, ExpireOptions())
    assert result.snapshots_expired == 6
    assert (result.files.files, result.outside) == (0, 6 + 6 + 6)
    assert result.first_outside is not None
    assert set(warehouse.directory.rglob("*.parquet")) == files


@pytest.mark.parametrize(
    "spell",
    [
        lambda path: path.replace("file:///", "file:/"),
        lambda path: path.replace("file://", ""),
        lambda path: path.replace("/data/", "//data/"),
        lambda path: path.replace("/data/", "/./data/"),
        lambda path: path.replace("/data/", "/x/../data/"),
        lambda path: path.replace("/data/", "/%64ata/"),
        lambda path: path.replace("file:///", "file://localhost/"),
    ],
    ids=["one slash", "no scheme", "two slashes", "dot", "dots", "percent", "host"],
)
def test_a_file_that_a_retained_snapshot_spells_differently_stays(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch, spell: Any
) -> None:
    """As tools that copy or import tables do."""
    from tidyberg.observe import reachable

    whole, before = reachable.live_entries, content_on_disk(warehouse, table)

    def respelled(io: Any, manifests: Any, check: Any, skip: Any = None, remote: Any = None) -> Iterator[Any]:
        import pyarrow as pa

        for piece in whole(io, manifests, check, skip, remote):
            if skip is None:  # of retained snapshots
                paths = pa.array([spell(path) for path in piece["path"].to_pylist()], pa.large_string())
                piece = piece.set_column(0, "path", paths)
            yield piece

    set_ref(table, "q1", ids_of(table)[5])  # needs all six files, which only it spells differently
    monkeypatch.setattr(reachable, "live_entries", respelled)
    shared = reachable.ReachedManifests.add

    def apart(self: Any, snapshots: Any, skip: Any = None) -> None:
        shared(self, snapshots, skip)
        if skip is None:  # as if the retained snapshot had manifests of its own
            self.manifests = {f"{key}#": info for key, info in self.manifests.items()}

    monkeypatch.setattr(reachable.ReachedManifests, "add", apart)
    result = control.expire(REF, ExpireOptions(verify=False))
    assert result.snapshots_expired == 5
    gone = before - content_on_disk(warehouse, table)
    assert not [path for path in gone if path.endswith(".parquet")]


def test_a_missing_manifest_of_an_expired_snapshot_is_reported_and_the_rest_goes(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    oldest = table.metadata.snapshots[0]
    Path(local_path(oldest.manifest_list)).unlink()
    notices: list[Any] = []
    result = control.expire(REF, ExpireOptions(), on_event=notices.append)
    assert result.snapshots_expired == 6
    assert any("left in storage" in getattr(event, "message", "") for event in notices)
    assert len(warehouse.rows(table)) == 60


def test_a_missing_manifest_of_a_retained_snapshot_ends_it_before_anything_changes(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    current = table.current_snapshot()
    assert current is not None
    Path(local_path(current.manifests(table.io)[0].manifest_path)).unlink()
    files, location = warehouse.files_on_disk(table), table.metadata_location
    with pytest.raises(DamagedFile):
        control.expire(REF, ExpireOptions())
    assert (warehouse.files_on_disk(table), table.refresh().metadata_location) == (files, location)


def test_missing_files_of_retained_snapshots_are_found(warehouse: Warehouse, control: Control, table: Table) -> None:
    gone = paths(warehouse, table)[0]
    Path(local_path(gone)).unlink()
    result = control.expire(REF, ExpireOptions())
    assert isinstance(result.failure, DamagedFile)
    assert gone in result.failure.message
    assert result.outcome == "expired"


class Meddled:
    """Lets another process change the table right before the first commit is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meddle: Any) -> None:
        self.calls = 0
        send = send_commit

        def meddled(catalog: Catalog, *arguments: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                meddle()
            return send(catalog, *arguments, **named)

        monkeypatch.setattr(expiry_commit, "send_commit", meddled)


def test_a_rollback_between_decision_and_commit_keeps_its_snapshot(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, before = ids_of(table), rows_of_all(warehouse, table)
    meddled = Meddled(monkeypatch, lambda: set_branch(warehouse.catalog.load_table("db.events"), "main", numbers[3]))
    result = control.expire(REF, ExpireOptions())
    assert meddled.calls == 2
    assert numbers[3] in ids_of(table)
    assert numbers[3] not in result.decision.snapshot_ids
    check(warehouse, table, before)
    assert len(metadata_files(warehouse, table)) == len(table.metadata.metadata_log) + 1


def test_a_tag_that_is_created_between_decision_and_commit_keeps_its_snapshot(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, before = ids_of(table), rows_of_all(warehouse, table)
    meddled = Meddled(monkeypatch, lambda: set_ref(warehouse.catalog.load_table("db.events"), "new", numbers[1]))
    result = control.expire(REF, ExpireOptions())
    assert meddled.calls == 2
    assert (result.snapshots_expired, "new" in table.refresh().metadata.refs) == (5, True)
    check(warehouse, table, before)


def test_an_append_between_decision_and_commit_stays(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meddled(monkeypatch, lambda: append(warehouse, warehouse.catalog.load_table("db.events"), [9], "us"))
    result = control.expire(REF, ExpireOptions())
    assert result.snapshots_expired == 6
    assert len(warehouse.rows(table)) == 70
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)


def test_a_snapshot_that_is_published_between_commit_and_deletion_keeps_its_files(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that had loaded the table before can still commit files of a snapshot that has just expired."""
    from pyiceberg.table.snapshots import Operation

    from tidyberg.testing.commits import commit_manifests, manifests_of

    stale = warehouse.catalog.load_table("db.events")
    set_branch(stale, "old", ids_of(stale)[5])
    lines = manifests_of(stale, "old")
    change_metadata(stale, lambda document: document["refs"].pop("old"))
    age(stale, [10, 9, 8, 7, 6, 5.5, 1])
    send = send_commit

    def then_publish(*arguments: Any, **named: Any) -> Any:
        response = send(*arguments, **named)
        fresh = warehouse.catalog.load_table("db.events")
        commit_manifests(fresh, lines, fresh.metadata.new_snapshot_id(), Operation.OVERWRITE, {})
        return response

    monkeypatch.setattr(expiry_commit, "send_commit", then_publish)
    result = control.expire(REF, ExpireOptions())
    assert result.snapshots_expired == 6
    assert result.files.data_files == 0
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)
    assert len(warehouse.rows(table)) == 60


def test_a_busy_table_is_left_unchanged_and_nothing_remains(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    def busy(*arguments: Any, **named: Any) -> None:
        raise CommitFailedException("busy")

    monkeypatch.setattr(expiry_commit, "send_commit", busy)
    files = warehouse.files_on_disk(table)
    with make_control(warehouse, sleep=lambda _: None) as control:
        with pytest.raises(Conflict, match="too busy"):
            control.expire(REF, ExpireOptions())
        assert warehouse.files_on_disk(table) == files
        assert control.recover() == []


class Denying(PyArrowFileIO):
    """Refuses to delete files whose name contains one of these words."""

    words: tuple[str, ...] = ()

    def delete(self, location: Any) -> None:
        if any(word in str(location) for word in self.words):
            raise PermissionError(f"Access Denied: {location}")
        super().delete(location)


@pytest.fixture
def denying(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> type[Denying]:
    warehouse.catalog.properties["py-io-impl"] = f"{__name__}.{Denying.__name__}"
    monkeypatch.setattr(Denying, "words", (".parquet",))
    return Denying


def test_files_that_storage_does_not_delete_are_reported_and_the_next_run_deletes_them(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of_all(warehouse, table)
    result = control.expire(REF, ExpireOptions())
    assert (result.outcome, result.refused, result.files.data_files) == ("partly", 6, 0)
    assert result.first_refused is not None
    assert "Access Denied" in result.first_refused
    assert isinstance(result.failure, StorageError)
    assert any(expiry_list_name("")[:15] in path for path in warehouse.files_on_disk(table))
    (said,) = control.recover()
    assert "6 files could not be deleted" in said
    monkeypatch.setattr(denying, "words", ())
    again = control.expire(REF, ExpireOptions())
    assert again.outcome == "nothing"
    assert ["18 files of its list are gone now" in text for text in again.recovered] == [True]
    check(warehouse, table, before)
    assert control.recover() == []


def test_recovery_finishes_what_storage_denied(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of_all(warehouse, table)
    control.expire(REF, ExpireOptions())
    monkeypatch.setattr(denying, "words", ())
    (said,) = control.recover()
    assert "had expired its snapshots; 18 files of its list are gone now" in said
    check(warehouse, table, before)


def left_open(control: Control, warehouse: Warehouse, table: Table) -> ExpiryResult:
    result = control.expire(REF, ExpireOptions())
    assert result.outcome == "partly"
    return result


def test_recovery_deletes_nothing_that_was_published_meanwhile(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list says that a file may go, and a snapshot since then needs it."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    oldest = paths(warehouse, table) and sorted(
        f"file://{path}" for path in warehouse.files_on_disk(table) if path.endswith(".parquet")
    )
    left_open(control, warehouse, table)
    unreferenced = [one for one in oldest if one not in paths(warehouse, table)]
    data_file = parquet_file_to_data_file(table.io, table.metadata, unreferenced[0])
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as added:
        added.append_data_file(data_file)
    monkeypatch.setattr(denying, "words", ())
    (said,) = control.recover()
    assert "17 files of its list are gone now" in said
    assert Path(local_path(unreferenced[0])).exists()
    assert len(warehouse.rows(table)) == 70


def test_a_forged_record_deletes_nothing(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write to the job store cannot make recovery delete a file by naming a list elsewhere."""
    left_open(control, warehouse, table)
    job = control.history(REF)[0]
    assert job.expiry is not None
    elsewhere = warehouse.directory / expiry_list_name(job.job_id)
    Path(local_path(job.expiry.list_path)).rename(elsewhere)
    control.store.save(replace(job, expiry=replace(job.expiry, list_path=f"file://{elsewhere}")))
    files = warehouse.files_on_disk(table)
    monkeypatch.setattr(denying, "words", ())
    (said,) = control.recover()
    assert "left alone" in said
    assert warehouse.files_on_disk(table) == files


def test_a_list_of_another_job_deletes_nothing(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_open(control, warehouse, table)
    job = control.history(REF)[0]
    assert job.expiry is not None
    other = replace(job, job_id="0a0a0a0a-0000-0000-0000-000000000000", created_ms=job.created_ms + 1)
    moved = job.expiry.list_path.replace(job.job_id, other.job_id)
    Path(local_path(job.expiry.list_path)).rename(local_path(moved))
    control.store.save(replace(other, expiry=replace(job.expiry, list_path=moved)))
    files = {path for path in warehouse.files_on_disk(table) if path.endswith(".parquet")}
    monkeypatch.setattr(denying, "words", ())
    said = control.recover()
    assert len(said) == 2
    assert files <= warehouse.files_on_disk(table)


def test_a_list_deletes_nothing_outside_of_the_table(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if somebody with access to the table's metadata directory has written it."""
    import pyarrow as pa

    from tidyberg.control.expiry_list import write_list
    from tidyberg.observe.reachable import FILES

    left_open(control, warehouse, table)
    job = control.history(REF)[0]
    assert job.expiry is not None
    victim = warehouse.directory / "victim.parquet"
    victim.write_bytes(b"of somebody else")
    detour = f"{table.location()}/data/../../../../victim.parquet"
    forged = pa.table([[f"file://{victim}", detour], [0, 0], [1, 1]], schema=FILES)
    write_list(table.io, job.expiry.list_path, forged, job.job_id, job.table_uuid)
    monkeypatch.setattr(denying, "words", ())
    (said,) = control.recover()
    assert "0 files of its list" in said
    assert victim.exists()


def test_a_compaction_finishes_an_expiry_that_was_interrupted(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of_all(warehouse, table)
    left_open(control, warehouse, table)
    monkeypatch.setattr(denying, "words", ())
    compact(warehouse)
    check(warehouse, table, before)
    assert control.recover() == []


def test_an_expiry_that_was_cancelled_while_it_deleted_is_finished_later(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    from tidyberg.errors import Cancelled
    from tidyberg.execute.engine import CancelToken

    before, cancel = rows_of_all(warehouse, table), CancelToken()

    def on_event(event: Any) -> None:
        if getattr(event, "message", "").startswith("deleting"):
            cancel.cancel()

    with pytest.raises(Cancelled):
        control.expire(REF, ExpireOptions(), on_event=on_event, cancel=cancel)
    assert control.history(REF)[0].status is JobStatus.CANCELLED
    (said,) = control.recover()
    assert "had expired its snapshots" in said
    check(warehouse, table, before)


def test_a_job_that_lost_its_table_deletes_nothing_and_the_next_one_does(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped within its commit for so long that another job recovered it. Then its commit landed."""
    before = rows_of_all(warehouse, table)
    send = send_commit
    with make_control(warehouse) as control, make_control(warehouse) as other:
        files = {path for path in warehouse.files_on_disk(table) if path.endswith(".parquet")}

        def stopped(*arguments: Any, **named: Any) -> Any:
            now = control.now_ms() + 3_600_000
            monkeypatch.setattr(other, "now_ms", lambda: now)
            monkeypatch.setattr("tidyberg.record.sqlite.SqliteStore._is_alive", lambda *_: None, raising=False)
            other.store._is_alive = lambda _: None  # type: ignore[attr-defined]
            said = other.recover()
            assert any("nothing was deleted" in text for text in said), said
            return send(*arguments, **named)

        monkeypatch.setattr(expiry_commit, "send_commit", stopped)
        with pytest.raises(Conflict, match="took over"):
            control.expire(REF, ExpireOptions())
        assert len(ids_of(table)) == 1
        assert files <= warehouse.files_on_disk(table)
        (said,) = other.recover()
        assert "had expired its snapshots" in said
        check(warehouse, table, before)


def test_a_catalog_that_is_lost_between_commit_and_deletion_loses_no_file(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, files = rows_of_all(warehouse, table), content_on_disk(warehouse, table)

    def then_gone(*arguments: Any, **named: Any) -> Any:
        response = send_commit(*arguments, **named)
        away.setattr(warehouse.catalog, "load_table", lost)
        return response

    def lost(*_: Any) -> Table:
        raise requests.ConnectionError("the catalog is away")

    with monkeypatch.context() as away:
        away.setattr(expiry_commit, "send_commit", then_gone)
        with pytest.raises(CatalogUnreachable):
            control.expire(REF, ExpireOptions())
    assert files <= content_on_disk(warehouse, table)
    assert len(ids_of(table)) == 1
    (said,) = control.recover()
    assert "had expired its snapshots" in said
    check(warehouse, table, before)


def test_a_commit_after_a_conflict_that_removes_less_is_finished_after_a_crash(
    warehouse: Warehouse, control: Control, table: Table, denying: type[Denying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list was made for six snapshots. After the conflict only some of them expire, and their files are refused."""
    numbers, before = ids_of(table), rows_of_all(warehouse, table)
    Meddled(monkeypatch, lambda: set_ref(warehouse.catalog.load_table("db.events"), "new", numbers[3]))
    result = control.expire(REF, ExpireOptions())
    assert (result.snapshots_expired, result.refused) == (5, 2)
    monkeypatch.setattr(denying, "words", ())
    (said,) = control.recover()
    assert "had expired its snapshots" in said
    check(warehouse, table, before)


def test_records_of_earlier_versions_have_no_expiry(control: Control, table: Table) -> None:
    control.expire(REF, ExpireOptions())
    document = JOB.dump_python(control.history(REF)[0], mode="json")
    assert JOB.validate_python(document).expiry == control.history(REF)[0].expiry
    del document["expiry"]
    assert JOB.validate_python(document).expiry is None
