"""A warehouse with one untidy table, and a function that runs commands on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.builders.console import Ran, Run
from tidyberg.cli.main import app, main
from tidyberg.testing import Warehouse


@pytest.fixture(autouse=True)
def _away_from_the_machines_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDYBERG_CONFIG", "CATALOG_URI", "REDIS_URL", "TIDYBERG_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "pyiceberg"))
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lake") as opened:
        table = opened.create_table("analytics.events")
        opened.append_files(table, 12, 50)
        yield opened


@pytest.fixture
def config(warehouse: Warehouse, tmp_path: Path) -> Path:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(yaml.safe_dump({"engine": "inline", "catalogs": {"lab": warehouse.properties}}))
    return path


@pytest.fixture
def run(config: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Returns a function that runs a command line in this process, with ./tidyberg.yaml."""

    def go(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(app, arguments)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return go
