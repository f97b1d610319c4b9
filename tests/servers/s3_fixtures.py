"""An S3 server for tests: one server per test process, and one bucket per test."""

import itertools
from collections.abc import Iterator

import pytest

from tests.oracle.fixtures import give_up
from tests.servers.s3 import S3Server
from tests.servers.s3_binary import S3ServerMissingError

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    try:
        server = S3Server(tmp_path_factory.mktemp("s3"))
    except S3ServerMissingError as error:
        give_up(f"There is no S3 server, and none can be built: {error}")
    with server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The name of the test's bucket."""
    name = f"bucket-{next(_numbers)}"
    s3_server.make_bucket(name)
    return name
