"""Job stores for tests. A place can be pickled, so another process can open the same store as a replica."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidyberg.model.job import Owner
from tidyberg.record.records import Records, open_sqlite
from tidyberg.record.redis_records import open_redis

IsAlive = Callable[[Owner], bool | None]


def nobody_knows(_: Owner) -> bool | None:
    return None


class Place(Protocol):
    def open(self, is_alive: IsAlive = nobody_knows) -> Records:
        """Opens a connection of its own, as each replica does."""
        ...


@dataclass(frozen=True)
class SqlitePlace:
    path: Path

    def open(self, is_alive: IsAlive = nobody_knows) -> Records:
        return open_sqlite(self.path, is_alive)


@dataclass(frozen=True)
class RedisPlace:
    url: str
    prefix: str

    def open(self, is_alive: IsAlive = nobody_knows) -> Records:
        return open_redis(self.url, self.prefix, is_alive)


Open = Callable[..., Records]
