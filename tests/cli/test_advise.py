"""`tidyberg advise`: what it shows, what `--apply` sets, and that a second run has nothing left."""

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.console import Run
from tidyberg.testing import Warehouse

NAME = "analytics.events"
CLEAN, CODEC = "write.metadata.delete-after-commit.enabled", "write.parquet.compression-codec"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    table = warehouse.catalog.load_table(NAME)
    table = warehouse.append_files(table, 8, 10, files_per_commit=1).refresh()
    with table.transaction() as transaction:
        transaction.set_properties({CODEC: "snappy", "owner": "somebody"})
    return table.refresh()


def test_it_shows_properties_and_writers_and_changes_nothing(run: Run, table: Table) -> None:
    before = table.metadata_location
    ran = run("advise", NAME)
    assert ran.status == 0, ran.err
    assert f"{CODEC}: snappy → zstd" in ran.out
    assert f"{CLEAN}: not set → true" in ran.out
    assert f"ALTER TABLE {NAME} SET TBLPROPERTIES ('{CODEC}'='zstd', '{CLEAN}'='true')" in ran.out
    assert "unknown: 20 files" in ran.out
    assert "a day where 1 would do: $" in ran.out
    document = run("advise", NAME, "--json").json
    assert [one["name"] for one in document["properties"]] == [CODEC, CLEAN]
    (writer,) = document["writers"]
    assert (writer["history"]["files"], writer["makes_small_files"]) == (20, True)
    assert writer["dollars_per_day"] > 0
    assert table.refresh().metadata_location == before


def test_write_properties_leaves_the_writers_out(run: Run, table: Table) -> None:
    ran = run("advise", NAME, "--write-properties")
    assert CODEC in ran.out
    assert "writers" not in ran.out
    assert "writers" not in run("advise", NAME, "--write-properties", "--json").json


def test_apply_sets_the_properties_once(run: Run, table: Table) -> None:
    before, snapshots = table.metadata_location, len(table.metadata.snapshots)
    planned = run("advise", NAME, "--apply", "--dry-run")
    assert "table properties would be set" in planned.out
    assert table.refresh().metadata_location == before, "a dry run changes nothing"
    ran = run("advise", NAME, "--apply")
    assert ran.status == 0, ran.err
    assert f"{CODEC}: snappy → zstd" in ran.out
    after = table.refresh()
    assert (after.properties[CODEC], after.properties[CLEAN], after.properties["owner"]) == ("zstd", "true", "somebody")
    assert len(after.metadata.metadata_log) == 1 + [entry.metadata_file for entry in after.metadata.metadata_log].index(
        before
    ), "one commit"
    assert len(after.metadata.snapshots) == snapshots
    changed = after.metadata_location
    again = run("advise", NAME, "--apply", "--json").json
    assert (again["outcome"], again["properties"]) == ("nothing", [])
    assert table.refresh().metadata_location == changed, "a second run changes nothing"
    ran = run("advise", NAME)
    assert f"{NAME}: nothing is left to advise" in ran.out
    assert "no history: no writer has committed since the advised properties were set" in ran.out


def test_a_table_whose_snapshots_have_expired_has_no_history(run: Run, table: Table) -> None:
    tidyberg.compact(table, engine="inline", force=True)
    tidyberg.expire(table.refresh(), older_than="0s")
    out = run("advise", NAME).out
    assert "no history: no writer has committed in the last day; older snapshots have expired" in out


def test_a_dry_run_without_apply_and_a_bad_window_are_refused(run: Run, table: Table) -> None:
    ran = run("advise", NAME, "--dry-run")
    assert ran.status == 2
    assert "--apply" in ran.err
    assert run("advise", NAME, "--window", "long").status == 2


def test_python_returns_the_advice(table: Table) -> None:
    advice = tidyberg.advise(table, window="1d")
    assert not advice.has_changed
    assert {one.name for one in advice.properties} == {CODEC, CLEAN}
    assert tidyberg.advise(table, apply=True).has_changed
    assert tidyberg.advise(table.refresh()).is_empty
