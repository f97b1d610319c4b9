"""The connection to Redis. It runs Lua scripts, reconnects by itself, and raises tidyberg's errors.

It needs one master, not a cluster, because scripts compute names of keys. A call whose answer was lost is sent again,
even though Redis may have run it. So scripts are idempotent or, with `once`, remember their answer (lua/once.lua).
"""

import uuid
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.retry import Retry
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_chain, wait_fixed

from tidyberg.errors import ConfigurationError, StoreUnreachable

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 3.0
_PROBE_SECONDS = 60
_TRANSIENT = (ConnectionError, TimeoutError, ReadOnlyError, BusyLoadingError)
# A master that restarts or moves is back soon. The caller decides about longer waits.
_RETRYING = Retrying(
    retry=retry_if_exception_type(_TRANSIENT),
    stop=stop_after_attempt(3),
    wait=wait_chain(wait_fixed(0.05), wait_fixed(0.25)),
    reraise=True,
)


class RedisClient:
    """A connection that threads can share. `prefix` is the prefix of every key."""

    def __init__(self, url: str, prefix: str) -> None:
        self.prefix = prefix
        try:
            # The URL may have options, such as ?socket_timeout=1 or ?ssl_ca_certs=…. The library must not retry,
            # because retries would multiply. A connection to a master that became a replica is dropped.
            self._redis = Redis.from_url(
                url,
                decode_responses=True,
                socket_connect_timeout=CONNECT_SECONDS,
                socket_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
                retry_on_error=[ReadOnlyError],
            )
        except (ValueError, TypeError):  # I12: the message may quote the address
            raise ConfigurationError(
                "store.url is not an address of a Redis server.",
                hint="Write it as redis://host:6379/0, rediss://:password@host:6379/0 or unix:///path/to/socket.",
            ) from None
        self._scripts: dict[str, Script] = {}

    @property
    def place(self) -> str:
        """The address, without credentials."""
        known = self._redis.get_connection_kwargs()
        return str(known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}")

    def key(self, name: str) -> str:
        return self.prefix + name

    def run(self, script: str, *arguments: str | int | float, once: bool = False) -> Any:
        """Run a script atomically. With `once` it takes effect once, even if its answer is lost."""
        keys = [self.prefix, self.key(f"once:{uuid.uuid4().hex}")] if once else [self.prefix]
        return self.ask(lambda redis: self._scripts[script](keys=keys, args=arguments, client=redis))

    def ask(self, question: "Callable[[Redis], Any]") -> Any:
        """Call a function that must do no harm if it is called twice."""
        try:
            return _RETRYING(question, self._redis)
        except RedisError as error:
            raise StoreUnreachable(
                f"The job store at Redis ({self.place}) did not answer: {str(error).rstrip('.')}.", hint=_hint(error)
            ) from error

    def check_write(self) -> None:
        """Raise if Redis accepts no writes, because of missing memory, missing replicas or a full disk."""
        self.ask(lambda redis: redis.set(self.key("write_probe"), "1", ex=_PROBE_SECONDS))

    def clock_ms(self) -> int:
        seconds, microseconds = self.ask(lambda redis: redis.time())
        return int(seconds) * 1000 + int(microseconds) // 1000

    def prepare(self, *scripts: str, after: Sequence[str]) -> None:
        """Register the scripts in these files. The code in the `after` files is put before each script."""
        shared = [_text(name) for name in after]
        for name in scripts:
            self._scripts[name] = self._redis.register_script("\n".join((*shared, _text(name))))

    def close(self) -> None:
        self._redis.close()


def _text(name: str) -> str:
    return (files("tidyberg.record") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def _hint(error: RedisError) -> str:
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return "Check the user and the password in store.url (or REDIS_URL)."
    if isinstance(error, OutOfMemoryError):
        return "Give it more memory (maxmemory), or shorten retention."
    return "Check that Redis runs and that store.url (or REDIS_URL) is right. No records are lost."
