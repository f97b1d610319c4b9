"""The Python API, as a user of PyIceberg calls it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

import tidyberg
from tidyberg.errors import BadInput
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.report import Event
from tidyberg.testing import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with Warehouse(tmp_path / "lab") as warehouse:
        yield warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 8, 30)


def test_plan_can_be_asked_again_and_again(table: Table) -> None:
    """The function must not be hidden by a module of the same name once that is loaded."""
    first, second = tidyberg.plan(table), tidyberg.plan(table)
    assert first.hash == second.hash
    assert first.estimate.input_files == 8


@pytest.mark.parametrize("engine", ["inline", InlineEngine()])
def test_compact_returns_what_was_done(warehouse: Warehouse, table: Table, engine: str | InlineEngine) -> None:
    rows = warehouse.rows(table)
    events: list[Event] = []
    result = tidyberg.compact(table, engine=engine, verify="full", on_event=events.append)
    assert result.outcome == "committed"
    assert (result.stats.files_before, result.stats.files_after) == (8, 1)
    assert warehouse.rows(table) == rows
    assert events


def test_settings_of_the_working_directory_count(warehouse: Warehouse, table: Table) -> None:
    Path("tidyberg.yaml").write_text("engine: inline\ncompaction:\n  strategy: small_files\n  min_input_files: 100\n")
    assert tidyberg.compact(table).outcome == "waiting"
    assert tidyberg.plan(table, strategy="full", min_input_files=2).options["strategy"] == "full"


@pytest.mark.parametrize(
    "wrong", [{"engine": "dask"}, {"verify": "maybe"}, {"strategy": "magic"}, {"target_file_sise": "1GB"}]
)
def test_a_wrong_argument_is_bad_input(table: Table, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        tidyberg.compact(table, **{"engine": "inline", **wrong})
