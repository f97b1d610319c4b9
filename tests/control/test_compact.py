"""A job from end to end on the inline engine: what it does, what it refuses, and what a failure leaves behind."""

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from tests.builders.control import leftovers, make_control
from tests.builders.engines import Meddling, Spoiling
from tests.builders.events_table import REF
from tidyberg.control.control import Control
from tidyberg.errors import (
    Cancelled,
    DamagedFile,
    StalePlan,
    StorageError,
    TableBusy,
    TableReplaced,
    UnknownReference,
    UnknownTable,
    VerificationFailed,
)
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import JobStatus
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import Event, GroupFinished, StageStarted
from tidyberg.model.sizes import MB
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 12, 50, files_per_commit=4)


@pytest.mark.parametrize("verify", list(VerifyMode))
def test_a_compaction_keeps_the_rows_and_leaves_nothing_behind(
    warehouse: Warehouse, control: Control, table: Table, verify: VerifyMode
) -> None:
    before = warehouse.rows(table)
    events: list[Event] = []

    result = control.compact(REF, FULL, verify=verify, on_event=events.append)

    assert result.outcome == "committed"
    assert warehouse.rows(table) == before
    assert (result.stats.files_before, result.stats.files_after, result.stats.files_compacted) == (12, 1, 12)
    assert result.stats.bytes_saved == result.stats.bytes_before - result.stats.bytes_after
    assert result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert not leftovers(warehouse, table)
    assert any(isinstance(event, GroupFinished) for event in events)
    assert next(event.stage for event in events if isinstance(event, StageStarted)).value == "observe"


def test_running_twice_does_nothing_the_second_time(control: Control, table: Table) -> None:
    control.compact(REF, FULL)
    snapshots = len(table.refresh().metadata.snapshots)
    assert control.compact(REF, FULL).outcome == "tidy"
    assert len(table.refresh().metadata.snapshots) == snapshots


def test_jobs_are_recorded_with_their_outcome(control: Control, table: Table) -> None:
    result = control.compact(REF, FULL)
    control.compact(REF, FULL)
    second, first = control.history(REF)
    assert first.job_id == result.job.job_id
    assert first.status is second.status is JobStatus.SUCCEEDED
    assert (first.snapshot_id, second.snapshot_id) == (result.snapshot_id, None)
    assert first.stats == result.stats
    assert first.predicted_seconds is not None
    assert first.task_seconds > 0
    assert first.worker_memory_bytes > 10 * MB, "at least Arrow is loaded"
    assert second.worker_memory_bytes == 0, "nothing ran"


def test_a_plan_is_applied_as_it_was_made(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = control.plan(REF, FULL)
    warehouse.append_files(table, 2, 50, seed=50)
    before = warehouse.rows(table)
    result = control.apply(plan)
    assert result.stats.files_compacted == 12
    assert warehouse.rows(table) == before


def test_a_plan_whose_files_are_gone_is_stale(control: Control, table: Table) -> None:
    plan = control.plan(REF, FULL)
    control.compact(REF, FULL)
    with pytest.raises(StalePlan):
        control.apply(plan)


def test_a_plan_for_a_table_of_the_same_name_is_refused(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = control.plan(REF, FULL)
    warehouse.catalog.drop_table("db.events")
    warehouse.append_files(warehouse.create_table(), 6, 10)
    with pytest.raises(StalePlan, match="another table"):
        control.apply(plan)


def test_unknown_tables_branches_and_tags_are_refused_without_a_trace(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    with pytest.raises(UnknownTable):
        control.compact(replace(REF, name="evnts"), FULL)
    with table.manage_snapshots() as manage:
        manage.create_tag(table.metadata.snapshots[-1].snapshot_id, "v1")
    for branch in ("nope", "v1"):
        with pytest.raises(UnknownReference):
            control.compact(REF, replace(FULL, branch=branch))
    assert not leftovers(warehouse, table)


def test_two_jobs_at_once_on_a_table_are_refused(warehouse: Warehouse, table: Table) -> None:
    def compact_too() -> None:
        with make_control(warehouse) as other, pytest.raises(TableBusy):
            other.compact(REF, FULL)

    with make_control(warehouse, Meddling(compact_too)) as control:
        assert control.compact(REF, FULL).outcome == "committed"


def lose_a_row(result: TaskResult) -> TaskResult:
    return replace(result, rows_written=result.rows_written - 1)


def test_a_result_that_lost_a_row_is_not_committed_and_its_files_are_removed(
    warehouse: Warehouse, table: Table
) -> None:
    head = table.refresh().metadata.current_snapshot_id
    with make_control(warehouse, Spoiling(lose_a_row)) as control:
        with pytest.raises(VerificationFailed):
            control.compact(REF, FULL)
        assert control.history(REF)[0].status is JobStatus.FAILED
    assert table.refresh().metadata.current_snapshot_id == head
    assert not leftovers(warehouse, table)


def test_a_table_dropped_while_the_job_runs_is_a_clear_error(warehouse: Warehouse, table: Table) -> None:
    def drop() -> None:
        warehouse.catalog.drop_table("db.events")

    with make_control(warehouse, Meddling(drop)) as control, pytest.raises(TableReplaced):
        control.compact(REF, FULL)
    assert not {path for path in warehouse.files_on_disk(table) if "tidyberg-" in path}


def test_an_output_that_vanished_before_the_commit_fails_the_job(warehouse: Warehouse, table: Table) -> None:
    def steal(result: TaskResult) -> TaskResult:
        Path(local_path(result.outputs[0].path)).unlink()
        return result

    with make_control(warehouse, Spoiling(steal)) as control, pytest.raises(DamagedFile, match="vanished"):
        control.compact(REF, FULL)
    assert not leftovers(warehouse, table)


def test_a_cancelled_job_removes_what_it_wrote(warehouse: Warehouse, table: Table) -> None:
    cancel = CancelToken()

    with make_control(warehouse, Meddling(cancel.cancel)) as control:
        with pytest.raises(Cancelled):
            control.compact(REF, FULL, cancel=cancel)
        assert control.history(REF)[0].status is JobStatus.CANCELLED
    assert not leftovers(warehouse, table)


def test_a_truncated_input_fails_the_job_by_name_and_changes_nothing(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    path = Path(local_path(next(iter(table.scan().plan_files())).file.file_path))
    path.write_bytes(path.read_bytes()[:-100])
    head = table.refresh().metadata.current_snapshot_id
    with pytest.raises(DamagedFile, match=path.name):
        control.compact(REF, FULL)
    assert table.refresh().metadata.current_snapshot_id == head
    assert not leftovers(warehouse, table)


def test_groups_that_conflict_are_left_and_the_others_commit(warehouse: Warehouse) -> None:
    from tests.builders.sales_table import regional

    table = regional(warehouse)
    ref = TableRef("lab", ("db",), "sales")

    def delete_eu() -> None:
        warehouse.catalog.load_table("db.sales").delete(EqualTo(term="region", value="eu"))

    with make_control(warehouse, Meddling(delete_eu)) as control:
        result = control.compact(ref, FULL)
    assert result.groups_committed == 1
    assert len(result.groups_left) == 1
    assert all("'us'" in row for row in warehouse.rows(table))
    assert not leftovers(warehouse, table)


@pytest.mark.slow
def test_twenty_commits_of_writers_during_one_compaction_lose_nothing(warehouse: Warehouse, table: Table) -> None:
    """The writers commit while groups are rewritten and while our own commit is retried."""
    expected = warehouse.rows(table)
    started = threading.Event()
    errors: list[BaseException] = []
    appended: list[pa.Table] = []

    def write() -> None:
        from tidyberg.testing import sample_rows

        started.wait(30)
        mine = Warehouse(warehouse.directory)
        for number in range(20):
            rows = sample_rows(5, 1000 + number, table.schema(), None)
            for _ in range(50):
                try:
                    mine.catalog.load_table("db.events").append(rows)
                    appended.append(rows)
                    break
                except Exception as error:  # noqa: BLE001  # a lost race is the point: try again
                    last = error
            else:
                errors.append(last)
        mine.close()

    writer = threading.Thread(target=write)
    writer.start()

    with make_control(warehouse, Meddling(started.set)) as control:
        result = control.compact(REF, FULL)
    writer.join()
    assert not errors
    assert result.outcome == "committed"
    assert len(appended) == 20
    rows = warehouse.rows(table)
    assert len(rows) == len(expected) + 100
    assert set(expected) <= set(rows)
    assert not {path for path in leftovers(warehouse, table) if "tidyberg-" in path}


def test_a_storage_failure_while_metadata_is_written_fails_the_job_cleanly(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageError("No space left on device.")

    monkeypatch.setattr("tidyberg.commit.snapshot.write_file", full)
    with make_control(warehouse) as control, pytest.raises(StorageError, match="No space"):
        control.compact(REF, FULL)
    assert not leftovers(warehouse, table)


def test_when_clean_up_also_fails_the_first_error_is_raised_and_recovery_cleans_up(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[str]:
        raise OSError("connection reset")

    with make_control(warehouse, Spoiling(lose_a_row)) as control:
        with monkeypatch.context() as patched:
            patched.setattr("tidyberg.control.uncommitted_files.existing_outputs", broken)
            with pytest.raises(VerificationFailed):
                control.compact(REF, FULL)
        assert control.history(REF)[0].unresolved
        assert leftovers(warehouse, table)
        control.recover()
        assert not control.history(REF)[0].unresolved
    assert not leftovers(warehouse, table)
