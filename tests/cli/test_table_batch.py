"""Several tables in one command: each has a result, and there is one exit code."""

from pathlib import Path

import pytest

from tests.builders.console import Run
from tidyberg.app import build_control
from tidyberg.cli import table_batch
from tidyberg.cli.table_batch import TableOutcome, worst
from tidyberg.control.control import Control
from tidyberg.errors import Cancelled, EngineError, TidybergError
from tidyberg.execute.engine import Engine
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


@pytest.fixture(autouse=True)
def more_tables(warehouse: Warehouse) -> None:
    """Adds two untidy tables and an empty one to analytics.events."""
    for name in ("sales.orders", "sales.bills"):
        warehouse.append_files(warehouse.create_table(name), 6, 20)
    warehouse.create_table("sales.empty")


def files_of(warehouse: Warehouse, name: str) -> int:
    return len(list(warehouse.catalog.load_table(name).scan().plan_files()))


def test_names_and_patterns_are_compacted_once_in_order(run: Run, warehouse: Warehouse) -> None:
    names = ("sales.orders", "analytics.events", "sales.bills", "sales.empty")
    rows = {name: warehouse.rows(warehouse.catalog.load_table(name)) for name in names}
    ran = run("compact", "sales.orders", "analytics.events", "sales.*")
    assert ran.status == 0, ran.err
    begun = [line for line in ran.err.splitlines() if " of 4)" in line]
    assert begun == [
        "sales.orders (1 of 4)", "analytics.events (2 of 4)", "sales.bills (3 of 4)", "sales.empty (4 of 4)"
    ]  # fmt: skip
    results = [line.split()[1] for line in ran.out.splitlines() if line.startswith("✓")]
    assert results == ["sales.orders", "analytics.events", "sales.bills"]
    summary = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "table outcome files bytes took" in summary
    assert any(line.startswith("analytics.events committed 12 → 1 ") for line in summary)
    assert any(line.startswith("sales.empty tidy – – ") for line in summary)
    assert summary[-1] == "4 tables · 1 tidy"
    assert [files_of(warehouse, name) for name in names] == [1, 1, 1, 0]
    assert {name: warehouse.rows(warehouse.catalog.load_table(name)) for name in names} == rows


def test_one_engine_serves_all_tables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Engine] = []

    def counting(settings: Settings) -> Control:
        control = build_control(settings)
        open_engine = control.open_engine

        def opening() -> Engine:
            opened.append(open_engine())
            return opened[-1]

        control.open_engine = opening
        return control

    monkeypatch.setattr(table_batch, "build_control", counting)
    assert run("compact", "--all").status == 0
    assert len(opened) == 1


def test_all_without_names_means_every_table(run: Run, warehouse: Warehouse) -> None:
    for command in ("plan", "health", "compact"):
        listed = run(command, "--all", "--json").json
        assert isinstance(listed, list)
        assert len(listed) == 4
    assert files_of(warehouse, "analytics.events") == 1
    assert len(run("health", "sales.orders", "--all-tables", "--json").json) == 4


def test_all_with_names_shows_every_partition(run: Run, warehouse: Warehouse) -> None:
    """With TABLE, --all must not plan or compact the whole catalog."""
    assert run("plan", "sales.orders", "--all", "--json").json["table"]["name"] == "orders"
    assert run("health", "sales.orders", "--all", "--json").json["files"] == 6
    ran = run("compact", "sales.orders", "sales.bills", "--all")
    assert ran.status == 0
    assert "--all-tables compacts every table" in ran.err
    assert [files_of(warehouse, name) for name in ("sales.orders", "sales.bills", "analytics.events")] == [1, 1, 12]


def test_json_of_several_tables_is_a_list_and_of_one_table_a_document(run: Run) -> None:
    plans = run("plan", "sales.orders", "analytics.*", "--json").json
    assert [plan["table"]["name"] for plan in plans] == ["orders", "events"]
    assert len(run("plan", "sales.ord*", "--json").json) == 1, "a pattern makes a list, whatever it matches"
    assert run("plan", "sales.orders", "--json").json["table"]["name"] == "orders"
    results = run("compact", "sales.orders", "sales.empty", "--json").json
    assert [(result["table"], result["outcome"]) for result in results] == [
        ("sales.orders", "committed"),
        ("sales.empty", "tidy"),
    ]


def test_pattern_without_a_match_lists_tables_and_changes_nothing(run: Run, warehouse: Warehouse) -> None:
    ran = run("compact", "sales.orders", "marketing.*")
    assert ran.status == 2
    assert "No table of catalog 'lab' matches 'marketing.*'." in ran.err
    assert "There are analytics.events, sales.bills, sales.empty, sales.orders." in ran.err
    assert files_of(warehouse, "sales.orders") == 6
    assert run("plan").status == 2
    assert "Name tables or patterns" in run("plan").err


def test_a_pattern_without_a_dot_matches_names_in_any_namespace(run: Run) -> None:
    assert [one["table"]["name"] for one in run("plan", "*e*s", "--json").json] == ["events", "orders"]


def test_a_table_that_fails_does_not_stop_the_others(run: Run, warehouse: Warehouse) -> None:
    ran = run("compact", "sales.nothing", "sales.orders", "nowhere", "sales.bills")
    assert ran.status == 2
    assert "error: sales.nothing: " in ran.err
    assert "error: nowhere: There is no table 'nowhere'" in ran.err
    assert [files_of(warehouse, name) for name in ("sales.orders", "sales.bills")] == [1, 1]
    assert ran.out.splitlines()[-1] == "4 tables · 2 failed"
    documents = run("compact", "sales.nothing", "sales.orders", "--json").json
    assert documents[0]["table"] == "sales.nothing"
    assert documents[0]["error"]["code"] == "unknown-table"
    assert documents[1]["outcome"] == "tidy"


def test_fail_fast_stops_at_the_first_failure(run: Run, warehouse: Warehouse) -> None:
    ran = run("compact", "sales.orders", "sales.nothing", "sales.bills", "analytics.events", "--fail-fast")
    assert ran.status == 2
    assert "stopped by --fail-fast; 2 tables not started" in ran.err
    assert [files_of(warehouse, name) for name in ("sales.orders", "sales.bills")] == [1, 6]


@pytest.mark.parametrize("error", [EngineError("no room"), ValueError("a defect")])
def test_unexpected_failure_is_reported_and_the_rest_is_done(
    run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plan = Control.plan

    def failing(control: Control, ref: object, options: object) -> object:
        if str(ref) == "sales.bills":
            raise error
        return plan(control, ref, options)  # type: ignore[arg-type]

    monkeypatch.setattr(Control, "plan", failing)
    ran = run("plan", "sales.*")
    assert ran.status == 5
    assert str(error) in ran.err
    summary = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert any(line.startswith("sales.bills failed – – – ") for line in summary)
    assert any(line.startswith("sales.orders ") and "6 → 1" in line for line in summary)


def test_cancelling_ends_the_whole_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def cancelled(control: Control, ref: object, *arguments: object, **more: object) -> object:
        asked.append(ref)
        raise Cancelled("Cancelled.")

    monkeypatch.setattr(Control, "compact", cancelled)
    assert run("compact", "sales.*").status == Cancelled.exit_code
    assert len(asked) == 1


def test_out_refuses_several_tables(run: Run, tmp_path: Path) -> None:
    assert run("plan", "sales.*", "--out", "p.json").status == 2
    assert not (tmp_path / "p.json").exists()


def test_a_dry_run_of_several_changes_nothing(run: Run, warehouse: Warehouse) -> None:
    ran = run("compact", "--all", "--dry-run")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "4 tables · 1 tidy")
    assert files_of(warehouse, "sales.orders") == 6


def test_nothing_to_do_in_any_table_exits_with_3_if_requested(run: Run) -> None:
    assert run("compact", "sales.empty", "sales.orders", "--detailed-exitcode").status == 0
    assert run("compact", "sales.empty", "sales.orders").status == 0
    assert run("compact", "sales.empty", "sales.orders", "--detailed-exitcode").status == 3


def test_worst_exit_code_counts() -> None:
    def ended(*statuses: int) -> int:
        return worst([TableOutcome("t", {}, (), status, left="tidy" if status == 3 else "") for status in statuses])

    assert [ended(0, 4, 0), ended(4, 2, 0), ended(2, 5, 4), ended(0, 0), ended(0, TidybergError.exit_code)] == [
        4, 2, 5, 0, 5
    ]  # fmt: skip
