"""A job continues a dead one: it reuses finished groups if they are still valid, and only then [I6, I7]."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, ONE_BY_ONE, chunks, leftovers, make_control
from tests.builders.engines import OneAtATime
from tests.builders.interrupted_jobs import go_on, kill
from tests.builders.sales_table import REF, REGIONS, regional
from tidyberg.commit.fence import FenceInDoubtError
from tidyberg.control.control_base import DAY_MS
from tidyberg.model.job import JobStatus
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import Positions, commit_deletes
from tidyberg.testing.warehouse import local_path


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=REGIONS)


@pytest.mark.parametrize("verify", [VerifyMode.COUNTS, VerifyMode.FULL])
def test_only_missing_groups_are_rewritten(warehouse: Warehouse, table: Table, verify: VerifyMode) -> None:
    before = warehouse.rows(table)
    kill(warehouse, verify=verify)
    assert go_on(warehouse, verify=verify) == [3, 4]
    assert warehouse.rows(table) == before
    assert len(warehouse.live_files(table)) == 5
    assert len(chunks(table)) == 1
    assert not leftovers(warehouse, table)


def test_a_continued_job_that_dies_is_continued_too(warehouse: Warehouse, table: Table) -> None:
    before = warehouse.rows(table)
    kill(warehouse, calls=2)
    kill(warehouse, calls=3)  # two taken over, one more finished
    assert go_on(warehouse) == [3, 4]
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


@pytest.mark.parametrize("point", ["_commit_waiting", "conclude"])
def test_chunks_that_were_committed_are_not_done_again(warehouse: Warehouse, table: Table, point: str) -> None:
    before = warehouse.rows(table)
    kill(warehouse, point, 2, ONE_BY_ONE)
    assert len(chunks(table)) == 2
    assert go_on(warehouse, ONE_BY_ONE) == [2, 3, 4] or len(chunks(table)) == 5
    assert len(chunks(table)) == len(set(chunks(table))) == 5
    assert len(warehouse.live_files(table)) == 5
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_recover_removes_outputs_instead_of_continuing(warehouse: Warehouse, table: Table) -> None:
    kill(warehouse)
    assert leftovers(warehouse, table)
    with make_control(warehouse) as control:
        control.recover()
        (job,) = control.history(REF)
        assert (job.status, job.unresolved) == (JobStatus.FAILED, False)
        assert control.store.finished(job.job_id) == []
        assert control.store.plan(job.job_id) is None
    assert not leftovers(warehouse, table)
    assert go_on(warehouse) == [0, 1, 2, 3, 4]


def delete_row(warehouse: Warehouse, table: Table) -> None:
    """Of a file whose group was finished."""
    finished = sorted(path for path in leftovers(warehouse, table) if path.endswith(".parquet"))[0]
    region = Path(finished).parent.name
    file = next(file for file in warehouse.live_files(table) if f"/{region}/" in file.path)
    commit_deletes(table, Positions({file.path: [0]}, file_scoped=True))


def add_column(_: Warehouse, table: Table) -> None:
    from pyiceberg.types import StringType

    with table.update_schema() as update:
        update.add_column("note", StringType())


def lose_output(warehouse: Warehouse, table: Table) -> None:
    Path(sorted(path for path in leftovers(warehouse, table) if path.endswith(".parquet"))[0]).unlink()


def truncate_output(warehouse: Warehouse, table: Table) -> None:
    path = Path(sorted(path for path in leftovers(warehouse, table) if path.endswith(".parquet"))[0])
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("change", "rewritten"),
    [(delete_row, 3), (add_column, 5), (lose_output, 3), (truncate_output, 3)],
    ids=["a row was deleted", "the schema changed", "an output vanished", "an output is damaged"],
)
def test_groups_that_are_no_longer_valid_are_rewritten(
    warehouse: Warehouse, table: Table, change: Callable[[Warehouse, Table], None], rewritten: int
) -> None:
    kill(warehouse)
    change(warehouse, table)
    before = warehouse.rows(table)
    assert len(go_on(warehouse)) == rewritten
    assert warehouse.rows(table) == before
    assert len(warehouse.live_files(table)) == 5
    assert not leftovers(warehouse, table)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (replace(AT_ONCE, target_file_size=10**6), {}),
        (AT_ONCE, {"max_output_age_ms": 0}),
        (AT_ONCE, {"verify": VerifyMode.FULL}),
    ],
    ids=["another request", "too old", "without the checksums that are asked for"],
)
def test_what_does_not_fit_the_request_is_removed(
    warehouse: Warehouse, table: Table, options: PlanOptions, more: dict[str, Any]
) -> None:
    before = warehouse.rows(table)
    kill(warehouse)
    assert len(go_on(warehouse, options, **more)) == 5
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_outputs_of_yesterday_are_not_reused(warehouse: Warehouse, table: Table) -> None:
    import time

    kill(warehouse)
    assert len(go_on(warehouse, now_ms=lambda: time.time_ns() // 1_000_000 + DAY_MS)) == 5
    assert not leftovers(warehouse, table)


def test_when_continuing_fails_no_files_of_either_job_remain(warehouse: Warehouse, table: Table) -> None:
    from tidyberg.errors import EngineError

    def fail(_: int) -> None:
        raise EngineError("The workers went away.")

    kill(warehouse)
    with make_control(warehouse, OneAtATime(fail)) as control, pytest.raises(EngineError):
        control.compact(REF, AT_ONCE)
    assert not leftovers(warehouse, table)


def test_a_job_whose_commit_is_in_doubt_is_not_continued(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was sent, and a catalog server that refuses the fence may still have it."""

    def refuse(*_: object, **__: object) -> None:
        raise FenceInDoubtError("no tags here")

    monkeypatch.setattr("tidyberg.control.recovery.swaps_in_process", lambda _: False)
    monkeypatch.setattr("tidyberg.control.recovery.put_up_fence", refuse)
    before = warehouse.rows(table)
    kill(warehouse, "about_to_commit", 1)
    in_doubt = {path for path in leftovers(warehouse, table) if path.endswith(".parquet")}
    engine = OneAtATime()
    with make_control(warehouse, engine) as control:
        control.compact(REF, AT_ONCE)
        assert len(engine.rewritten) == 5
        first = control.history(REF)[1]
    assert in_doubt.isdisjoint(file.path for file in warehouse.live_files(table))
    assert (first.status, first.unresolved) == (JobStatus.FAILED, False), "settled when the other had committed"
    assert not leftovers(warehouse, table)
    assert warehouse.rows(table) == before


def test_a_commit_that_never_succeeded_is_repeated_with_the_same_outputs(warehouse: Warehouse, table: Table) -> None:
    before = warehouse.rows(table)
    kill(warehouse, "about_to_commit", 1)
    assert go_on(warehouse) == []
    assert all("tidyberg-" in local_path(file.path) for file in warehouse.live_files(table))
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)
