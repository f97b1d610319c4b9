"""Reads the health of a Redis server from INFO."""

import time
from contextlib import closing
from dataclasses import dataclass

from tidyberg.errors import StoreUnreachable
from tidyberg.record.redis_client import RedisClient

OLDEST_VERSION = (6, 2)


@dataclass(frozen=True)
class RedisHealth:
    place: str
    version: str
    seconds: float  # the response time
    clock_seconds: float  # how far its clock is ahead of this machine
    write_error: str | None  # why it accepts no writes
    is_append_only: bool
    eviction: str  # its maxmemory-policy
    is_master: bool
    is_cluster: bool
    replicas: int
    stops_alone: bool  # min-replicas-to-write is set, so it accepts no writes without its replicas

    @property
    def is_too_old(self) -> bool:
        return tuple(int(part) for part in self.version.split(".")[:2]) < OLDEST_VERSION


def redis_health(url: str) -> RedisHealth:
    """Read only INFO, because hosted servers often refuse CONFIG."""
    with closing(RedisClient(url, prefix="tidyberg:doctor:")) as client:
        client.ask(lambda redis: redis.ping())
        started = time.monotonic()
        info = client.ask(lambda redis: redis.info("everything"))
        seconds = time.monotonic() - started
        clock, microseconds = client.ask(lambda redis: redis.time())
        return RedisHealth(
            place=client.place,
            version=str(info["redis_version"]),
            seconds=seconds,
            clock_seconds=clock + microseconds / 1e6 - time.time(),
            write_error=_write_error(client),
            is_append_only=bool(info.get("aof_enabled")),
            eviction=str(info.get("maxmemory_policy", "noeviction")),
            is_master=info.get("role", "master") == "master",
            is_cluster=bool(info.get("cluster_enabled")),
            replicas=int(info.get("connected_slaves", 0)),
            stops_alone="min_slaves_good_slaves" in info,  # INFO has it only if it is set
        )


def _write_error(client: RedisClient) -> str | None:
    try:
        client.check_write()
    except StoreUnreachable as error:
        return error.message
    return None
