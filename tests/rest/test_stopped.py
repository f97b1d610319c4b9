"""Processes are stopped around a commit until they lose their lease, and continue after a takeover [I7]."""

from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders import stopping
from tests.builders.control import AT_ONCE, chunks, fences
from tests.builders.stopping import stopped
from tests.rest.faults import assert_committed_once
from tests.rest.lab import RestLab

pytestmark = pytest.mark.slow

CHECKED = "after the lease was checked for the commit"
ANSWERED = "after the server's answer"


def table_of(lab: RestLab, format_version: int) -> Table:
    table = lab.untidy_table(format_version=min(format_version, 2))
    return lab.upgrade(table, 3) if format_version == 3 else table


@pytest.mark.parametrize("format_version", [1, 2, 3])
@pytest.mark.parametrize("moment", [CHECKED, ANSWERED])
def test_a_stopped_job_that_another_continued_commits_nothing_when_it_wakes_up(
    lab: RestLab, tmp_path: Path, moment: str, format_version: int
) -> None:
    table, marker = table_of(lab, format_version), tmp_path / "stopped"
    before = lab.rows(table)
    with stopped(stopping.compact, lab.settings(), lab.ref, moment, str(marker), None, marker=marker):
        with lab.control() as control:
            outcome = control.compact(lab.ref, AT_ONCE).outcome
        assert outcome == ("tidy" if moment == ANSWERED else "committed")
        assert_committed_once(lab, table, before)
    assert_committed_once(lab, table, before)
    assert bool(fences(table)) is (format_version == 1 and moment == CHECKED)


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_job_that_was_recovered_is_refused_by_the_server_when_it_continues(
    lab: RestLab, tmp_path: Path, format_version: int
) -> None:
    """The head is where it was, its outputs are gone, and it does not look at its lease again before it sends."""
    table, marker = table_of(lab, format_version), tmp_path / "stopped"
    before = lab.rows(table)
    with stopped(stopping.compact, lab.settings(), lab.ref, CHECKED, str(marker), None, marker=marker):
        with lab.control() as control:
            (said,) = control.recover()
        assert "had not committed" in said
        assert not lab.leftovers(table)
        assert len(fences(table)) == 1
    assert chunks(table) == []
    assert lab.rows(table) == before
    assert not lab.missing(table)
    assert not lab.leftovers(table)
    with lab.control() as control:
        assert all(job.status.is_final and not job.unresolved for job in control.history(lab.ref))
        assert control.compact(lab.ref, AT_ONCE).outcome == "committed"
    assert_committed_once(lab, table, before)
