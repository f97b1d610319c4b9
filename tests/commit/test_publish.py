"""A replace commit: what it writes, what it leaves unchanged, and how it handles concurrent commits."""

from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.expressions import EqualTo
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableRequirement

from tests.builders.finished_groups import commit_all, finish, inventory_of, plan_of, publisher
from tests.builders.sales_table import BY_REGION, SCHEMA, regional
from tidyberg.commit.manifests import write_file
from tidyberg.commit.new_snapshot import last_sequence_number
from tidyberg.errors import Conflict, StorageError, TableReplaced
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import commit_deletes, delete_equal, delete_positions


@pytest.mark.parametrize("format_version", [1, 2])
def test_rows_are_the_same_and_files_are_fewer(warehouse: Warehouse, format_version: int) -> None:
    table = regional(warehouse, format_version=format_version)
    before = warehouse.rows(table)

    commit_all(table)

    assert warehouse.rows(table) == before
    assert inventory_of(table).data_files.num_rows == 2


def test_the_summary_rolls_totals_forward_and_names_the_job(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    parent = table.refresh().current_snapshot()
    assert parent is not None

    committed = commit_all(table)

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.snapshot_id == committed.snapshot_id
    assert snapshot.parent_snapshot_id == parent.snapshot_id
    summary = snapshot.summary
    assert summary.operation is Operation.REPLACE
    assert (summary["added-data-files"], summary["deleted-data-files"]) == ("2", "8")
    assert (summary["total-data-files"], summary["total-records"]) == ("2", "80")
    assert summary["added-records"] == summary["deleted-records"] == "80"
    assert summary["tidyberg.job-id"]


def test_a_commit_says_for_which_table_and_state_it_is(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = regional(warehouse)
    metadata = table.refresh().metadata
    sent: list[tuple[TableRequirement, ...]] = []
    commit = SqlCatalog.commit_table

    def recording(catalog: SqlCatalog, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        sent.append(requirements)
        return commit(catalog, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", recording)
    commit_all(table)

    (requirements,) = sent
    assert AssertTableUUID(uuid=metadata.table_uuid) in requirements
    assert AssertRefSnapshotId(ref="main", snapshot_id=metadata.current_snapshot_id) in requirements


def test_outputs_carry_the_plans_sequence_number_and_the_rest_their_own(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    warehouse.append_files(table, 1, 5, values={"region": "eu"})
    appended = last_sequence_number(table.refresh().metadata)

    commit_all(table, plan)

    files = inventory_of(table).data_files.to_pylist()
    assert sorted(file["sequence_number"] for file in files) == [plan.sequence_number] * 2 + [appended]
    outputs = [file for file in files if file["sequence_number"] == plan.sequence_number]
    assert {file["file_sequence_number"] for file in outputs} == {last_sequence_number(table.refresh().metadata)}
    snapshot, manifests = table.current_snapshot(), inventory_of(table).manifests
    assert snapshot is not None
    lowest = {manifest.manifest_path: manifest.min_sequence_number for manifest in snapshot.manifests(table.io)}
    assert {lowest[manifests[file["manifest"]].path] for file in outputs} == {plan.sequence_number}


def test_entries_of_a_rewritten_manifest_follow_the_spec(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.sales", SCHEMA, BY_REGION)
    warehouse.append_files(table, 2, 10, rows=lambda n: _rows_of(("eu", "us")[n]))
    plan = plan_of(table)
    first = table.refresh().current_snapshot()
    assert first is not None
    publish = publisher(table, plan)

    committed = publish.publish(finish(table, plan.groups[:1], publish.job_id))

    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    entries = {
        entry.status: entry
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    existing, deleted = entries[ManifestEntryStatus.EXISTING], entries[ManifestEntryStatus.DELETED]
    assert (existing.snapshot_id, existing.sequence_number) == (first.snapshot_id, first.sequence_number)
    assert (deleted.snapshot_id, deleted.sequence_number) == (committed.snapshot_id, first.sequence_number)
    assert entries[ManifestEntryStatus.ADDED].snapshot_id == committed.snapshot_id
    touched = [m for m in snapshot.manifests(table.io) if m.deleted_files_count]
    assert [(m.existing_files_count, m.deleted_files_count, m.existing_rows_count) for m in touched] == [(1, 1, 10)]
    assert touched[0].min_sequence_number == first.sequence_number


@pytest.mark.parametrize("format_version", [1, 2])
def test_entries_deleted_before_are_not_carried_over(warehouse: Warehouse, format_version: int) -> None:
    """Neither those of a manifest that is touched again, nor a manifest that has no other entries."""
    table = warehouse.create_table("db.sales", SCHEMA, BY_REGION, format_version=format_version)
    warehouse.append_files(table, 2, 10, rows=lambda n: _rows_of(("eu", "us")[n]))
    for number in (0, 1, 0, 1):
        plan = plan_of(table)
        publish = publisher(table, plan)
        committed = publish.publish(finish(table, plan.groups[number : number + 1], publish.job_id))
        snapshot = table.refresh().current_snapshot()
        assert snapshot is not None
        gone = [
            entry.snapshot_id
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            if entry.status == ManifestEntryStatus.DELETED
        ]
        assert gone == [committed.snapshot_id]


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_commit_that_slips_in_between_reading_and_sending_is_not_lost(
    warehouse: Warehouse, format_version: int
) -> None:
    table = regional(warehouse, format_version=format_version)
    appended = False

    class Overtaken(SqlCatalog):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            nonlocal appended
            if not appended:
                appended = True
                warehouse.append_files(warehouse.catalog.load_table("db.sales"), 1, 10, values={"region": "eu"}, seed=9)
            return super().commit_table(table, requirements, updates)

    before = len(warehouse.rows(table))
    properties = {key: value for key, value in warehouse.properties.items() if key != "type"}
    commit_all(table, catalog=Overtaken(warehouse.name, **properties))
    assert len(warehouse.rows(table)) == before + 10


def test_untouched_manifests_are_carried_over_as_they_are(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    before = {manifest.path for manifest in inventory_of(table).manifests}
    used = {file.manifest for file in plan.groups[0].files}
    publish = publisher(table, plan)

    publish.publish(finish(table, plan.groups[:1], publish.job_id))

    after = {manifest.path for manifest in inventory_of(table).manifests}
    assert before - used <= after


def test_a_table_upgraded_from_v1_gets_entries_with_sequence_number_zero(warehouse: Warehouse) -> None:
    table = regional(warehouse, format_version=1)
    plan = plan_of(table)
    before = warehouse.rows(table)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    publish = publisher(table, plan)

    publish.publish(finish(table, plan.groups[:1], publish.job_id))

    assert warehouse.rows(table) == before
    files = inventory_of(table).data_files.to_pylist()
    assert {file["sequence_number"] for file in files} == {0}


def test_branch_retention_settings_are_kept(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    head = table.refresh().current_snapshot()
    assert head is not None
    with table.manage_snapshots() as manage:
        manage.create_branch(
            head.snapshot_id, "audit", max_ref_age_ms=10**12, max_snapshot_age_ms=10**11, min_snapshots_to_keep=7
        )
    commit_all(table, plan_of(table.refresh(), "audit"))

    refs = table.refresh().metadata.refs
    assert refs["audit"].snapshot_id != head.snapshot_id
    assert (refs["audit"].max_ref_age_ms, refs["audit"].max_snapshot_age_ms, refs["audit"].min_snapshots_to_keep) == (
        10**12,
        10**11,
        7,
    )
    assert refs["main"].snapshot_id == head.snapshot_id


def test_other_branches_and_older_snapshots_read_as_before(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    old = table.refresh().current_snapshot()
    assert old is not None
    before = warehouse.rows(table, snapshot_id=old.snapshot_id)
    commit_all(table)
    assert warehouse.rows(table, snapshot_id=old.snapshot_id) == before


def test_files_appended_meanwhile_stay(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    warehouse.append_files(table, 3, 10, values={"region": "eu"}, seed=99)
    before = warehouse.rows(table)

    commit_all(table, plan)

    assert warehouse.rows(table) == before
    assert inventory_of(table).data_files.num_rows == 5


def test_a_group_whose_files_were_replaced_meanwhile_is_left_out(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    table.delete(EqualTo(term="region", value="eu"))
    before = warehouse.rows(table)

    committed = commit_all(table, plan)

    assert warehouse.rows(table) == before
    assert len(committed.groups) == 1
    assert "no longer in the table" in next(iter(committed.conflicts.values()))


def test_a_group_that_lost_one_of_its_files_meanwhile_is_left_out(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    gone = plan.groups[0].files[0].path
    commit_deletes(table, remove=[gone])
    before = warehouse.rows(table)

    committed = commit_all(table, plan)

    assert committed.groups == (plan.groups[1].group_id,)
    assert gone in committed.conflicts[plan.groups[0].group_id]
    assert warehouse.rows(table) == before


def test_when_every_group_conflicts_nothing_is_committed(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    commit_all(table, plan)
    head = table.refresh().current_snapshot()

    with pytest.raises(Conflict):
        commit_all(table, plan)

    assert table.refresh().current_snapshot() == head


@pytest.mark.parametrize("file_scoped", [True, False])
def test_a_position_delete_that_came_meanwhile_blocks_its_group_only(warehouse: Warehouse, file_scoped: bool) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    hit = plan.groups[0].files[0].path
    delete_positions(table, hit, [0, 3], file_scoped=file_scoped)
    before = warehouse.rows(table)

    committed = commit_all(table, plan)

    assert committed.groups == (plan.groups[1].group_id,)
    assert "deleted meanwhile" in committed.conflicts[plan.groups[0].group_id]
    assert warehouse.rows(table) == before


def test_an_equality_delete_that_came_meanwhile_still_applies_to_the_outputs(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    delete_equal(table, plan.groups[0].files[0].path, {"id": [1, 2]})

    committed = commit_all(table, plan)

    assert not committed.conflicts
    inventory = inventory_of(table)
    delete = inventory.delete_files.to_pylist()[0]
    outputs = [f for f in inventory.data_files.to_pylist() if f["partition"] == delete["partition"]]
    assert outputs
    assert all(file["sequence_number"] < delete["sequence_number"] for file in outputs)


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_a_delete_as_old_as_the_plan_that_the_plan_did_not_see_blocks_its_group(
    warehouse: Warehouse, kind: str
) -> None:
    """As when the branch was moved to another history, and its snapshots were expired."""
    table = regional(warehouse)
    hit = inventory_of(table).data_files["path"][0].as_py()
    if kind == "position":
        delete_positions(table, hit, [0])
    else:
        delete_equal(table, hit, {"id": [1]})
    before = warehouse.rows(table)

    committed = commit_all(table, plan_of(table))  # a plan that names no deletes

    assert len(committed.conflicts) == 1
    assert "did not see" in next(iter(committed.conflicts.values()))
    assert warehouse.rows(table) == before


def test_a_branch_rolled_back_behind_the_plan_is_a_conflict(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    first = table.refresh().metadata.snapshots[1].snapshot_id
    plan = plan_of(table)
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(first)

    with pytest.raises(Conflict, match="rolled back"):
        commit_all(table, plan)


def test_the_plans_snapshot_may_be_expired_before_the_commit(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    assert plan.snapshot_id is not None
    warehouse.append_files(table, 1, 10, values={"region": "eu"})
    table.maintenance.expire_snapshots().by_id(plan.snapshot_id).commit()
    before = warehouse.rows(table)

    commit_all(table.refresh(), plan)

    assert warehouse.rows(table) == before


def test_a_table_dropped_or_created_again_gets_no_commit(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    publish = publisher(table, plan)
    finished = finish(table, plan.groups, publish.job_id)
    warehouse.catalog.drop_table("db.sales")
    with pytest.raises(TableReplaced):
        publish.publish(finished)
    regional(warehouse)
    with pytest.raises(TableReplaced, match="created again"):
        publish.publish(finished)


class Flaky(SqlCatalog):
    """Answers commits as listed: each item is "lost" (succeeds, then an error), "refused" (never arrives) or "ok"."""

    answers: list[str]
    error: Exception

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        answer = self.answers.pop(0) if self.answers else "ok"
        if answer == "refused":
            raise self.error
        response = super().commit_table(table, requirements, updates)
        if answer == "lost":
            raise self.error
        return response


def flaky(warehouse: Warehouse, answers: list[str], error: Exception) -> Catalog:
    catalog = Flaky(warehouse.name, **{key: value for key, value in warehouse.properties.items() if key != "type"})
    catalog.answers, catalog.error = answers, error
    return catalog


def replace_snapshots(table: Table) -> int:
    snapshots = table.refresh().metadata.snapshots
    return len([s for s in snapshots if s.summary is not None and s.summary.operation is Operation.REPLACE])


@pytest.mark.parametrize(
    "error", [CommitStateUnknownException("504"), ConnectionError("reset"), CommitFailedException("409")]
)
@pytest.mark.parametrize("answers", [["lost"], ["refused"], ["refused", "lost"], ["refused", "refused"]])
def test_whatever_the_catalog_answers_a_job_commits_once(
    warehouse: Warehouse, answers: list[str], error: Exception
) -> None:
    table = regional(warehouse)
    before = warehouse.rows(table)
    committed = commit_all(table, catalog=flaky(warehouse, answers, error))
    assert replace_snapshots(table) == 1
    assert warehouse.rows(table) == before
    assert committed.snapshot_id == table.refresh().metadata.current_snapshot_id


def test_a_commit_that_landed_and_was_expired_at_once_is_still_known_by_its_files(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    publish = publisher(table, plan)

    class Expiring(Flaky):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            super(Flaky, self).commit_table(table, requirements, updates)
            other = warehouse.catalog.load_table("db.sales")
            warehouse.append_files(other, 1, 5, values={"region": "us"})
            other.refresh().maintenance.expire_snapshots().by_id(publish.snapshot_id).commit()
            raise CommitFailedException("409 for a commit that had landed")

    properties = {key: value for key, value in warehouse.properties.items() if key != "type"}
    publish.loop.catalog = Expiring(warehouse.name, **properties)

    committed = publish.publish(finish(table, plan.groups, publish.job_id))

    assert committed.groups == tuple(group.group_id for group in plan.groups)
    assert table.refresh().metadata.snapshot_by_id(publish.snapshot_id) is None


def test_metadata_files_are_announced_before_they_exist(warehouse: Warehouse) -> None:
    table = regional(warehouse)
    plan = plan_of(table)
    publish = publisher(table, plan)
    existing = warehouse.files_on_disk(table)

    publish.publish(finish(table, plan.groups, publish.job_id))

    new = {path for path in warehouse.files_on_disk(table) - existing if "/metadata/" in path}
    announced = {path.removeprefix("file://") for path in publish.journal.written}  # type: ignore[attr-defined]
    assert new == announced


def _rows_of(region: str) -> Any:
    import pyarrow as pa

    return pa.table(
        {"id": pa.array(range(10), pa.int64()), "region": [region] * 10, "amount": pa.array(range(10), pa.int32())}
    )


def test_a_manifest_whose_write_failed_gets_another_name(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write may still come late, and its content is not that of the next attempt."""
    table = regional(warehouse)
    names: list[str] = []

    def fail_once(io: FileIO, path: str, content: bytes) -> None:
        names.append(path)
        if len(names) == 1:
            raise StorageError("no answer")
        write_file(io, path, content)

    monkeypatch.setattr("tidyberg.commit.snapshot.write_file", fail_once)
    commit_all(table)
    assert len(names) == len(set(names))
