"""`tidyberg orphans`: what is typed, what is printed, and the exit code."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.console import Run
from tests.builders.stray_files import backdate_all, put, seen_days_ago
from tidyberg.testing import Warehouse

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """A table with one orphan."""
    table = warehouse.catalog.load_table(NAME)
    backdate_all(table)
    put(table, "data/lost.parquet")
    return table


def test_the_first_run_waits_and_a_later_one_deletes(run: Run, table: Table) -> None:
    first = run("orphans", NAME)
    assert first.status == 0, first.err
    assert f"✓ {NAME} · 1 orphan among" in first.out
    assert "Run this again then, or use --now" in " ".join(first.out.split())
    seen_days_ago(table, 1)
    second = run("orphans", NAME, "--json").json
    assert (second["success"], second["outcome"], second["files"]["total"]) == (True, "deleted", 1)
    assert second["job"]["strategy"] == "orphans"
    assert run("orphans", NAME, "--detailed-exitcode").status == 3
    assert "no orphans among" in run("orphans", NAME).out


def test_a_dry_run_changes_nothing(run: Run, warehouse: Warehouse, table: Table) -> None:
    before = warehouse.files_on_disk(table)
    ran = run("orphans", NAME, "--dry-run", "--now")
    assert "1 orphan (1 data file) would be deleted" in ran.out
    document = run("orphans", NAME, "--dry-run", "--now", "--json").json
    assert (document["verdict"], document["files"]["total"]) == ("delete", 1)
    assert warehouse.files_on_disk(table) == before


def test_quarantine_restore_and_purge(run: Run, table: Table) -> None:
    moved = run("orphans", NAME, "--now", "--quarantine", "--json").json
    assert moved["outcome"] == "quarantined"
    assert "_tidyberg/quarantine" in moved["quarantine"]
    assert run("orphans", "purge", NAME, "--detailed-exitcode").status == 3
    assert run("orphans", "restore", NAME, "--job", "nope").status == 2
    assert "1 file restored" in run("orphans", "restore", NAME, "--job", moved["job"]["job_id"][:8]).out
    backdate_all(table)
    job = run("orphans", NAME, "--now", "--quarantine", "--json").json["job"]["job_id"]
    assert run("orphans", "purge", NAME, "--job", job, "--older-than", "0s", "--json").json["files"] == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((NAME, "--older-than", "1h"), "24 hours"),
        ((NAME, "--older-than", "5"), "is not an age"),
        ((NAME, "--newer-than", "soon"), "is not a time"),
        ((NAME, "--dropped-table", "nope"), "'nope' is not the id of a table"),
        (("restore", NAME, "--dead-metadata", "x"), "does not have --dead-metadata"),
        (("--all-tables", "--dead-metadata", "x"), "exactly one table"),
        ((NAME, "--prefix-mismatch", "what"), "is not a mode"),
        ((NAME, "--equal-schemes", "s3"), "fewer than two"),
        ((NAME, "--job", "x"), "restore and purge"),
        (("--check-locations",), "--catalog-wide"),
        (("restore",), "exactly one table"),
        ((NAME, "--location", "/"), "'/' is not a location"),
        ((), "No table is named"),
    ],
)
def test_bad_input_is_refused(run: Run, table: Table, arguments: tuple[str, ...], text: str) -> None:
    ran = run("orphans", *arguments)
    assert ran.status == 2
    assert text in " ".join(ran.err.split())


def test_a_location_that_leads_out_of_the_table_is_refused(run: Run, table: Table) -> None:
    ran = run("orphans", NAME, "--location", f"{table.location()}/..", "--dry-run")
    assert ran.status == 2
    assert "is not a location of" in ran.err


@pytest.mark.parametrize("what", ["restore", "purge"])
@pytest.mark.parametrize("flag", ["--dry-run", "--now", "--all-tables"])
def test_a_flag_that_restore_and_purge_do_not_have_changes_nothing(
    run: Run, warehouse: Warehouse, table: Table, what: str, flag: str
) -> None:
    job = run("orphans", NAME, "--now", "--quarantine", "--json").json["job"]["job_id"]
    before = warehouse.files_on_disk(table)
    older = ("--older-than", "0s") if what == "purge" else ()
    ran = run("orphans", what, NAME, "--job", job, *older, flag)
    assert ran.status == 2
    assert f"orphans {what} does not have {flag}. Nothing was changed." in " ".join(ran.err.split())
    assert warehouse.files_on_disk(table) == before


def test_an_age_beyond_the_calendar_deletes_nothing(run: Run, table: Table) -> None:
    ran = run("orphans", NAME, "--older-than", "1000000000d", "--now")
    assert ran.status == 0, ran.err
    assert "no orphans among" in ran.out


def test_several_tables(run: Run, warehouse: Warehouse, table: Table) -> None:
    warehouse.create_table("analytics.clean")
    ran = run("orphans", "--all-tables", "--now")
    assert ran.status == 0, ran.err
    assert "2 tables · 1 tidy" in ran.out


def test_tables_that_share_a_location_are_reported_for_a_whole_catalog(
    run: Run, warehouse: Warehouse, table: Table
) -> None:
    assert run("orphans", "--catalog-wide", "--check-locations").status == 0
    warehouse.catalog.create_table("analytics.inner", table.schema(), location=f"{table.location()}/inner")
    ran = run("orphans", "--catalog-wide", "--check-locations")
    assert ran.status == 2
    assert f"analytics.inner in {table.location()}/inner lies in {NAME}" in " ".join(ran.out.split())
    document = run("orphans", "--catalog-wide", "--check-locations", "--json").json
    assert [one["other"]["name"] for one in document["shared"]] == ["inner"]


def test_the_python_api(warehouse: Warehouse, table: Table, config: Path) -> None:
    plan = tidyberg.plan_orphans(table, older_than=timedelta(days=3), now=True)
    assert (plan.verdict, plan.files.files) == ("delete", 1)
    kept = tidyberg.remove_orphans(table, now=True, newer_than=datetime.now(UTC) - timedelta(days=5))
    assert kept.outcome == "nothing"
    assert tidyberg.remove_orphans(table, now=True).outcome == "deleted"
