"""What a Redis server says of itself, as far as a job store must know it."""

import time
from contextlib import closing
from dataclasses import dataclass

from tidyberg.record.redis_client import RedisClient

OLDEST_VERSION = (6, 2)


@dataclass(frozen=True)
class RedisHealth:
    place: str
    version: str
    seconds: float  # it took to answer
    is_append_only: bool
    eviction: str  # its maxmemory-policy
    is_master: bool
    is_cluster: bool

    @property
    def is_too_old(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) < OLDEST_VERSION


def redis_health(url: str) -> RedisHealth:
    """From INFO alone: hosted servers often refuse CONFIG."""
    with closing(RedisClient(url, prefix="")) as client:
        client.ask(lambda redis: redis.ping())
        started = time.monotonic()
        info = client.ask(lambda redis: redis.info("everything"))
        return RedisHealth(
            place=client.place,
            version=str(info["redis_version"]),
            seconds=time.monotonic() - started,
            is_append_only=bool(info.get("aof_enabled")),
            eviction=str(info.get("maxmemory_policy", "noeviction")),
            is_master=info.get("role", "master") == "master",
            is_cluster=bool(info.get("cluster_enabled")),
        )
