"""Output in a terminal of 60 columns: nothing is cut off, and every column is readable."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.console import Run
from tidyberg.cli import session
from tidyberg.cli.show_sizes import show_histogram
from tidyberg.model.sizes import GB, KB
from tidyberg.testing import Warehouse

NAME = "analytics.customer_events_by_region"
PARTITION = "region=eu-central-1-production"


@pytest.fixture
def narrow(run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands on a table with long names in 60 columns. Every line fits, and only snapshot ids are shortened."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = warehouse.create_table(NAME, schema, spec)
    for files, region in ((8, "eu-central-1-production"), (2, "ap-southeast")):
        rows = pa.table({"id": [1], "region": [region]}, schema=table.schema().as_arrow())
        warehouse.append_files(table, files, rows=lambda _, rows=rows: rows)  # type: ignore[misc]
    monkeypatch.setattr(session, "_WIDTH_WITHOUT_TERMINAL", 60)

    def go(*arguments: str):  # type: ignore[no-untyped-def]
        ran = run(*arguments)
        assert ran.status == 0, ran.err
        assert max(len(line) for line in ran.out.splitlines()) <= 60
        assert "…" not in re.sub(r"\d{4}…\d{4}", "", ran.out), ran.out
        return ran

    return go


def said(text: str) -> str:
    """Joins wrapped lines."""
    return " ".join(text.split())


def test_tables_and_health(narrow: Run) -> None:
    tables = said(narrow("tables").out)
    assert f"{NAME} files 10 · bytes " in tables
    assert "last commit just now" in tables
    health = said(narrow("health", NAME).out)
    assert f"{PARTITION} files 8 · small 8 · bytes " in health
    assert "last write just now" in health


def test_a_plan_and_its_groups(narrow: Run, tmp_path: Path) -> None:
    plan = said(narrow("plan", NAME, "--out", "p.json").out)
    assert f"{PARTITION} files 8 · small 8 · rewrite · 8 → 1 encode" in plan
    assert "region=ap-southeast files 2 · small 2 · skip · " in plan
    assert f"group 0 partition {PARTITION} · files 8 · rows 8" in said(narrow("explain", "p.json").out)


def test_a_result_and_the_history(narrow: Run) -> None:
    result = said(narrow("compact", NAME).out)
    assert "1 group committed" in result
    assert "file size before after" in result
    history = said(narrow("history").out)
    assert f"table {NAME} · auto · succeeded" in history
    assert "8 of 10 files rewritten" in history


def test_a_summary_of_several_tables(narrow: Run) -> None:
    summary = said(narrow("plan", "analytics.*").out)
    assert f"{NAME} health " in summary
    assert "rewrite 8 → 1" in summary


def test_bars_shrink_with_the_terminal() -> None:
    from tests.builders.console import rendered

    shown = show_histogram([KB] * 900 + [GB] * 9, [KB] * 700 + [GB] * 9)
    wide, small = rendered(shown, 110), rendered(shown, 60)
    assert "█" * 24 in wide
    assert "█" * 24 not in small
    assert max(len(line.rstrip()) for line in small.splitlines()) <= 60
    for text in (wide, small):
        assert {"900", "700", "9"} <= set(text.split())


def test_settings_stay_yaml(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setattr(session, "_WIDTH_WITHOUT_TERMINAL", 20)
    assert yaml.safe_load(run("config", "show").out)["catalogs"]["lab"]["type"] == "sql"
