"""One REST catalog server for all tests here; each test has a namespace and a proxy of its own."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.rest.lab import RestLab
from tests.rest.proxy import FaultProxy
from tests.servers.rest import RestServer, RestServerMissingError


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    try:
        server = RestServer(tmp_path_factory.mktemp("rest-catalog"))
    except RestServerMissingError as error:
        reason = f"Iceberg's REST catalog server could not be started: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with server:
        yield server


@pytest.fixture
def lab(rest_server: RestServer, tmp_path: Path) -> Iterator[RestLab]:
    with closing(RestLab(rest_server, tmp_path)) as lab:
        yield lab


@pytest.fixture
def proxy(rest_server: RestServer) -> Iterator[FaultProxy]:
    with FaultProxy(rest_server.port) as proxy:
        yield proxy


@pytest.fixture
def table(lab: RestLab) -> Table:
    return lab.untidy_table()


@pytest.fixture
def before(lab: RestLab, table: Table) -> list[str]:
    """The rows that must be there afterwards too."""
    return lab.rows(table)
