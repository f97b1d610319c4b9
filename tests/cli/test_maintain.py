"""`tidyberg maintain`: what is typed, what is printed, and the exit code."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from pyiceberg.table import Table

import tidyberg
from tests.builders.aged_tables import age
from tests.builders.console import Run
from tidyberg.errors import StorageError
from tidyberg.testing import Warehouse

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Fifteen small files in four commits, of which three are older than five days."""
    table = warehouse.catalog.load_table(NAME)
    warehouse.append_files(table, 3, 10, files_per_commit=1)
    return age(table, [20, 15, 10, 1])


def snapshots(table: Table) -> int:
    return len(table.refresh().metadata.snapshots)


def by_step(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["step"]: step for step in document["steps"]}


def test_a_dry_run_shows_every_step_with_its_price_and_changes_nothing(run: Run, table: Table) -> None:
    ran = run("maintain", NAME, "--dry-run", "--set", "expire.retain-last=2")
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    assert any(line.split()[:2] == ["data", "run"] and "15 files" in line for line in lines)
    assert any(line.split()[:2] == ["expire", "run"] and "2 snapshots" in line for line in lines)
    assert "saves a month" in ran.out
    assert "policy: expire.retain-last = 2 (flag)" in ran.out
    assert f"next: tidyberg maintain {NAME} --set expire.retain-last=2" in ran.out
    assert snapshots(table) == 4


def test_it_runs_every_step_and_says_what_each_did(run: Run, warehouse: Warehouse, table: Table) -> None:
    rows = warehouse.rows(table)
    ran = run("maintain", NAME)
    assert ran.status == 0, ran.err
    assert f"✓ {NAME} · maintained" in ran.out
    assert "15 files became 1" in ran.out
    assert (snapshots(table), warehouse.rows(table)) == (2, rows)
    again = run("maintain", NAME, "--detailed-exitcode")
    assert again.status == 3
    assert f"{NAME}: nothing to do" in again.out
    assert run("maintain", NAME).status == 0


def test_json_has_planned_and_actual_numbers(run: Run, table: Table) -> None:
    document = run("maintain", NAME, "--json").json
    assert (document["success"], document["outcome"]) == (True, "done")
    data, expire = by_step(document)["data"], by_step(document)["expire"]
    assert (data["status"], data["planned"]["verdict"], data["numbers"]["files"]) == ("done", "run", 15)
    assert expire["numbers"]["snapshots"] == expire["planned"]["numbers"]["snapshots"] == 3
    assert document["policy"]["expire.enabled"] == {"value": True, "from": "default"}


def test_a_plan_file_is_explained_and_applied(run: Run, table: Table, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    written = run("maintain", NAME, "--plan-out", file)
    assert f"next: tidyberg apply {file}" in written.out
    assert snapshots(table) == 4
    assert run("explain", file).out == run("apply", file, "--dry-run").out
    document = run("apply", file, "--catalog", "lab", "--json").json
    assert (document["outcome"], by_step(document)["expire"]["status"]) == ("done", "done")
    assert document["plan_hash"] == run("explain", file, "--json").json["hash"]
    assert snapshots(table) == 2
    stale = run("apply", file)
    assert stale.status == 4, stale.out
    Path(file).write_text(Path(file).read_text().replace('"verdict": "run"', '"verdict": "skip"', 1))
    assert run("apply", file).status == 2


def test_a_failed_step_decides_the_exit_code(run: Run, table: Table) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise StorageError("no deletes today")

    with patch("tidyberg.control.expiry_work.delete_files", broken):
        ran = run("maintain", NAME, "--json")
    assert ran.status == 5
    assert (ran.json["success"], ran.json["error"]["code"]) == (False, "storage")
    assert [by_step(ran.json)[name]["status"] for name in ("data", "expire")] == ["done", "failed"]


def test_the_policy_of_a_table_says_where_each_value_comes_from(run: Run, config: Path, table: Table) -> None:
    settings = yaml.safe_load(config.read_text())
    settings["maintain"] = {"expire": {"older-than": "7d"}, "namespaces": {"analytics": {"scans_per_month": 3}}}
    config.write_text(yaml.safe_dump(settings))
    with table.transaction() as transaction:
        transaction.set_properties({"tidyberg.maintain.data.enabled": "false"})
    shown = " ".join(run("maintain", NAME, "--policy", "--set", "expire.clean-metadata=true").out.split())
    assert "scans-per-month 3 maintain.namespaces.analytics" in shown
    assert "data.enabled false table property tidyberg.maintain.data.enabled" in shown
    assert "expire.older-than 7d maintain" in shown
    assert "expire.clean-metadata true flag" in shown
    policy = run("maintain", NAME, "--policy", "--json").json["policy"]
    assert policy["expire.retain-last"] == {"value": None, "from": "default"}
    assert by_step(run("maintain", NAME, "--json").json)["data"]["status"] == "skipped"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((NAME, "--set", "expire.age=5d"), "The keys are enabled"),
        ((NAME, "--set", "expire.older-than"), "KEY=VALUE"),
        (("--all", "--plan-out", "x.json"), "exactly one table"),
        (("--all", "--policy"), "exactly one table"),
        ((), "No table is named"),
    ],
)
def test_bad_input_is_refused(run: Run, table: Table, arguments: tuple[str, ...], text: str) -> None:
    ran = run("maintain", *arguments)
    assert ran.status == 2
    assert text in ran.err


def test_several_tables_end_with_a_summary(run: Run, warehouse: Warehouse, table: Table) -> None:
    warehouse.create_table("analytics.empty")
    planned = run("maintain", "--all", "--dry-run")
    assert "2 tables · 1 tidy" in planned.out
    documents = run("maintain", "--all-tables", "--json").json
    assert {document["table"]: document["outcome"] for document in documents} == {
        "analytics.empty": "nothing",
        NAME: "done",
    }
    ran = run("maintain", "analytics.*", "--detailed-exitcode")
    assert ran.status == 3
    assert "2 tables · 2 tidy" in ran.out


def test_the_python_api_does_the_same(run: Run, config: Path, table: Table) -> None:
    plan = tidyberg.plan_maintenance(table, policy={"expire.older-than": "12d"})
    numbers = {step.step: step.numbers for step in plan.steps}
    assert (numbers["data"]["files"], numbers["expire"]["snapshots"]) == (15, 2)
    result = tidyberg.maintain(table, policy={"expire.older-than": "12d"})
    assert (result.outcome, snapshots(table)) == ("done", 3)
