"""`tidyberg rewrite-manifests`: what is typed, what is printed, and the exit code."""

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.console import Run
from tests.builders.manifest_entries import listed
from tidyberg.errors import BadInput
from tidyberg.testing import Warehouse

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Twelve manifests of an unpartitioned table."""
    table = warehouse.catalog.load_table(NAME)
    return warehouse.append_files(table, 12 - len(listed(table)), 5, files_per_commit=1)


def test_it_says_what_was_replaced_what_a_scan_gains_and_what_it_cost(run: Run, table: Table) -> None:
    ran = run("rewrite-manifests", NAME)
    assert ran.status == 0, ran.err
    assert f"✓ {NAME} · 12 manifests replaced by 1" in ran.out
    assert "a scan of one partition reads 1.0 manifests instead of 12.0" in " ".join(ran.out.split())
    assert "GET" in ran.out
    assert "pays back after" in " ".join(ran.out.split())
    assert "12 manifests replaced by 1" in " ".join(run("history").out.split())
    again = run("rewrite-manifests", NAME, "--detailed-exitcode")
    assert again.status == 3
    assert "nothing to rewrite; 1 manifest, clustered and of the right size" in again.out


def test_a_dry_run_changes_nothing_and_json_has_every_number(run: Run, table: Table) -> None:
    location = table.metadata_location
    document = run("rewrite-manifests", NAME, "--dry-run", "--json").json
    assert (document["outcome"], document["plan"]["manifests_after"]) == ("planned", 1)
    assert table.refresh().metadata_location == location
    assert "12 manifests would be replaced by 1" in " ".join(run("rewrite-manifests", NAME, "--dry-run").out.split())
    done = run("rewrite-manifests", NAME, "--json").json
    assert (done["outcome"], done["manifests_replaced"], done["plan"]) == ("rewritten", 12, document["plan"])
    assert done["job"]["strategy"] == "rewrite_manifests"


def test_too_little_is_said_and_force_rewrites_anyway(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table(NAME)
    warehouse.append_files(table, 1, 5)
    before = len(listed(table))
    ran = run("rewrite-manifests", NAME)
    assert "Use --force to rewrite them anyway." in " ".join(ran.out.split())
    assert len(listed(table)) == before
    assert run("rewrite-manifests", NAME, "--force", "--target-size", "1MB").status == 0
    assert len(listed(table)) == 1


def test_several_tables_take_turns(run: Run, table: Table) -> None:
    ran = run("rewrite-manifests", "--all-tables")
    assert ran.status == 0, ran.err
    assert "rewritten" in ran.out
    assert len(listed(table)) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--sort-by", "x"), "no partition field 'x'"),
        (("--spec-id", "9"), "no partition spec 9"),
        (("--target-size", "big"), "is not a size"),
        (("--branch", "x"), "has no branch 'x'"),
    ],
)
def test_bad_input_is_refused(run: Run, table: Table, arguments: tuple[str, ...], text: str) -> None:
    ran = run("rewrite-manifests", NAME, *arguments)
    assert ran.status == 2
    assert text in " ".join(ran.err.split())


def test_the_python_api_plans_and_rewrites(table: Table) -> None:
    plan = tidyberg.plan_manifests(table, target_size="4MB")
    assert (plan.verdict, plan.target_bytes) == ("rewrite", 4 * 1024 * 1024)
    assert tidyberg.rewrite_manifests(table, target_size="4MB").created == 1
    with pytest.raises(BadInput, match="Give a list"):
        tidyberg.plan_manifests(table, sort_by="day")
