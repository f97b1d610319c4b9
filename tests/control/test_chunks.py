"""Commits in chunks: each chunk is a snapshot, and a later failure leaves the earlier ones in place."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.control import ONE_BY_ONE, chunks, leftovers, make_control
from tests.builders.engines import OneAtATime, Spoiling
from tests.builders.sales_table import REF, REGIONS, regional
from tidyberg.commit.new_snapshot import last_sequence_number
from tidyberg.control.control import Control
from tidyberg.errors import Cancelled, DamagedFile, EngineError
from tidyberg.execute.engine import AnyResult, CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.job import JobStatus
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import Event, Notice
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

TWO_BY_TWO = PlanOptions(strategy=Strategy.FULL, min_input_files=2, commit_every=2)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=REGIONS)


@pytest.mark.parametrize("verify", list(VerifyMode))
@pytest.mark.parametrize(("options", "commits"), [(ONE_BY_ONE, 5), (TWO_BY_TWO, 3)], ids=["ones", "twos"])
def test_every_chunk_is_a_snapshot_of_its_own(
    warehouse: Warehouse, control: Control, table: Table, options: PlanOptions, commits: int, verify: VerifyMode
) -> None:
    before, start = warehouse.rows(table), last_sequence_number(table.refresh().metadata)

    result = control.compact(REF, options, verify=verify)

    assert (result.outcome, result.groups_committed, result.job.commits) == ("committed", 5, commits)
    assert chunks(table) == [(result.job.job_id, number) for number in range(commits)]
    assert result.snapshot_id == table.metadata.current_snapshot_id
    assert (result.stats.files_before, result.stats.files_after, result.stats.files_compacted) == (20, 5, 20)
    assert warehouse.rows(table) == before
    assert {file.sequence_number for file in warehouse.live_files(table)} == {start}
    assert not leftovers(warehouse, table)
    assert control.compact(REF, options).outcome == "tidy"


def test_a_failure_after_the_first_chunks_leaves_them_and_says_what_is_missing(
    warehouse: Warehouse, table: Table
) -> None:
    before = warehouse.rows(table)

    def fail(number: int) -> None:
        if number == 3:
            raise EngineError("The workers went away.")

    with make_control(warehouse, OneAtATime(fail)) as control:
        result = control.compact(REF, TWO_BY_TWO)
        (job,) = control.history(REF)

    assert (result.outcome, result.groups_committed) == ("partly", 2)
    assert isinstance(result.failure, EngineError)
    assert (job.status, job.error_code, job.unresolved, job.commits) == (JobStatus.SUCCEEDED, "engine", False, 1)
    assert "3 groups were not committed" in job.notes
    assert result.stats.files_compacted == 8
    assert result.stats.files_after == 14
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_a_failure_before_the_first_chunk_is_an_error_and_leaves_no_files(warehouse: Warehouse, table: Table) -> None:
    head = table.refresh().metadata.current_snapshot_id

    def fail(_: int) -> None:
        raise EngineError("The workers went away.")

    with make_control(warehouse, OneAtATime(fail)) as control, pytest.raises(EngineError):
        control.compact(REF, TWO_BY_TWO)
    assert table.refresh().metadata.current_snapshot_id == head
    assert not leftovers(warehouse, table)


def test_a_cancel_between_chunks_keeps_what_is_committed(warehouse: Warehouse, table: Table) -> None:
    before, cancel = warehouse.rows(table), CancelToken()
    with make_control(warehouse, OneAtATime(lambda number: cancel.cancel() if number == 3 else None)) as control:
        with pytest.raises(Cancelled):
            control.compact(REF, ONE_BY_ONE, cancel=cancel)
        (job,) = control.history(REF)
    assert (job.status, job.commits) == (JobStatus.CANCELLED, 3)
    assert job.stats is not None
    assert job.stats.files_compacted == 12
    assert "2 groups were not committed" in job.notes
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_a_damaged_output_of_a_later_chunk_fails_only_that_chunk(warehouse: Warehouse, table: Table) -> None:
    rewritten: list[TaskResult] = []

    def damage_the_third(result: TaskResult) -> TaskResult:
        rewritten.append(result)
        if len(rewritten) == 3:
            open(local_path(result.outputs[0].path), "w").close()
        return result

    before = warehouse.rows(table)
    with make_control(warehouse, Spoiling(damage_the_third, max_parallelism=1)) as control:
        result = control.compact(REF, ONE_BY_ONE)
    assert (result.outcome, result.groups_committed) == ("partly", 2)
    assert isinstance(result.failure, DamagedFile)
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_writers_between_chunks_lose_nothing(warehouse: Warehouse, table: Table) -> None:
    """The head moves by our own commits and by theirs: validation looks at the state."""

    def append(number: int) -> None:
        warehouse.append_files(table, 1, 5, values={"region": REGIONS[number]}, seed=100 + number)

    with make_control(warehouse, OneAtATime(append)) as control:
        result = control.compact(REF, ONE_BY_ONE)
    assert (result.groups_committed, result.job.commits) == (5, 5)
    assert len(warehouse.rows(table)) == 5 * 40 + 4 * 5
    assert not leftovers(warehouse, table)


def test_workers_continue_while_a_chunk_is_committed(warehouse: Warehouse, table: Table) -> None:
    """The first chunk's commit waits for a group of the second to be rewritten: in turn it would wait forever."""
    finished = threading.Semaphore(0)

    def counted(*args: Any) -> AnyResult:
        result = run_task(*args)
        finished.release()
        return result

    waited: list[bool] = []

    def wait_for_two(event: Event) -> None:
        if getattr(event, "message", "").startswith("committing") and not waited:
            waited.append(finished.acquire(timeout=60) and finished.acquire(timeout=60))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidyberg.execute.inline.run_task", counted)
        with make_control(warehouse, InlineEngine(max_parallelism=1)) as control:
            control.compact(REF, ONE_BY_ONE, on_event=wait_for_two)
    assert waited == [True]


def test_warnings_of_workers_are_shown_once_and_noted(warehouse: Warehouse, table: Table) -> None:
    def warn(result: TaskResult) -> TaskResult:
        return replace(result, warnings=("No bloom filters.",))

    events: list[Event] = []
    with make_control(warehouse, Spoiling(warn)) as control:
        result = control.compact(REF, ONE_BY_ONE, on_event=events.append)
    assert [event.message for event in events if isinstance(event, Notice)] == ["No bloom filters."]
    assert "No bloom filters." in result.job.notes
