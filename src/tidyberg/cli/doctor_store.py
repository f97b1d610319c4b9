"""Checks whether the job store accepts writes and keeps jobs after a restart."""

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tidyberg.cli.show_doctor import Check
from tidyberg.errors import TidybergError
from tidyberg.settings.store import Store

_NAME = "job store"
_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BUSY_SECONDS = 5.0
_CLOCKS_MAY_DIFFER_SECONDS = 5.0


def check_store(store: Store) -> Iterator[Check]:
    if store.url is None:
        yield _check_file(store.path)
    else:
        yield from _check_redis(store.url.get_secret_value())


def _check_file(path: Path) -> Check:
    place = path if path.exists() else existing(path.parent)
    if not os.access(place, os.W_OK):
        return Check("fail", _NAME, f"{path} is not writable", "Set store.path or TIDYBERG_HOME.")
    try:
        _try_to_write(path)
    except (OSError, sqlite3.Error) as error:
        return Check(
            "fail", _NAME, f"{path} accepts no writes ({error})", "Check the free space and the health of its disk."
        )
    if path.exists() and path.stat().st_mode & _BY_OTHERS:
        return Check("warn", _NAME, f"{path} can be read by other users of this machine", f"Run chmod 600 {path}*")
    return Check("ok", _NAME, str(path))


def _try_to_write(path: Path) -> None:
    """Writes to the file and rolls back, without a migration. If there is no file, writes a temporary one beside it."""
    if path.exists():
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE written_by_doctor (page BLOB)")
            connection.execute("INSERT INTO written_by_doctor VALUES (zeroblob(65536))")
            connection.execute("ROLLBACK")
        return
    with tempfile.NamedTemporaryFile(dir=existing(path.parent)) as probe:
        probe.write(bytes(65536))
        probe.flush()
        os.fsync(probe.fileno())


def _check_redis(url: str) -> Iterator[Check]:
    from tidyberg.record.redis_health import redis_health

    try:
        found = redis_health(url)
    except TidybergError as error:
        yield Check("fail", _NAME, error.message, error.hint)
        return
    yield Check("ok", _NAME, f"Redis {found.version} at {found.place}, {found.seconds:.2f} s")
    if found.write_error is not None:
        cure = "Give it more memory or disk, or shorten retention; reads still work."
        yield Check("fail", _NAME, f"Redis accepts no writes: {found.write_error}", cure)
    if found.is_too_old:
        yield Check("fail", _NAME, f"Redis {found.version} is too old", "Use version 6.2 or newer.")
    if found.is_cluster:
        yield Check("fail", _NAME, "Redis runs as a cluster", "Give the address of one server; it may have replicas.")
    if not found.is_master:
        yield Check("fail", _NAME, "this Redis is a replica", "Give the address of its master.")
    if abs(found.clock_seconds) > _CLOCKS_MAY_DIFFER_SECONDS:
        difference = f"the clocks of this machine and of Redis differ by {abs(found.clock_seconds):.0f} s"
        yield Check("warn", _NAME, difference, "Synchronize both with NTP. Replicas use the time of Redis.")
    if not found.is_append_only:
        yield Check("warn", _NAME, "Redis loses jobs when it restarts", "Set `appendonly yes` in redis.conf.")
    if found.eviction != "noeviction":
        cure = "Set `maxmemory-policy noeviction` in redis.conf."
        yield Check("warn", _NAME, f"Redis may drop jobs when memory is short ({found.eviction})", cure)
    if found.is_master and found.replicas and not found.stops_alone:
        cure = "Set `min-replicas-to-write 1` and `min-replicas-max-lag 10` in redis.conf."
        yield Check("warn", _NAME, "a Redis that was replaced may still accept writes, which are lost", cure)


def existing(path: Path) -> Path:
    """Returns the path, or its nearest existing parent."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
