"""Redis for tests: one server per test process, which is empty at the start of each test, or a server to kill."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.redis import RedisServer
from tests.servers.redis_binary import RedisMissingError


def _start(directory: Path, *, durable: bool) -> RedisServer:
    try:
        return RedisServer(directory, durable=durable)
    except RedisMissingError as error:
        reason = f"There is no Redis server, and none can be fetched: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with _start(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


@pytest.fixture
def redis_server(redis_of_session: RedisServer) -> RedisServer:
    """A shared, empty server. Tests must not kill it."""
    redis_of_session.flush()
    return redis_of_session


@pytest.fixture
def redis_to_kill(tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test, which writes to disk before it answers."""
    directory = tmp_path / "redis"
    directory.mkdir()
    with _start(directory, durable=True) as server:
        yield server
