"""Opens the stores in Redis, for several replicas of a service."""

from collections.abc import Callable

from tidyberg.model.job import Owner
from tidyberg.record.records import Records
from tidyberg.record.redis_client import RedisClient
from tidyberg.record.redis_ledger import RedisLedger
from tidyberg.record.redis_queue import RedisQueue
from tidyberg.record.redis_store import RedisStore


def open_redis(url: str, prefix: str, is_alive: Callable[[Owner], bool | None]) -> Records:
    """Open the stores. They connect on first use, so a service may start before its Redis."""
    client = RedisClient(url, prefix)
    return Records(
        RedisStore(client, is_alive), RedisQueue(client), RedisLedger(client), client.check_write, client.clock_ms
    )
