"""Fixtures for every test that asks Java."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.client import JavaCatalog, Oracle, OracleMissingError
from tidyberg.testing import Warehouse


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Iceberg's Java runtime on Spark, in a process of its own; fetched by Spark on a machine's first run."""
    try:
        started = Oracle()
    except OracleMissingError as error:
        reason = f"Iceberg's Java runtime could not be started: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with started:
        yield started


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lab") as opened:
        yield opened


@pytest.fixture
def java(oracle: Oracle, warehouse: Warehouse) -> JavaCatalog:
    """The test's warehouse through Java's eyes."""
    return oracle.attach(warehouse)
