"""Counts every I/O call of a job, and lets one of them, or some of them, go wrong."""

import errno
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Protocol, TypeVar

Result = TypeVar("Result")
_RANDOM_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{12,}")


class Kind(StrEnum):
    """How a call goes wrong."""

    ERROR = "error"  # nothing happens, and the caller gets an error
    TIMEOUT = "timeout"  # the same, as another kind of exception
    LOST_ANSWER = "lost answer"  # it happens, but the caller gets an error
    TRUNCATED = "truncated"  # a read gives less than there is, and says nothing
    HALF_WRITTEN = "half written"  # some bytes are written, then the caller gets an error
    SHORT = "short"  # some bytes are written, but the caller gets no error
    CRASH = "crash"  # the process ends before the call
    CRASH_HALF_WRITTEN = "crash half written"  # the process ends in the middle of a write


class Crash(BaseException):
    """The process is gone: from here on no call of it reaches anything."""


class Wire(StrEnum):
    """What a call goes to."""

    FILES = "files"  # the driver's metadata files and look-ups
    KERNEL = "kernel"  # what tasks read and write
    CATALOG = "catalog"
    STORE = "store"  # the job store


@dataclass(frozen=True, order=True)
class Call:
    """A call by what it does to what, and the how many-th of its like it is: the same in every run of a job."""

    wire: Wire
    operation: str
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.wire.value} {self.operation} {self.what} #{self.number}"


class Decide(Protocol):
    def __call__(self, call: Call) -> Kind | None: ...


@dataclass
class Layer:
    """Sees the calls of one run. `decide` says which of them go wrong, and how."""

    decide: Decide = lambda call: None
    known: frozenset[str] = frozenset()  # names that are the same in every run
    calls: list[tuple[Call, tuple[Kind, ...]]] = field(default_factory=list)
    injected: list[tuple[Call, Kind]] = field(default_factory=list)
    is_dead: bool = False
    is_over: bool = False
    open_files: list[IO[bytes]] = field(default_factory=list)
    _seen: Counter[tuple[Wire, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self,
        wire: Wire,
        operation: str,
        what: str,
        effect: Callable[[], Result],
        *,
        kinds: tuple[Kind, ...],
        fail: Callable[[str, Kind], Exception],
        partly: Callable[[], Result] | None = None,
    ) -> Result:
        """Do `effect`, unless this call is to go wrong. `partly` is what a truncated read or cut write does."""
        if self.is_over:
            return effect()
        call, kind = self._register(wire, operation, what, kinds)
        if kind in (Kind.CRASH, Kind.CRASH_HALF_WRITTEN):
            if kind is Kind.CRASH_HALF_WRITTEN and partly is not None:
                partly()
            self.is_dead = True
            raise Crash(f"crashed at {call}")
        if kind in (Kind.ERROR, Kind.TIMEOUT):
            raise fail(f"injected {kind.value} at {call}", kind)
        if kind in (Kind.TRUNCATED, Kind.SHORT):
            assert partly is not None
            return partly()
        if kind is Kind.HALF_WRITTEN:
            assert partly is not None
            partly()
            raise fail(f"injected {kind.value} at {call}", kind)
        done = effect()
        if kind is Kind.LOST_ANSWER:
            raise fail(f"injected {kind.value} at {call}", kind)
        return done

    def end(self) -> None:
        """The run is over: what it left open is closed, as the end of a process does."""
        self.is_over = True
        for file in self.open_files:
            file.close()

    def _register(self, wire: Wire, operation: str, what: str, kinds: tuple[Kind, ...]) -> tuple[Call, Kind | None]:
        name = what if what in self.known else _RANDOM_NAMES.sub("*", what)
        with self._lock:
            if self.is_dead:
                raise Crash("the process is gone")
            number = self._seen[wire, operation, name]
            self._seen[wire, operation, name] += 1
            call = Call(wire, operation, name, number)
            self.calls.append((call, (*kinds, Kind.CRASH)))
            kind = self.decide(call)
            if kind is not None:
                self.injected.append((call, kind))
            return call, kind


def at(wanted: Call, kind: Kind) -> Decide:
    """One fault, at one call."""
    return lambda call: kind if call == wanted else None


def at_random(rng: random.Random, rates: Mapping[Wire, float]) -> Decide:
    """Each call fails with the rate of its wire, in a way that every call can fail in."""
    return lambda call: rng.choice((Kind.ERROR, Kind.TIMEOUT)) if rng.random() < rates.get(call.wire, 0.0) else None


def choose(calls: Sequence[tuple[Call, tuple[Kind, ...]]], rng: random.Random | None) -> Iterator[tuple[Call, Kind]]:
    """Every call with every way it can go wrong, or with one that chance picks."""
    for call, kinds in calls:
        for kind in kinds if rng is None else [rng.choice(kinds)]:
            yield call, kind


def file_failure(message: str, kind: Kind) -> Exception:
    return TimeoutError(errno.ETIMEDOUT, message) if kind is Kind.TIMEOUT else OSError(errno.EIO, message)
