"""The `iceberg-compact` command of the contract."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.console import Ran
from tidyberg.cli.iceberg_compact import app
from tidyberg.cli.main import main
from tidyberg.testing import Warehouse

Compact = Callable[..., Ran]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Warehouse]:
    # A SQL catalog stores its tables under its name. A catalog with only an address is named `default`.
    with Warehouse(tmp_path / "lake", "default") as opened:
        for name in ("analytics.events", "sales.events", "sales.orders"):
            opened.append_files(opened.create_table(name), 6, 20)
        yield opened


@pytest.fixture
def iceberg_compact(lake: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compact:
    monkeypatch.setenv("TIDYBERG_ENGINE", "inline")
    monkeypatch.setenv("CATALOG_WAREHOUSE", lake.properties["warehouse"])

    def go(*arguments: str) -> Ran:
        status = main(app, arguments)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return go


def files(lake: Warehouse, name: str) -> int:
    return len(list(lake.catalog.load_table(name).scan().plan_files()))


def test_command_of_the_cronjob_works(iceberg_compact: Compact, lake: Warehouse) -> None:
    uri = lake.properties["uri"]
    ran = iceberg_compact(f"--catalog-uri={uri}", "--table=orders", "--strategy=small-files")
    assert ran.status == 0, ran.err
    assert files(lake, "sales.orders") == 1
    again = iceberg_compact(f"--catalog-uri={uri}", "--table=orders", "--strategy=small-files")
    assert (again.status, "nothing to do" in again.out) == (0, True)


def test_the_address_may_come_from_the_environment(
    iceberg_compact: Compact, lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_URI", lake.properties["uri"])
    assert iceberg_compact("--table=analytics.events").status == 0
    assert files(lake, "analytics.events") == 1


def test_ambiguous_table_needs_a_namespace(iceberg_compact: Compact, lake: Warehouse) -> None:
    uri = lake.properties["uri"]
    refused = iceberg_compact(f"--catalog-uri={uri}", "--table=events")
    assert refused.status == 2
    assert "Several tables are called 'events'" in refused.err
    assert iceberg_compact(f"--catalog-uri={uri}", "--table=events", "--namespace=sales").status == 0
    assert (files(lake, "sales.events"), files(lake, "analytics.events")) == (1, 6)


def test_given_address_takes_precedence_over_settings(
    iceberg_compact: Compact, lake: Warehouse, tmp_path: Path
) -> None:
    Path("tidyberg.yaml").write_text("catalog: {uri: 'http://127.0.0.1:9'}\n")
    assert iceberg_compact(f"--catalog-uri={lake.properties['uri']}", "--table=orders").status == 0


def test_a_missing_table_flag_is_bad_input(iceberg_compact: Compact) -> None:
    ran = iceberg_compact("--catalog-uri=http://x")
    assert ran.status == 2
    assert "--table" in ran.err
