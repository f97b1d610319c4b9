"""The stores. Each test of the contract runs on each of them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.job_records import HERE
from tests.builders.job_stores import IsAlive, Open, Place, RedisPlace, SqlitePlace, nobody_knows
from tests.servers.redis import RedisServer
from tidyberg.record.records import Records


@pytest.fixture(params=["sqlite", "redis"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes an empty place each time."""
    number = itertools.count()
    if request.param == "sqlite":
        return lambda: SqlitePlace(tmp_path / f"state-{next(number)}" / "jobs.db")
    redis: RedisServer = request.getfixturevalue("redis_server")
    return lambda: RedisPlace(redis.url, f"place-{next(number)}:")


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@pytest.fixture
def open_records(place: Place) -> Iterator[Open]:
    opened: list[Records] = []

    def open_one(is_alive: IsAlive = nobody_knows) -> Records:
        opened.append(place.open(is_alive))
        return opened[-1]

    yield open_one
    for records in opened:
        records.close()


@pytest.fixture
def records(open_records: Open) -> Records:
    """One where a process on this machine is seen to live."""
    return open_records(lambda owner: True if owner == HERE else None)
