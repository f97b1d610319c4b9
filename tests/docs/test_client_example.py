"""The example of the client in docs/python-api.md, run against a service."""

import re
from pathlib import Path

import pytest

from tests.client.conftest import _away_from_the_machines_own_configuration, settings, url, warehouse
from tidyberg.testing import Warehouse

__all__ = ["_away_from_the_machines_own_configuration", "settings", "url", "warehouse"]

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
SERVICE = "http://localhost:8080"


def examples() -> list[str]:
    return [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if SERVICE in block]


def test_the_examples_of_the_client_run(url: str, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    table = warehouse.create_table("analytics.events")
    warehouse.append_files(table, files=8, rows_per_file=10)
    assert len(examples()) == 2
    for example in examples():
        exec(compile(example.replace(SERVICE, url), str(PAGE), "exec"), {})  # the page is ours
    assert "8 files became 1" in capsys.readouterr().out
