"""`tidyberg compact --expire-snapshots`: what is printed, and the exit code."""

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.aged_tables import age
from tests.builders.console import Run
from tidyberg.testing import Warehouse

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Three snapshots, of which two are older than five days."""
    table = warehouse.catalog.load_table(NAME)
    warehouse.append_files(table, 2, 10, files_per_commit=1)
    return age(table, [20, 10, 1])


def test_it_says_how_many_snapshots_expired(run: Run, table: Table) -> None:
    ran = run("compact", NAME, "--expire-snapshots")
    assert ran.status == 0, ran.err
    assert "snapshots: 2 snapshots expired" in ran.out
    assert len(table.refresh().metadata.snapshots) == 2
    assert "snapshots: none is old enough" in run("compact", NAME, "--expire-snapshots").out


def test_a_tidy_table_whose_snapshots_expired_was_changed(run: Run, table: Table) -> None:
    assert run("compact", NAME).status == 0
    arguments = ("compact", NAME, "--expire-snapshots", "--snapshot-retention-hours", "360", "--detailed-exitcode")
    ran = run(*arguments, "--json")
    assert (ran.status, ran.json["outcome"], ran.json["compacted"]) == (0, "tidy", False)
    assert ran.json["stats"]["snapshots_expired"] == 1
    assert ran.json["job"]["expired"]["snapshots_expired"] == 1
    assert run(*arguments).status == 3, "now there is nothing left to do"


def test_the_next_command_keeps_what_was_said_about_snapshots(run: Run, table: Table) -> None:
    assert f"tidyberg compact {NAME} --no-expire-snapshots" in run("plan", NAME, "--no-expire-snapshots").out
    wanted = ("--expire-snapshots", "--snapshot-retention-hours", "24.0")
    assert f"tidyberg compact {NAME} {' '.join(wanted)}" in run("plan", NAME, *wanted).out
    assert run("plan", NAME, "--snapshot-retention-hours", "24").status == 2
    assert len(table.refresh().metadata.snapshots) == 3


def test_python_takes_the_same_options(table: Table) -> None:
    result = tidyberg.compact(table, engine="inline", expire_snapshots=True, snapshot_retention_hours=360)
    assert (result.outcome, result.stats.snapshots_expired) == ("committed", 1)
    assert result.expiry is not None
    assert result.expiry.files.files > 0
