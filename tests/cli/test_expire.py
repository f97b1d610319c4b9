"""`tidyberg expire`: what is typed, what is printed, and the exit code."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.aged_tables import add_old_snapshots, age
from tests.builders.console import Run
from tidyberg.errors import BadInput
from tidyberg.model.durations import parse_age
from tidyberg.testing import Warehouse

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return add_old_snapshots(warehouse, warehouse.catalog.load_table(NAME))


def test_it_says_what_went_what_was_kept_and_why(run: Run, table: Table) -> None:
    ran = run("expire", NAME)
    assert ran.status == 0, ran.err
    assert f"✓ {NAME} · 2 snapshots expired" in ran.out
    assert "2 files deleted" in ran.out
    assert "2 manifest lists" in ran.out
    assert "kept: 1 snapshot (tag q1)" in ran.out
    assert "kept: 1 snapshot (branch main)" in ran.out
    assert "of the retained snapshots are there" in ran.out
    assert "2 snapshots expired; 2 files deleted" in " ".join(run("history").out.split())


def test_json_has_every_number(run: Run, table: Table) -> None:
    document = run("expire", NAME, "--json").json
    assert (document["success"], document["outcome"]) == (True, "expired")
    assert len(document["snapshots_expired"]) == 2
    assert document["files"]["total"] == document["files"]["manifest_lists"] == 2
    assert document["job"]["strategy"] == "expire"
    assert ["tag q1"] in document["snapshots_kept"].values()


def test_a_dry_run_changes_nothing(run: Run, table: Table) -> None:
    ran = run("expire", NAME, "--older-than", "12d", "--dry-run")
    assert ran.status == 0, ran.err
    assert "1 snapshot would expire" in ran.out
    assert len(table.refresh().metadata.snapshots) == 4


def test_nothing_to_do_has_an_exit_code_of_its_own(run: Run, table: Table) -> None:
    assert run("expire", NAME, "--older-than", "30d", "--detailed-exitcode").status == 3
    ran = run("expire", NAME, "--older-than", "30 days")
    assert ran.status == 0
    assert "nothing to expire" in ran.out


def test_snapshots_are_named_by_id(run: Run, table: Table) -> None:
    numbers = [str(one.snapshot_id) for one in table.metadata.snapshots]
    ran = run("expire", NAME, "--older-than", "30d", "--snapshot", numbers[0], "--snapshot", numbers[2], "--json")
    assert ran.json["snapshots_expired"] == [int(numbers[0]), int(numbers[2])]
    refused = run("expire", NAME, "--snapshot", numbers[1])
    assert refused.status == 2
    assert "tag q1 points to it" in refused.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--older-than", "5"), "is not an age"),
        (("--retain-last", "0"), "retain-last"),
        (("--snapshot", "x"), "snapshot"),
    ],
)
def test_bad_input_is_refused(run: Run, table: Table, arguments: tuple[str, ...], text: str) -> None:
    ran = run("expire", NAME, *arguments)
    assert ran.status == 2
    assert text in ran.err
    assert len(table.refresh().metadata.snapshots) == 4


def test_files_that_storage_keeps_end_with_an_error(
    run: Run, warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidyberg.control import expired_files

    with monkeypatch.context() as patch:
        patch.setattr(expired_files, "delete_many", lambda io, paths, **_: dict.fromkeys(paths, "Access Denied"))
        ran = run("expire", NAME)
    assert ran.status == 5
    assert "2 files not deleted by storage" in ran.out
    assert run("history", "--json").json["jobs"][0]["unresolved"] is True
    assert "gone now" in run("recover").out


def test_several_tables_are_expired_one_after_the_other(run: Run, warehouse: Warehouse, table: Table) -> None:
    other = warehouse.append_files(warehouse.create_table("sales.orders"), 2, 5, files_per_commit=1)
    age(other, [9, 8])
    ran = run("expire", "--all-tables", "--retain-last", "1")
    assert ran.status == 0, ran.err
    assert "2 tables" in ran.out
    assert (len(table.refresh().metadata.snapshots), len(other.refresh().metadata.snapshots)) == (2, 1)
    assert run("expire", "--all-tables", "--snapshot", "1").status == 2


def test_a_table_that_never_expires_snapshots_says_so(run: Run, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    for arguments in ((), ("--dry-run", "--json"), ("--older-than", "1000000000d")):
        ran = run("expire", NAME, *arguments)
        assert ran.status == 0, ran.err
    assert "never by age" in run("expire", NAME).out
    assert "older than" not in run("expire", NAME).out


def test_from_python(table: Table, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDYBERG_CONFIG", str(config))
    planned = tidyberg.expire(table, older_than=timedelta(days=12), dry_run=True)
    assert (planned.outcome, planned.snapshots_expired) == ("planned", 1)
    done = tidyberg.expire(table, older_than="12d", retain_last=1)
    assert (done.outcome, done.snapshots_expired) == ("expired", 1)
    with pytest.raises(BadInput, match="at least 1"):
        tidyberg.expire(table, retain_last=0)


def test_ages() -> None:
    assert [parse_age(text) for text in ("90s", "30m", "36 h", "5d", "1.5 days", "2 weeks")] == [
        90_000, 1_800_000, 129_600_000, 432_000_000, 129_600_000, 1_209_600_000
    ]  # fmt: skip
    for text in ("", "5", "d", "-1d", "5y", "five days"):
        with pytest.raises(BadInput):
            parse_age(text)
