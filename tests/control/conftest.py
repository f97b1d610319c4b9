"""A control room over a warehouse in a temporary directory, on the inline engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidyberg.control.control import Control
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.retry import RetryPolicy
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse

BuildControl = Callable[..., Control]


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lab") as warehouse:
        yield warehouse


def make_control(warehouse: Warehouse, engine: Engine | None = None, **overrides: object) -> Control:
    settings: dict[str, object] = {
        "open_catalog": lambda _: warehouse.catalog,
        "open_engine": lambda: engine or InlineEngine(),
        "retry": RetryPolicy(retries=30, min_wait_ms=1, max_wait_ms=20),
        **overrides,
    }
    if "store" not in settings:
        settings["store"] = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    return Control(**settings)  # type: ignore[arg-type]


@pytest.fixture
def control(warehouse: Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as control:
        yield control
