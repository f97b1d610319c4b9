"""A second attempt at a submission reports the result of the first one, or continues it [I7]."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders import stopping
from tests.builders.control import AT_ONCE, chunks, leftovers, make_control
from tests.builders.engines import OneAtATime
from tests.builders.sales_table import REF, THREE_REGIONS, regional
from tests.builders.stopping import settings_of, stopped
from tidyberg.errors import EngineError, TableBusy
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import JobStatus
from tidyberg.testing import Warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=THREE_REGIONS)


def test_a_run_that_ended_by_itself_is_reported_as_it_ended(warehouse: Warehouse, table: Table) -> None:
    def fail(_: int) -> None:
        raise EngineError("no")

    with make_control(warehouse, OneAtATime(fail)) as control:
        with pytest.raises(EngineError):
            control.compact(REF, AT_ONCE, job_id="first", submission_id="asked")
        first = control.ended_run("first")
        assert first is not None
        assert (first.status, first.submission_id) == (JobStatus.FAILED, "asked")
        assert control.ended_run("never heard of") is None
    with make_control(warehouse) as control:
        result = control.compact(REF, AT_ONCE, job_id="second", submission_id="asked")
        assert control.ended_run("second") == result.job


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["after the commit", "after the swap"])
def test_a_run_that_was_stopped_after_its_commit_is_reported_as_committed(
    warehouse: Warehouse, table: Table, tmp_path: Path, moment: str
) -> None:
    marker = tmp_path / "stopped"
    arguments = (settings_of(warehouse), REF, moment, str(marker), None)
    with stopped(stopping.compact, *arguments, marker=marker), make_control(warehouse) as control:
        (run,) = control.history(REF)
        assert run.status is JobStatus.RUNNING
        settled = control.ended_run(run.job_id)
        assert settled is not None
        assert settled.status is JobStatus.SUCCEEDED
        assert settled.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert [job_id for job_id, _ in chunks(table)] == [run.job_id]
    assert not leftovers(warehouse, table)
    with make_control(warehouse) as control:
        (run,) = control.history(REF)
        assert (run.status, run.unresolved) == (JobStatus.SUCCEEDED, False)


@pytest.mark.slow
def test_a_run_that_was_stopped_before_its_commit_is_continued(
    warehouse: Warehouse, table: Table, tmp_path: Path
) -> None:
    marker, engine = tmp_path / "stopped", OneAtATime()
    arguments = (settings_of(warehouse), REF, "after the lease was checked for the commit", str(marker), None)
    with stopped(stopping.compact, *arguments, marker=marker), make_control(warehouse, engine) as control:
        (run,) = control.history(REF)
        assert control.ended_run(run.job_id) is None
        assert any(path.endswith(".parquet") for path in leftovers(warehouse, table)), "nothing is thrown away"
        assert control.compact(REF, AT_ONCE).outcome == "committed"
        assert engine.rewritten == [], "all its groups were taken over"
    assert not leftovers(warehouse, table)


@pytest.mark.slow
def test_a_run_that_died_between_two_commits_is_continued(warehouse: Warehouse, table: Table, tmp_path: Path) -> None:
    marker = tmp_path / "stopped"
    arguments = (settings_of(warehouse), REF, "between two commits", str(marker), 1)
    with stopped(stopping.compact, *arguments, marker=marker), make_control(warehouse) as control:
        (run,) = control.history(REF)
        assert run.commits == 1
        assert control.ended_run(run.job_id) is None
        assert control.compact(REF, replace(AT_ONCE, commit_every=1)).groups_committed == len(THREE_REGIONS) - 1
    assert len(chunks(table)) == len(THREE_REGIONS)
    assert not leftovers(warehouse, table)


def test_a_live_run_is_not_recovered(warehouse: Warehouse, table: Table) -> None:
    reported: list[object] = []

    def ask(_: int) -> None:
        with make_control(warehouse) as other:
            reported.append(other.ended_run("first"))
            with pytest.raises(TableBusy):
                other.compact(REF, AT_ONCE, cancel=CancelToken())

    with make_control(warehouse, OneAtATime(ask)) as control:
        control.compact(REF, AT_ONCE, job_id="first")
    assert reported == [None] * (len(THREE_REGIONS) - 1)
