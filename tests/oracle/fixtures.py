"""Fixtures for all tests that use Java."""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.oracle.client import JavaCatalog, Oracle, OracleMissingError
from tidyberg.testing import Warehouse


def give_up(reason: str) -> NoReturn:
    """Skips the test, so that a developer without Java can run the others. In continuous integration, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Iceberg's Java runtime on Spark, in its own process. Spark downloads it on the first run on a machine."""
    try:
        started = Oracle()
    except OracleMissingError as error:
        give_up(f"Iceberg's Java runtime could not be started: {error}")
    with started:
        yield started


@pytest.fixture
def java(oracle: Oracle, warehouse: Warehouse) -> JavaCatalog:
    """The test's warehouse as Java sees it."""
    return oracle.attach(warehouse)
