"""A thread pool for blocking calls. Tenants take turns, and a call that would wait too long is refused at once."""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from tidyberg.api.refusals import Overloaded

P = ParamSpec("P")
T = TypeVar("T")

# The tenant of the current request. Each request is its own task, so requests do not share the value.
calling_tenant: ContextVar[str] = ContextVar("calling_tenant", default="")

_FIRST_GUESS_SECONDS = 0.005  # the estimate until a call was measured
_WEIGHT = 0.1  # of the newest call in the moving average


class FairThreadPool:
    """At most `waiting` calls wait, none longer than `wait_seconds`. Use it in the event loop only."""

    def __init__(
        self, threads: int, waiting: int, wait_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._threads = threads
        self._limiter = anyio.CapacityLimiter(threads)
        self._most_waiting = waiting
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._running = 0
        self._seconds_each = _FIRST_GUESS_SECONDS
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # by tenant, the next tenant first

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await self._turn(calling_tenant.get())
        began = self._clock()
        try:
            return await anyio.to_thread.run_sync(partial(call, *args, **kwargs), limiter=self._limiter)
        finally:
            self._seconds_each += _WEIGHT * (self._clock() - began - self._seconds_each)
            self._pass_on()

    async def _turn(self, tenant: str) -> None:
        if self._running < self._threads:
            self._running += 1
            return
        self._refuse_what_would_wait(tenant)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # its turn came at the same moment
            else:
                self._forget(tenant, turn)
            if isinstance(error, TimeoutError):
                raise self._overloaded(self._wait_seconds) from None
            raise

    def _refuse_what_would_wait(self, tenant: str) -> None:
        """The tenant with the most waiting calls is refused first."""
        own = len(self._queues.get(tenant, ()))
        tenants = len(self._queues) + (tenant not in self._queues)
        expected = (own + 1) * tenants * self._seconds_each / self._threads
        if expected > self._wait_seconds or self._waiting >= self._most_waiting:
            raise self._overloaded(expected)

    @property
    def _waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    def _overloaded(self, expected: float) -> Overloaded:
        return Overloaded(
            "The service is overloaded.",
            hint="Try again in a moment.",
            retry_after_seconds=min(60, max(1, math.ceil(2 * expected))),
        )

    def _pass_on(self) -> None:
        """Gives the free thread to the next tenant that has a waiting call."""
        while self._queues:
            tenant, queue = next(iter(self._queues.items()))
            turn = queue.popleft()
            if queue:
                self._queues.move_to_end(tenant)
            else:
                del self._queues[tenant]
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _forget(self, tenant: str, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[tenant]
