"""Limits open connections, in total and per address.

uvicorn's own limit answers 503 to every request, also to probes, while idle connections fill it. Here a new connection
replaces the one that has been idle longest. It is refused only if all connections are busy.
"""

import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

_IDLE_SECONDS = 1.0  # a younger connection may still send its first request
_RESERVE = 128  # connections above the limit that may send a request line, so that probes get an answer
_OTHER_FILES = 256  # file descriptors for everything but connections


class Shed(StrEnum):
    """Why a connection was closed or a request was refused."""

    IDLE = "idle"
    ADDRESS = "address"
    FULL = "full"
    LAG = "lag"  # the event loop is behind
    WAIT = "wait"  # a submission would wait too long in the queue


class Connection(Protocol):
    def close_idle(self) -> None: ...


class Connections:
    """All open connections. Use it in the event loop only."""

    def __init__(
        self,
        most: int,
        most_of_address: int,
        on_shed: Callable[[Shed], None] = lambda _: None,
        is_behind: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_of_address = min(most, most_of_address)
        self._on_shed = on_shed
        self._is_behind = is_behind
        self._clock = clock
        self._addresses: dict[Connection, str] = {}
        self._number_of: Counter[str] = Counter()
        self._idle: OrderedDict[Connection, float] = OrderedDict()  # idle since; the longest idle first
        self._surplus: dict[Connection, Shed] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def opened(self, connection: Connection, address: str) -> None:
        self._addresses[connection] = address
        self._number_of[address] += 1
        self._idle[connection] = self._clock()
        if self._number_of[address] > self._most_of_address:
            self._make_room(connection, Shed.ADDRESS)
        elif len(self._addresses) > self._most:
            self._make_room(connection, Shed.FULL)

    def closed(self, connection: Connection) -> None:
        address = self._addresses.pop(connection, None)
        self._idle.pop(connection, None)
        self._surplus.pop(connection, None)
        if address is not None:
            self._number_of[address] -= 1
            if not self._number_of[address]:
                del self._number_of[address]

    def busy(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def idle(self, connection: Connection) -> None:
        if connection in self._addresses:
            self._idle[connection] = self._clock()
            self._idle.move_to_end(connection)

    def refusal(self, connection: Connection, method: str = "GET") -> Shed | None:
        """Returns why a request on this connection is refused, or None."""
        why = self._surplus.get(connection)
        if why is not None and not self._is_over(connection, why):
            self._surplus.pop(connection)
            why = None
        if why is None and self._is_behind(method):
            why = Shed.LAG
        if why is not None:
            self._on_shed(why)
        return why

    def _is_over(self, connection: Connection, why: Shed) -> bool:
        if why is Shed.ADDRESS:
            return self._number_of[self._addresses[connection]] > self._most_of_address
        return len(self._addresses) > self._most

    def _make_room(self, newcomer: Connection, why: Shed) -> None:
        while self._is_over(newcomer, why) and (victim := self._longest_idle(newcomer, why)) is not None:
            is_new = self._clock() - self._idle[victim] < _IDLE_SECONDS
            if is_new and not self._is_over_reserve(newcomer, why):
                break
            self.closed(victim)
            self._on_shed(Shed.IDLE)
            victim.close_idle()
        if self._is_over(newcomer, why):
            self._surplus[newcomer] = why

    def _is_over_reserve(self, newcomer: Connection, why: Shed) -> bool:
        if why is Shed.ADDRESS:
            return self._number_of[self._addresses[newcomer]] > self._most_of_address + _RESERVE
        return len(self._addresses) > self._most + _RESERVE

    def _longest_idle(self, newcomer: Connection, why: Shed) -> Connection | None:
        address = self._addresses[newcomer]
        for connection in self._idle:
            if connection is not newcomer and (why is Shed.FULL or self._addresses[connection] == address):
                return connection
        return None


def affordable(most: int) -> int:
    """Returns `most`, or fewer if the operating system does not allow so many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + _RESERVE + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, soft - _RESERVE - _OTHER_FILES))
