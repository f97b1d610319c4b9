"""Rewriting manifests: every entry stays what it is, and they are clustered, right-sized and committed safely."""

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from tests.builders.aged_tables import random_history, set_branch, set_ref
from tests.builders.control import leftovers, make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, compact, paths, rows_of
from tests.builders.manifest_entries import listed, live_entries_of, raw_entries
from tests.seed import SEED
from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit import manifest_publish
from tidyberg.commit.manifests import write_file
from tidyberg.control.control import Control
from tidyberg.errors import BadInput, Conflict, DamagedFile, StorageError, TableBusy, TableReplaced, UnknownReference
from tidyberg.model.expiry import ExpireOptions
from tidyberg.model.job import JobStatus
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.commits import append_data_files
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes

FORCED = ManifestOptions(force=True)


@pytest.fixture
def control(warehouse: Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as made:
        yield made


def many_commits(warehouse: Warehouse, version: int = 2, commits: int = 12, spec: PartitionSpec = BY_REGION) -> Table:
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
    assert (result.outcome, result.created, result.replaced, result.kept, result.entries) == ("rewritten", 1, 12, 0, 12)
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
    assert [summary[name] for name in names] == ["1", "12", "0", "12"]
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
def test_entries_of_random_histories_stay_what_they_are(warehouse: Warehouse, control: Control, version: int) -> None:
    """Appends, deletes of every kind, compactions, branches, changes of schema and spec, in manifests of any size."""
    rng = random.Random(SEED + version)
    table = random_history(warehouse, rng, version)
    branch = rng.choice([name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == "branch"])
    others = {name: live_entries_of(table, name) for name in table.metadata.refs if name != branch}
    before, rows = live_entries_of(table, branch), warehouse.rows(table, branch=branch, lineage=version > 2)
    options = ManifestOptions(branch, target_bytes=rng.choice([1, 4000, None]), ignore_wap_branches=True)
    print(f"seed {SEED}, version {version}: {options}")  # noqa: T201
    result = control.rewrite_manifests(REF, replace(options, force=True))
    assert result.outcome == "rewritten"
    assert live_entries_of(table, branch) == before
    assert warehouse.rows(table, branch=branch, lineage=version > 2) == rows
    assert {name: live_entries_of(table, name) for name in others} == others
    again = control.plan_manifests(REF, options)
    assert (again.verdict, again.created, again.replaced) == ("tidy", 0, 0)


def test_entries_are_clustered_by_partition_and_manifests_have_the_size_that_was_asked_for(
    warehouse: Warehouse, control: Control
) -> None:
    table = many_commits(warehouse, commits=32)
    one = control.plan_manifests(REF, ManifestOptions())
    result = control.rewrite_manifests(REF, ManifestOptions(target_bytes=one.bytes_after // 4 + 1))
    assert result.created == 4
    regions = [{entry[2][102][1000] for entry in raw_entries(table, manifest)} for manifest in listed(table)]
    assert regions == [{"r0"}, {"r1"}, {"r2"}, {"r3"}]
    for manifest, region in zip(listed(table), ("r0", "r1", "r2", "r3"), strict=True):
        (summary,) = manifest.fields[507]
        assert (summary[510], summary[511], summary[509]) == (region.encode(), region.encode(), False)
        assert manifest.fields[516] == min(entry[3] for entry in raw_entries(table, manifest))
    assert (result.plan.scan_before, result.plan.scan_after) == (8.0, 1.0)


def test_the_tables_property_gives_the_size(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=8)
    with table.transaction() as transaction:
        transaction.set_properties({"commit.manifest.target-size-bytes": "1"})
    assert control.rewrite_manifests(REF, FORCED).created == 8
    with table.transaction() as transaction:
        transaction.set_properties({"commit.manifest.target-size-bytes": "8 MB"})
    with pytest.raises(BadInput, match="not a number of bytes"):
        control.plan_manifests(REF, FORCED)


@pytest.mark.parametrize(("fields", "first"), [((), "region"), (("amount",), "amount")])
def test_given_partition_fields_come_first(
    warehouse: Warehouse, control: Control, fields: tuple[str, ...], first: str
) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "region"), PartitionField(3, 1001, IdentityTransform(), "amount")
    )
    table = many_commits(warehouse, commits=6, spec=spec)
    control.rewrite_manifests(REF, ManifestOptions(sort_by=fields, force=True))
    (manifest,) = listed(table)
    number = 1000 if first == "region" else 1001
    values = [entry[2][102][number] for entry in raw_entries(table, manifest)]
    assert values == sorted(values, key=lambda value: (value is not None, value))
    with pytest.raises(BadInput, match="no partition field 'note'"):
        control.plan_manifests(REF, ManifestOptions(sort_by=("note",)))


@pytest.mark.parametrize("version", [2, 3])
def test_delete_manifests_are_rewritten_apart_from_data(warehouse: Warehouse, control: Control, version: int) -> None:
    table = many_commits(warehouse, version, commits=6)
    for path in paths(warehouse, table)[:4]:
        commit_deletes(table, Vectors({path: [1]}) if version > 2 else Positions({path: [1]}, file_scoped=True))
    commit_deletes(table, EqualTo({"id": [31]}, paths(warehouse, table)[3]))
    before, rows = live_entries_of(table), warehouse.rows(table, lineage=version > 2)
    assert len(listed(table)) == 11
    control.rewrite_manifests(REF, FORCED)
    contents = {manifest.content: manifest for manifest in listed(table)}
    assert len(listed(table)) == len(contents) == 2
    check(warehouse, table, before, rows)
    if version > 2:
        assert contents[1].first_row_id is None
        assert all(entry[2][142] is None for entry in raw_entries(table, contents[1]))


def test_a_first_row_id_that_a_writer_gave_a_delete_file_is_dropped(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, 3, commits=2)
    commit_deletes(table, Vectors({paths(warehouse, table)[0]: [1]}))
    give_first_row_id(table, lambda manifest: manifest.content == 1, 77)
    control.rewrite_manifests(REF, FORCED)
    (deletes,) = [manifest for manifest in listed(table) if manifest.content == 1]
    assert deletes.first_row_id is None
    assert [entry[2][142] for entry in raw_entries(table, deletes)] == [None]


def give_first_row_id(table: Table, wanted: Callable[[Any], bool], number: int) -> None:
    """Rewrites the manifest list of the head, as a writer with a fault would have written it."""
    from tidyberg.commit.manifests import manifest_list
    from tidyberg.observe.manifest_list import ListedManifest

    head = table.refresh().current_snapshot()
    assert head is not None
    lines = [ListedManifest({**one.fields, 520: number}) if wanted(one) else one for one in listed(table)]
    content, _ = manifest_list(
        lines,
        snapshot_id=head.snapshot_id,
        parent_id=head.parent_snapshot_id,
        sequence_number=head.sequence_number or 0,
        format_version=3,
        first_row_id=head.first_row_id,
    )
    write_file(table.io, head.manifest_list, content)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_of_deleted_files_are_dropped(warehouse: Warehouse, control: Control, version: int) -> None:
    table = many_commits(warehouse, version, commits=6)
    compact(warehouse)
    deleted = [entry for one in listed(table) for entry in raw_entries(table, one) if entry[0] == 2]
    before, rows = live_entries_of(table), warehouse.rows(table, lineage=version > 2)
    result = control.rewrite_manifests(REF, FORCED)
    assert len(deleted) == result.plan.deleted_entries == 4
    check(warehouse, table, before, rows)
    assert {entry[0] for one in listed(table) for entry in raw_entries(table, one)} == {0}


def test_manifests_of_other_specs_are_kept_apart_and_can_be_left_alone(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=4)
    with table.update_spec() as spec:
        spec.add_field("amount", IdentityTransform(), "amount")
    append(warehouse, table, [4, 5], "r0")
    before, rows = live_entries_of(table), warehouse.rows(table)
    old = [manifest.path for manifest in listed(table) if manifest.spec_id == 0]
    result = control.rewrite_manifests(REF, ManifestOptions(spec_id=1, force=True))
    assert (result.replaced, result.created, result.kept, result.plan.left) == (2, 1, 4, 4)
    assert [manifest.path for manifest in listed(table) if manifest.spec_id == 0] == old
    check(warehouse, table, before, rows)
    control.rewrite_manifests(REF, FORCED)
    assert sorted(manifest.spec_id for manifest in listed(table)) == [0, 1]
    check(warehouse, table, before, rows)
    with pytest.raises(BadInput, match="no partition spec 7"):
        control.plan_manifests(REF, ManifestOptions(spec_id=7))


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 3), (1, 3)])
def test_entries_from_before_an_upgrade_stay_what_they_are(
    warehouse: Warehouse, control: Control, old: int, new: int
) -> None:
    table = many_commits(warehouse, old, commits=4)
    warehouse.upgrade(table, new)
    if new > 2:
        before, rows = live_entries_of(table, row_ids=False), warehouse.rows(table)
        assert next_row_id(table) == 0
        control.rewrite_manifests(REF, FORCED)
        assert live_entries_of(table, row_ids=False) == before
        assert warehouse.rows(table) == rows
        assert next_row_id(table) == 40  # the commit assigns ids to all rows, as every commit after an upgrade does
        before, rows = live_entries_of(table), warehouse.rows(table, lineage=True)
        control.rewrite_manifests(REF, FORCED)
        assert next_row_id(table) == 40
        check(warehouse, table, before, rows)
        return
    before, rows = live_entries_of(table), warehouse.rows(table)
    append(warehouse, table, [7], "r0")
    control.rewrite_manifests(REF, FORCED)
    assert len(listed(table)) == 1
    assert set(before) < set(live_entries_of(table))


KINDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "flag", BooleanType(), required=False),
    NestedField(3, "number", IntegerType(), required=False),
    NestedField(4, "ratio", DoubleType(), required=False),
    NestedField(5, "day", DateType(), required=False),
    NestedField(6, "price", DecimalType(9, 2), required=False),
    NestedField(7, "code", FixedType(3), required=False),
    NestedField(8, "name", StringType(), required=False),
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partitions_of_every_type_are_found_by_their_bounds(
    warehouse: Warehouse, control: Control, version: int
) -> None:
    fields = [
        PartitionField(one.field_id, 998 + one.field_id, IdentityTransform(), one.name) for one in KINDS.fields[1:]
    ]
    table = warehouse.create_table("db.events", KINDS, PartitionSpec(*fields), format_version=version)
    warehouse.append_files(table, 4, 6, files_per_commit=1)
    before = live_entries_of(table)
    bounds = [one.fields[507] for one in listed(table)]
    control.rewrite_manifests(REF, FORCED)
    assert live_entries_of(table) == before
    (manifest,) = listed(table)
    for at, summary in enumerate(manifest.fields[507]):
        assert summary[509] == any(one[at][509] for one in bounds)
        assert summary[510] in [one[at][510] for one in bounds]
        assert summary[511] in [one[at][511] for one in bounds]


def test_manifests_with_uuids_in_their_partitions_are_left_alone(warehouse: Warehouse, control: Control) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "key", UUIDType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "key"))
    table = warehouse.create_table("db.events", schema, spec)
    plain = warehouse.append_files(warehouse.create_table("db.plain", schema), 3, 2)
    for number, task in enumerate(plain.scan().plan_files()):
        task.file[3] = Record(uuid.UUID(int=number))  # its partition
        append_data_files(table, [task.file])
    result = control.rewrite_manifests(REF, FORCED)
    assert (result.outcome, result.plan.left, len(listed(table))) == ("nothing", 3, 3)


def test_a_branch_is_rewritten_and_others_stay(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=4)
    head = table.current_snapshot()
    assert head is not None
    set_branch(table, "wap", head.snapshot_id)
    set_ref(table, "q1", head.snapshot_id)
    before, main = live_entries_of(table, "wap"), [one.path for one in listed(table)]
    control.rewrite_manifests(REF, ManifestOptions("wap", force=True))
    assert live_entries_of(table, "wap") == before
    assert (len(listed(table, "wap")), [one.path for one in listed(table)]) == (1, main)
    with pytest.raises(UnknownReference, match="tag"):
        control.rewrite_manifests(REF, ManifestOptions("q1"))


def test_an_empty_table_and_one_without_snapshots_are_tidy(warehouse: Warehouse, control: Control) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    assert control.rewrite_manifests(REF, FORCED).plan.verdict == "tidy"
    append(warehouse, table, [0], "eu")
    table.delete("id >= 0")
    assert control.rewrite_manifests(REF, FORCED).outcome in ("rewritten", "nothing")
    assert warehouse.rows(table) == []


def test_a_damaged_manifest_is_named_and_nothing_changes(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=4)
    victim = listed(table)[2].path
    with open(local_path(victim), "r+b") as file:
        file.seek(-40, 2)
        file.write(b"\xff" * 20)
    location = table.metadata_location
    with pytest.raises(DamagedFile, match=victim.rpartition("/")[2]):
        control.rewrite_manifests(REF, FORCED)
    assert table.refresh().metadata_location == location
    assert control.recover() == []


@dataclass
class Meddler:
    """Runs something before the first commits of a rewrite are sent."""

    what: list[Callable[[], object]]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.what:
            self.what.pop(0)()
        return send_commit(*arguments, **named)


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *what: monkeypatch.setattr(manifest_publish, "send_commit", Meddler(list(what)))


def test_an_append_meanwhile_is_kept(warehouse: Warehouse, control: Control, meddle: Callable[..., None]) -> None:
    table = many_commits(warehouse, 3, commits=6)
    meddle(lambda: append(warehouse, warehouse.catalog.load_table("db.events"), [90], "r9"))
    before = set(live_entries_of(table))
    result = control.rewrite_manifests(REF, FORCED)
    assert (result.attempts, result.created, result.kept) == (2, 1, 1)
    assert before < set(live_entries_of(table))
    assert len(warehouse.rows(table)) == 70
    check(warehouse, table, live_entries_of(table), warehouse.rows(table, lineage=True))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_delete_meanwhile_is_planned_again_and_stays_deleted(
    warehouse: Warehouse, control: Control, meddle: Callable[..., None], version: int
) -> None:
    table = many_commits(warehouse, version, commits=6)
    meddle(lambda: compact(warehouse, jobs="others.db"))  # removes every file of the plan
    result = control.rewrite_manifests(REF, FORCED)
    assert result.attempts == 2
    rows = warehouse.rows(table, lineage=version > 2)
    assert len(rows) == 60
    assert len(paths(warehouse, table)) == 4
    check(warehouse, table, live_entries_of(table), rows)


def test_a_row_that_is_deleted_meanwhile_stays_deleted(
    warehouse: Warehouse, control: Control, meddle: Callable[..., None]
) -> None:
    table = many_commits(warehouse, 2, commits=6)
    path = paths(warehouse, table)[0]
    meddle(lambda: commit_deletes(warehouse.catalog.load_table("db.events"), Positions({path: [0]})))
    control.rewrite_manifests(REF, FORCED)
    assert len(warehouse.rows(table)) == 59
    check(warehouse, table, live_entries_of(table), warehouse.rows(table))


def test_another_rewrite_meanwhile_leaves_nothing_to_do(
    warehouse: Warehouse, control: Control, meddle: Callable[..., None]
) -> None:
    table = many_commits(warehouse, commits=12)
    before, rows = live_entries_of(table), warehouse.rows(table)

    def other() -> None:
        from tidyberg.record.process import is_alive
        from tidyberg.record.sqlite import SqliteStore

        with make_control(warehouse, store=SqliteStore(warehouse.directory / "others.db", is_alive)) as second:
            second.rewrite_manifests(REF, ManifestOptions())

    meddle(other)
    result = control.rewrite_manifests(REF, ManifestOptions())
    assert (result.outcome, result.plan.verdict) == ("nothing", "tidy")
    check(warehouse, table, before, rows)
    assert not control.history(REF)[0].unresolved


def test_writers_that_never_stop_end_the_job_and_leave_nothing(
    warehouse: Warehouse, meddle: Callable[..., None]
) -> None:
    table = many_commits(warehouse, commits=6)

    def other() -> None:
        delete_one(warehouse)

    meddle(*[other] * 3)
    with make_control(warehouse, replans=2, sleep=lambda _: None) as control:
        with pytest.raises(Conflict, match="keep changing"):
            control.rewrite_manifests(REF, FORCED)
        assert control.recover() == []
        assert control.history(REF)[0].status is JobStatus.FAILED
    assert len(warehouse.rows(table)) == 30
    check(warehouse, table, live_entries_of(table), warehouse.rows(table))


def delete_one(warehouse: Warehouse) -> None:
    """Removes one data file, so that its manifest is rewritten or dropped."""
    table = warehouse.catalog.load_table("db.events")
    first = min(int(row.removeprefix("(").split(",")[0]) for row in warehouse.rows(table))
    table.delete(f"id >= {first} and id < {first + 10}")


def test_a_table_that_is_dropped_meanwhile_is_not_touched(
    warehouse: Warehouse, control: Control, meddle: Callable[..., None]
) -> None:
    many_commits(warehouse, commits=4)

    def drop() -> None:
        warehouse.catalog.drop_table("db.events")

    meddle(drop)
    with pytest.raises(TableReplaced):
        control.rewrite_manifests(REF, FORCED)


def test_storage_that_fails_is_tried_again_under_other_names(
    warehouse: Warehouse, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = many_commits(warehouse, commits=6)
    before, rows = live_entries_of(table), warehouse.rows(table)
    failed: list[str] = []

    def flaky(io: Any, path: str, content: bytes) -> None:
        if len(failed) < 2 and "-m" in path:
            failed.append(path)
            raise StorageError("The disk is full.", hint="Free some space.")
        write_file(io, path, content)

    monkeypatch.setattr("tidyberg.commit.manifest_writing.write_file", flaky)
    assert control.rewrite_manifests(REF, FORCED).outcome == "rewritten"
    assert len(set(failed)) == 2
    assert not {manifest.path for manifest in listed(table)} & set(failed)
    check(warehouse, table, before, rows)


def test_storage_that_stays_away_ends_the_job_and_leaves_nothing(
    warehouse: Warehouse, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = many_commits(warehouse, commits=6)
    before, rows = live_entries_of(table), warehouse.rows(table)

    def failing(io: Any, path: str, content: bytes) -> None:
        write_file(io, path, content)
        raise StorageError("The disk is full.", hint="Free some space.")

    monkeypatch.setattr("tidyberg.commit.manifest_writing.write_file", failing)
    with pytest.raises(StorageError, match="full"):
        control.rewrite_manifests(REF, FORCED)
    check(warehouse, table, before, rows)
    assert control.recover() == []


def test_a_table_that_another_job_holds_is_not_touched(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=4)
    table_uuid = str(table.metadata.table_uuid)
    from tidyberg.record.process import this_process

    control.store.acquire(table_uuid, "other", this_process(), now_ms=control.now_ms(), ttl_ms=60_000)
    with pytest.raises(TableBusy):
        control.rewrite_manifests(REF, FORCED)
    assert len(listed(table)) == 4


def test_a_dry_run_says_what_a_run_does_and_changes_nothing(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse)
    files, location = warehouse.files_on_disk(table), table.metadata_location
    plan = control.plan_manifests(REF, ManifestOptions())
    assert (warehouse.files_on_disk(table), table.refresh().metadata_location) == (files, location)
    assert control.history(REF) == []
    assert plan.verdict == "rewrite"
    assert plan.payback_scans
    assert plan.dollars > 0
    result = control.rewrite_manifests(REF, ManifestOptions())
    assert (result.plan, result.created, result.replaced) == (plan, plan.created, plan.replaced)
    assert abs(result.bytes_written - plan.bytes_after) < 8000  # the header is not part of the estimate


class Killed(BaseException):
    """Stands for the death of the process: nothing may catch it."""


def test_a_rewrite_that_died_after_its_commit_is_found_even_if_its_snapshot_expired(
    warehouse: Warehouse, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = many_commits(warehouse, commits=4)

    def send_and_die(*arguments: Any, **named: Any) -> Any:
        send_commit(*arguments, **named)
        raise Killed

    monkeypatch.setattr(manifest_publish, "send_commit", send_and_die)
    with pytest.raises(Killed):
        control.rewrite_manifests(REF, FORCED)
    append(warehouse, table, [8], "r0")
    before, rows = live_entries_of(table), warehouse.rows(table)
    control.expire(REF, ExpireOptions(older_than_ms=0))
    (said,) = control.recover()
    assert "had committed" in said
    assert control.store.find(table=REF)[1].status is JobStatus.SUCCEEDED
    check(warehouse, table, before, rows)


def ahead(warehouse: Warehouse, table: Table) -> None:
    """A branch that builds on main and waits to be published."""
    head = table.refresh().current_snapshot()
    assert head is not None
    set_branch(table, "wap", head.snapshot_id)
    warehouse.append_files(table, 1, rows=lambda _: rows_of(50, "r0"), branch="wap")


def test_a_branch_that_waits_to_be_published_is_protected(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, commits=4)
    ahead(warehouse, table)
    result = control.rewrite_manifests(REF, FORCED)
    assert (result.outcome, result.plan.verdict, len(listed(table))) == ("nothing", "waiting", 4)
    assert "branch wap is ahead of main" in result.plan.reason
    ignoring = ManifestOptions(force=True, ignore_wap_branches=True)
    assert control.rewrite_manifests(REF, ignoring).outcome == "rewritten"


def test_a_branch_that_waits_since_the_plan_is_protected(
    warehouse: Warehouse, control: Control, meddle: Callable[..., None]
) -> None:
    table = many_commits(warehouse, commits=4)

    def other() -> None:
        append(warehouse, table, [20], "r0")
        ahead(warehouse, table)

    meddle(other)
    with pytest.raises(Conflict, match="branch wap is ahead"):
        control.rewrite_manifests(REF, FORCED)
    assert len(listed(table)) == 5
    check(warehouse, table, live_entries_of(table), warehouse.rows(table))


def test_an_audit_finds_a_rewrite_intact(warehouse: Warehouse, control: Control) -> None:
    table = many_commits(warehouse, 3, commits=4)
    commit_deletes(table, Vectors({paths(warehouse, table)[0]: [1]}))
    control.rewrite_manifests(REF, FORCED)
    (audited,) = control.audit(REF).snapshots
    assert audited.verdict == "intact"
