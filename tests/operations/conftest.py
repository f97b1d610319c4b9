"""Table operations in a directory of the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.table_operations import Tables, open_tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    with open_tables(tmp_path, commit={"min_wait_ms": 1, "max_wait_ms": 20}) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """For tests that change nothing."""
    with open_tables(tmp_path_factory.mktemp("shared")) as opened:
        yield opened
