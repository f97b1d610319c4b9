"""First tries of a new user, and the hints that they get."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.console import Run
from tidyberg.testing import Warehouse


def test_without_arguments_help_is_printed(run: Run) -> None:
    for words in ((), ("config",)):
        ran = run(*words)
        assert (ran.status, ran.err) == (0, "")
        assert "Usage: " in ran.out
        assert "Commands" in ran.out


def test_python_m_runs_the_package() -> None:
    ran = subprocess.run([sys.executable, "-m", "tidyberg", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("tidyberg ")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("optimize", "tidyberg compact TABLE"),
        ("rewrite_data_files", "tidyberg compact TABLE"),
        ("sort", "compact TABLE --sort"),
        ("zorder", "compact TABLE --sort"),
        ("Z-Order", "compact TABLE --sort"),
        ("expire_snapshots", "tidyberg expire TABLE"),
        ("orphan", "tidyberg orphans"),
        ("remove-orphan-files", "tidyberg orphans TABLE"),
        ("vacuum", "tidyberg expire TABLE"),
        ("manifests", "tidyberg rewrite-manifests TABLE"),
        ("rewrite_position_delete_files", "--strategy deletes_only"),
        ("status", "tidyberg history"),
        ("list", "tidyberg tables"),
        ("server", "tidyberg serve"),
    ],
)
def test_commands_of_other_tools_get_a_hint(run: Run, name: str, hint: str) -> None:
    ran = run(name, "analytics.events", "--json")
    assert ran.status == 2
    assert ran.json["error"]["message"] == f"There is no command {name!r}."
    assert hint in ran.json["error"]["hint"]


def test_misspelt_command_gets_a_suggestion(run: Run) -> None:
    assert "Did you mean 'compact'?" in run("compat").err


@pytest.mark.parametrize("flag", ["--target-file-size", "--max-file-size", "--small-file-threshold"])
def test_size_without_a_unit_is_refused_with_a_suggestion(run: Run, flag: str) -> None:
    ran = run("plan", "analytics.events", flag, "512")
    assert ran.status == 2
    assert f"{flag} 512: 512 bytes? Write 512MB." in ran.err
    assert "write 512B" in ran.err
    assert run("plan", "analytics.events", flag, str(1024**3)).status == 0


@pytest.fixture
def as_pyiceberg_has_it(config: Path, warehouse: Warehouse) -> Path:
    lines = "".join(f"    {key}: {value}\n" for key, value in warehouse.properties.items())
    config.write_text(f"engine: inline\ncatalog:\n  lab:\n{lines}    token: abcdefgh\n")
    return config


@pytest.mark.usefixtures("as_pyiceberg_has_it")
def test_named_catalogs_under_catalog_work(run: Run) -> None:
    assert "analytics.events" in run("tables").out
    assert run("plan", "analytics.events", "--catalog", "lab").status == 0


@pytest.mark.usefixtures("as_pyiceberg_has_it")
def test_settings_show_the_origin_of_each_catalog(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  prod:\n    uri: http://me:hidden@prod.example.com\n  lab:\n    type: sql\n"
    )
    monkeypatch.setenv("PYICEBERG_CATALOG__MY_OWN__URI", "http://own.example.com")
    monkeypatch.setenv("TIDYBERG_CATALOGS__LAB__WAREHOUSE", "file:///elsewhere")
    document = run("config", "show", "--json").json
    known = {catalog["name"]: catalog for catalog in document["known_catalogs"]}
    assert {name: catalog["origins"] for name, catalog in known.items()} == {
        "lab": ["environment (TIDYBERG_CATALOGS__LAB__WAREHOUSE)", "tidyberg.yaml", "~/.pyiceberg.yaml"],
        "my-own": ["environment (PYICEBERG_CATALOG__MY_OWN__URI)"],
        "prod": ["~/.pyiceberg.yaml"],
    }
    shown = run("config", "show")
    assert "#   prod: http://me:***@prod.example.com\n#     from ~/.pyiceberg.yaml" in shown.out
    assert not any(secret in shown.out + shown.err for secret in ("hidden", "abcdefgh"))


def test_single_catalog_is_the_default_and_may_come_from_the_environment(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "#   lab (default): sql, " in run("config", "show").out
    config.write_text("engine: inline\n")
    assert "# known catalogs: none" in run("config", "show").out
    monkeypatch.setenv("CATALOG_URI", "http://catalog.example.com")
    assert (
        "#   default (default): http://catalog.example.com\n#     from environment (CATALOG_URI)"
        in run("config", "show").out
    )
    monkeypatch.delenv("CATALOG_URI")
    monkeypatch.setenv("TIDYBERG_CATALOG__URI", "http://catalog.example.com")
    assert "from environment (TIDYBERG_CATALOG__URI)" in run("config", "show").out


def test_single_catalog_can_be_called_default(run: Run) -> None:
    assert run("plan", "analytics.events", "--catalog", "default").status == 0
    assert run("compact", "analytics.events", "--catalog", "default").status == 0
    assert "analytics.events" in run("history", "analytics.events", "--catalog", "default").out
    assert run("plan", "analytics.events", "--catalog", "defaults").status == 2
