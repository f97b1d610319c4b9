"""Minor compactions merge deletes, keep the rows and their ids, and rewrite no data file [I1 I3 I4 I5 I8]."""

from dataclasses import replace

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Summary

from tests.builders.control import leftovers, make_control
from tests.builders.engines import Meddling, Spoiling
from tests.builders.events_table import (
    BY_REGION,
    REF,
    ROWS,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    ids,
    make_table,
    options,
    paths,
)
from tidyberg.commit import snapshot
from tidyberg.commit.new_snapshot import last_sequence_number
from tidyberg.errors import Conflict, VerificationFailed
from tidyberg.model.audit import Verdict
from tidyberg.model.options import Strategy, VerifyMode
from tidyberg.model.plan import Rewrite, Skip
from tidyberg.model.report import CompactionResult
from tidyberg.model.task import TaskResult
from tidyberg.testing import LiveFile, Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes, delete_equal, delete_positions

MERGE = options(Strategy.DELETES_ONLY)
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def deletes(warehouse: Warehouse, table: Table) -> list[LiveFile]:
    return [file for file in warehouse.live_files(table) if file.content is not DataFileContent.DATA]


def summary_of(table: Table) -> Summary:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary


def operation_of(table: Table) -> str:
    return str(summary_of(table).operation.value)


def merge(warehouse: Warehouse, table: Table) -> CompactionResult:
    """Merges the deletes of the table, and proves that its rows, their ids and its data files stay."""
    files = data_files(warehouse, table)
    lineage = all(file.first_row_id is not None for file in files)  # the first commit after an upgrade assigns ids
    before = warehouse.rows(table, lineage=lineage)
    result = compact(warehouse, MERGE)
    assert warehouse.rows(table, lineage=lineage) == before
    assert [file.path for file in data_files(warehouse, table)] == [file.path for file in files]
    assert not leftovers(warehouse, table)
    assert compact(warehouse, MERGE).outcome == "tidy", "a second run finds nothing to do [I10]"
    return result


@every_spec
def test_v2_merges_position_deletes_into_one_file_per_data_file(warehouse: Warehouse, spec: PartitionSpec) -> None:
    table = make_table(warehouse, spec)
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Positions({first: [0, 3]}, file_scoped=True), Positions({first: [1], second: [4, 2]}))
    delete_positions(table, first, [3, 9])
    append(warehouse, table, [6], "eu")  # too late for the delete of its partition
    last = paths(warehouse, table)[-1]
    delete_positions(table, last, [5])

    result = merge(warehouse, table)

    assert result.outcome == "committed"
    ours = [file for file in deletes(warehouse, table) if "tidyberg-" in file.path]
    assert {file.referenced_data_file: file.records for file in ours} == {first: 4, second: 2}
    assert len(deletes(warehouse, table)) == 3, "a data file with one delete file of its own is left alone"
    assert operation_of(table) == "replace"


def test_v2_leaves_equality_deletes(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"id": [4, 14]})
    for row in range(3):
        delete_positions(table, first, [row])

    merge(warehouse, table)

    assert sorted((file.content, file.records) for file in deletes(warehouse, table)) == [
        (DataFileContent.POSITION_DELETES, 3),
        (DataFileContent.EQUALITY_DELETES, 2),
    ]


@every_spec
def test_v3_merges_deletes_of_every_kind_into_one_vector_per_data_file(
    warehouse: Warehouse, spec: PartitionSpec
) -> None:
    table = make_table(warehouse, spec)
    first, second, third, fourth, fifth, _ = paths(warehouse, table)
    commit_deletes(table, Positions({first: [0], second: [1, 2]}), Positions({third: [4]}, file_scoped=True))
    delete_equal(table, first, {"id": [5, 15, 16, 999]})
    warehouse.upgrade(table, 3)
    append(warehouse, table, [6], "eu")
    commit_deletes(table, Vectors({fourth: [7], second: [8]}))
    delete_equal(table, fifth, {"amount": [None, 2], "note": ["note-1", "note-2"]})
    append(warehouse, table, [0], "us")  # too late for these keys

    result = merge(warehouse, table)

    found = deletes(warehouse, table)
    assert all(file.is_vector for file in found)
    assert len({file.referenced_data_file for file in found}) == len(found)
    assert {first, second, third, fourth} <= {file.referenced_data_file for file in found}
    assert operation_of(table) == "overwrite"
    assert result.stats.delete_files_after == len(found)
    summary = summary_of(table).additional_properties
    assert int(summary["added-dvs"]) == len(found)
    assert int(summary["removed-equality-delete-files"]) == 2


def test_new_deletes_have_the_sequence_number_of_the_plans_snapshot(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"id": [3]})
    planned = last_sequence_number(table.refresh().metadata)

    merge(warehouse, table)

    assert [file.sequence_number for file in deletes(warehouse, table)] == [planned]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_no_data_file_needs_leave(warehouse: Warehouse, version: int) -> None:
    table = make_table(warehouse, BY_REGION)
    first, second, *_, last = paths(warehouse, table)
    commit_deletes(table, Positions({first: [1]}, file_scoped=True), Positions({last: [0, 1]}))
    delete_equal(table, last, {"id": [41]})
    commit_deletes(table, remove=[path for path in paths(warehouse, table) if path != second])
    if version == 3:
        warehouse.upgrade(table, 3)
    assert len(deletes(warehouse, table)) == 3

    result = merge(warehouse, table)

    assert result.outcome == "committed"
    assert deletes(warehouse, table) == []
    assert operation_of(table) == "replace"


def test_a_global_equality_delete_leaves_only_with_all_partitions(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, 3)
    with table.update_spec() as update:
        update.remove_field("region")
    commit_deletes(table, EqualTo({"amount": [3]}, spec_id=table.spec().spec_id))
    before = warehouse.rows(table)

    some = compact(warehouse, replace(MERGE, where="region = 'eu'"))
    assert some.outcome == "tidy", "it would have to stay for the other partition, and be merged again and again"

    merge(warehouse, table)
    assert warehouse.rows(table) == before
    assert {file.is_vector for file in deletes(warehouse, table)} == {True}


def test_a_limit_takes_all_or_nothing(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    for limit in ({"max_files": 5}, {"max_cost": 0.0}):
        result = compact(warehouse, replace(MERGE, **limit))
        assert result.outcome == "waiting"
    assert len(delete_files(warehouse, table)) == 1
    assert compact(warehouse, replace(MERGE, max_files=6)).outcome == "committed"


def test_deletes_are_merged_in_one_commit_even_if_asked_otherwise(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, 3)
    with table.update_spec() as update:
        update.remove_field("region")
    commit_deletes(table, EqualTo({"amount": [3]}, spec_id=table.spec().spec_id))
    snapshots = len(table.refresh().metadata.snapshots)
    compact(warehouse, replace(MERGE, commit_every=1))
    assert len(table.refresh().metadata.snapshots) == snapshots + 1
    assert all(file.is_vector for file in deletes(warehouse, table))


def test_keys_that_match_no_row_leave_without_a_vector(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"id": [1000, -1]})
    merge(warehouse, table)
    assert deletes(warehouse, table) == []


def test_the_plan_shows_both_prices(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    plan = merge(warehouse, table).plan
    assert plan.keeps_data
    assert plan.full_rewrite is not None
    assert plan.full_rewrite.bytes_written > 0
    assert plan.estimate.dollars < plan.full_rewrite.dollars
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.reason == "merges 1 delete of 6 data files into deletion vectors"


def test_deletes_of_another_file_format_are_left_with_a_reason(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"place.city": ["city-3"]})
    result = compact(warehouse, MERGE)
    assert result.outcome == "refused"
    verdict = result.plan.partitions[0].verdict
    assert isinstance(verdict, Skip)
    assert verdict.code == "delete-keys"


def test_auto_leaves_merged_deletes_until_they_delete_many_rows(warehouse: Warehouse) -> None:
    auto = replace(options(Strategy.AUTO), min_file_size=1, small_file_threshold=1)
    table = make_table(warehouse, format_version=3)
    first = paths(warehouse, table)[0]
    for number in range(4):
        delete_equal(table, first, {"id": [number]})
    merge(warehouse, table)
    assert compact(warehouse, auto).outcome == "tidy", "the new vectors are no reason for a rewrite [I10]"

    commit_deletes(table, Vectors({first: range(ROWS)}))
    before = warehouse.rows(table)
    result = compact(warehouse, auto)
    assert result.outcome == "committed"
    assert not result.plan.keeps_data
    assert warehouse.rows(table) == before


@pytest.mark.parametrize("format_version", [2, 3])
def test_auto_leaves_merged_deletes_after_the_snapshot_that_merged_them_has_expired(
    warehouse: Warehouse, format_version: int
) -> None:
    table = make_table(warehouse, format_version=format_version)
    for path in paths(warehouse, table)[:3]:
        for number in range(2):
            if format_version == 2:
                delete_positions(table, path, [number])
            else:
                delete_equal(table, path, {"id": [10 * number]})
    merge(warehouse, table)
    append(warehouse, table, [7], "eu")
    heads = {ref.snapshot_id for ref in table.refresh().metadata.refs.values()}
    old = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in heads]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    auto = replace(options(Strategy.AUTO), min_file_size=1, small_file_threshold=1)

    assert compact(warehouse, auto).outcome == "tidy"
    assert compact(warehouse, MERGE).outcome == "tidy"


# Races.


def test_new_positions_on_the_same_file_are_a_conflict_and_are_merged_in_a_second_round(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first, second, *_ = paths(warehouse, table)
    for path in (first, second):
        delete_positions(table, path, [0])
        delete_positions(table, path, [1])

    result = compact(warehouse, MERGE, engine=Meddling(lambda: delete_positions(table, first, [7])))

    assert result.outcome == "committed"
    assert ids(warehouse, table) == [i for i in range(60) if i not in (0, 1, 7, 10, 11)]
    assert {file.referenced_data_file: file.records for file in deletes(warehouse, table)} == {first: 3, second: 2}


def test_a_new_vector_on_the_same_file_is_a_conflict(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"id": [3, 13]})

    compact(warehouse, MERGE, engine=Meddling(lambda: commit_deletes(table, Vectors({first: [7]}))))

    assert ids(warehouse, table) == [i for i in range(60) if i not in (3, 7, 13)]
    found = [file.referenced_data_file for file in deletes(warehouse, table) if file.is_vector]
    assert len(found) == len(set(found)), "a data file has one vector"


def test_a_new_equality_delete_and_a_later_append_both_count(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"id": [3]})

    def meddle() -> None:
        delete_equal(table, first, {"id": [14]})
        append(warehouse, table, [1], "eu")

    assert compact(warehouse, MERGE, engine=Meddling(meddle)).outcome == "committed"

    assert ids(warehouse, table) == sorted([*(i for i in range(60) if i not in (3, 14)), *range(10, 20)])
    assert sorted(file.is_vector for file in deletes(warehouse, table)) == [False, True]
    merge(warehouse, table)


def test_an_equality_delete_stays_for_files_that_came_with_an_older_sequence_number(warehouse: Warehouse) -> None:
    """Another compaction commits outputs of an older snapshot, to which the key still applies."""
    table = make_table(warehouse, BY_REGION, 3)
    region_us = paths(warehouse, table)[4]

    def outer() -> None:
        """Runs after the full compaction has rewritten its files, and before it commits."""
        delete_equal(table, region_us, {"id": [41]})
        delete_equal(table, paths(warehouse, table)[0], {"id": [3]})

    expected = [i for i in range(60) if i not in (3, 41)]

    def meddle() -> None:
        compact(warehouse, options(where="region = 'eu'"), engine=Meddling(outer), jobs="other.db")

    delete_equal(table, region_us, {"id": [999]})
    result = compact(warehouse, MERGE, engine=Meddling(meddle))
    assert result.outcome == "committed"
    assert ids(warehouse, table) == expected
    merge(warehouse, table)
    assert ids(warehouse, table) == expected


def test_a_compaction_that_started_earlier_keeps_rows_deleted_by_keys(warehouse: Warehouse) -> None:
    """Its outputs rely on the equality delete, which has become a vector of an input."""
    table = make_table(warehouse, format_version=3)

    def meddle() -> None:
        delete_equal(table, paths(warehouse, table)[0], {"id": [3, 14]})
        compact(warehouse, MERGE, jobs="other.db")

    compact(warehouse, options(), engine=Meddling(meddle))
    assert ids(warehouse, table) == [i for i in range(60) if i not in (3, 14)]


def test_another_minor_compaction_meanwhile_leaves_one_vector_per_file(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    expected = ids(warehouse, table)
    with pytest.raises(Conflict, match="no longer in the table"):
        compact(warehouse, MERGE, engine=Meddling(lambda: compact(warehouse, MERGE, jobs="other.db")))
    assert ids(warehouse, table) == expected
    found = [file.referenced_data_file for file in deletes(warehouse, table)]
    assert len(found) == len(set(found)) == 6
    assert not leftovers(warehouse, table)


def test_an_upgrade_meanwhile_lets_no_position_delete_file_into_v3(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    for row in range(3):
        delete_positions(table, first, [row])

    compact(warehouse, MERGE, engine=Meddling(lambda: warehouse.upgrade(table, 3)))

    assert ids(warehouse, table) == [*range(3, 60)]
    assert [(file.is_vector, file.records) for file in deletes(warehouse, table)] == [(True, 3)]


def test_a_data_file_that_is_gone_is_a_conflict(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION, 3)
    first, *_, last = paths(warehouse, table)
    delete_equal(table, first, {"id": [3]})
    delete_equal(table, last, {"id": [41]})
    compact(warehouse, MERGE, engine=Meddling(lambda: commit_deletes(table, remove=[first])))
    assert ids(warehouse, table) == [i for i in range(10, 60) if i != 41]
    merge(warehouse, table)


def test_a_commit_that_would_change_nothing_is_a_conflict(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another writer had added files meanwhile that need the deletes which nothing needed before."""
    table = make_table(warehouse, format_version=3)
    *others, last = paths(warehouse, table)
    delete_equal(table, last, {"id": [3]})
    commit_deletes(table, remove=[*others, last])
    append(warehouse, table, [6], "eu")
    snapshots = len(table.refresh().metadata.snapshots)
    monkeypatch.setattr(snapshot, "dangling_deletes", lambda parent, *_: parent.delete_files.slice(0, 0))
    with pytest.raises(Conflict, match="cannot leave"):
        compact(warehouse, MERGE)
    assert len(table.refresh().metadata.snapshots) == snapshots
    assert not leftovers(warehouse, table)


# Verification.


def test_verification_notices_wrong_positions(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    before = warehouse.rows(table)

    def spoil(result: TaskResult) -> TaskResult:
        output = result.outputs[0]
        wrong = replace(output.deletes[0], digest="0" * 64)
        return replace(result, outputs=(replace(output, deletes=(wrong, *output.deletes[1:])),))

    with pytest.raises(VerificationFailed, match="other positions"):
        compact(warehouse, MERGE, engine=Spoiling(spoil), verify=VerifyMode.COUNTS)
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


@pytest.mark.parametrize("version", [2, 3])
def test_verification_notices_a_file_whose_deletes_are_missing(warehouse: Warehouse, version: int) -> None:
    table = make_table(warehouse, format_version=version)
    first, second, *_ = paths(warehouse, table)
    for path in (first, second):
        delete_positions(table, path, [0, 1])
        delete_positions(table, path, [1, 2])

    def spoil(result: TaskResult) -> TaskResult:
        """Forgets one data file, consistently, as a worker with a bug would."""
        output = result.outputs[0]
        if version == 2:
            return replace(result, outputs=result.outputs[1:], rows_deleted=3)
        kept = replace(output, deletes=output.deletes[1:], records=3)
        return replace(result, outputs=(kept,), rows_deleted=3)

    with pytest.raises(VerificationFailed):
        compact(warehouse, MERGE, engine=Spoiling(spoil), verify=VerifyMode.FULL)
    assert ids(warehouse, table) == [i for i in range(60) if i % ROWS > 2 or i >= 20]


def test_an_audit_covers_the_overwrite_too(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    merge(warehouse, table)
    assert operation_of(table) == "overwrite"
    with make_control(warehouse) as control:
        (audited,) = control.audit(REF).snapshots
    assert (audited.verdict, audited.lineage_compared) == (Verdict.INTACT, True)
