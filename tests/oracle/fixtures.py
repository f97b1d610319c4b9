"""Fixtures for every test that asks Java."""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.oracle.client import JavaCatalog, Oracle, OracleMissingError
from tidyberg.testing import Warehouse


def give_up(reason: str) -> NoReturn:
    """Without Java, a developer can still run the other tests. Continuous integration must not skip these."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Iceberg's Java runtime on Spark, in a process of its own; fetched by Spark on a machine's first run."""
    try:
        started = Oracle()
    except OracleMissingError as error:
        give_up(f"Iceberg's Java runtime could not be started: {error}")
    with started:
        yield started


@pytest.fixture
def java(oracle: Oracle, warehouse: Warehouse) -> JavaCatalog:
    """The test's warehouse through Java's eyes."""
    return oracle.attach(warehouse)
