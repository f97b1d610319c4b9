"""Processes stopped for longer than their lease, at every moment that matters, and continued after another had taken
their table over: the table is as it was, committed once, nothing live is deleted and nothing is left [I1, I6, I7]."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders import stopping
from tests.builders.control import AT_ONCE, chunks, fences, leftovers, make_control
from tests.builders.sales_table import REF, THREE_REGIONS, regional
from tests.builders.stopping import settings_of, stopped
from tidyberg.control.control import Control
from tidyberg.testing import Warehouse

CHUNKED = dict.fromkeys(("between two commits", "after the lease was checked for the second commit"), 1)
COMMITTED = ("after the commit", "after the swap", *CHUNKED)  # something, when it is stopped
OF_RECOVERY = ("while a dead job is recovered", "before a dead job's files are removed")
SQL_MOMENTS = [moment for moment in stopping.MOMENTS if moment not in (*OF_RECOVERY, "after the server's answer")]
OF_V3 = ("after the lease was checked for the commit", "between metadata file and swap", "after the swap")
CASES = [(moment, 2) for moment in SQL_MOMENTS] + [(moment, 3) for moment in OF_V3]

TakeOver = Callable[[Control], object]
TAKEOVERS: dict[str, TakeOver] = {
    "gone on with": lambda control: control.compact(REF, AT_ONCE),
    "recovered": lambda control: control.recover(),
}


def assert_harmless(warehouse: Warehouse, table: Table, before: list[str]) -> None:
    assert warehouse.rows(table) == before
    on_disk, referenced = warehouse.files_on_disk(table), warehouse.referenced_files(table)
    assert referenced <= on_disk, "nothing that a snapshot references is ever deleted"
    assert not leftovers(warehouse, table), "nothing is left when both have ended"
    committed = chunks(table)
    assert len(committed) == len(set(committed))
    live = [file.path for file in warehouse.live_files(table)]
    assert len(live) == len(set(live))
    with make_control(warehouse) as control:
        assert all(job.status.is_final and not job.unresolved for job in control.history(limit=100))


@pytest.mark.slow
@pytest.mark.parametrize("takeover", TAKEOVERS.values(), ids=TAKEOVERS)
@pytest.mark.parametrize(("moment", "format_version"), CASES)
def test_a_job_that_is_stopped_and_continued_too_late_does_no_harm(
    warehouse: Warehouse, tmp_path: Path, moment: str, takeover: TakeOver, format_version: int
) -> None:
    table = regional(warehouse, regions=THREE_REGIONS, format_version=format_version)
    before, marker = warehouse.rows(table), tmp_path / "stopped"
    arguments = (settings_of(warehouse), REF, moment, str(marker), CHUNKED.get(moment))
    with stopped(stopping.compact, *arguments, marker=marker) as process:
        with make_control(warehouse) as control:
            takeover(control)
        assert warehouse.rows(table) == before
        assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
        committed = len(chunks(table))
    assert len(chunks(table)) == committed, "who lost its table commits nothing more"
    assert process.exitcode == (0 if moment in COMMITTED else 1), "and says so"
    if takeover is TAKEOVERS["gone on with"]:
        assert len(warehouse.live_files(table)) == len(THREE_REGIONS), "everything is compacted, once"
        assert fences(table) == []
    assert_harmless(warehouse, table, before)


@pytest.mark.slow
@pytest.mark.parametrize("takeover", TAKEOVERS.values(), ids=TAKEOVERS)
@pytest.mark.parametrize("moment", OF_RECOVERY)
def test_a_recovery_that_is_stopped_and_continued_too_late_does_no_harm(
    warehouse: Warehouse, tmp_path: Path, moment: str, takeover: TakeOver
) -> None:
    table = regional(warehouse, regions=THREE_REGIONS)
    before, first, second = warehouse.rows(table), tmp_path / "first", tmp_path / "second"
    job = (settings_of(warehouse), REF, "after the lease was checked for the commit", str(first), None)
    with (
        stopped(stopping.compact, *job, marker=first),
        stopped(stopping.recover, settings_of(warehouse), moment, str(second), marker=second),
    ):
        with make_control(warehouse) as control:
            takeover(control)
        assert warehouse.rows(table) == before
    assert_harmless(warehouse, table, before)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["continued", "killed"])
def test_a_recovery_that_is_stopped_while_it_fences_does_no_harm(
    warehouse: Warehouse, tmp_path: Path, end: str
) -> None:
    """Its swap may come at any time: the metadata file that it wrote must not go before that is ruled out, though the
    job has died since and a fence is needed no more."""
    table = regional(warehouse, regions=THREE_REGIONS)
    before, first, second = warehouse.rows(table), tmp_path / "first", tmp_path / "second"
    job = (settings_of(warehouse), REF, "after the lease was checked for the commit", str(first), None)
    with (
        stopped(stopping.compact, *job, marker=first) as process,
        stopped(
            stopping.recover, settings_of(warehouse), "between metadata file and swap", str(second), marker=second
        ) as recovery,
    ):
        process.kill()
        process.join()
        if end == "killed":
            recovery.kill()
            recovery.join()
        with make_control(warehouse) as control:
            control.recover()
        assert warehouse.rows(table) == before
    assert_harmless(warehouse, table, before)
