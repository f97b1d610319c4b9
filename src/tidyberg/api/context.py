"""What the routes share: the service, who may enter, and threads for calls that block."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Request

from tidyberg.api.rates import Rates
from tidyberg.api.refusals import Overloaded
from tidyberg.api.watchers import StreamLimits, Watchers
from tidyberg.model.principal import Principal
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server

P = ParamSpec("P")
T = TypeVar("T")

Identify = Callable[[Request], Awaitable[Principal]]  # raises NotAuthenticated


class Threads:
    """Runs calls that block in a bounded number of threads, so that the event loop stays free."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._limiter = anyio.CapacityLimiter(threads)
        self._most_waiting = waiting

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._limiter.statistics().tasks_waiting >= self._most_waiting:
            raise Overloaded("The service has more to answer than it can.", hint="Try again in a moment.")
        return await anyio.to_thread.run_sync(lambda: call(*args, **kwargs), limiter=self._limiter)


@dataclass(frozen=True)
class Context:
    service: Service
    server: Server
    identify: Identify
    rates: Rates
    # Apart, so that calls that wait for a catalog do not keep the others waiting.
    looking: Threads  # asks only the store
    acting: Threads  # changes what is stored; may ask a catalog for a moment
    observing: Threads  # asks catalogs and storage
    watching: Threads  # reads for streams of events, which may be many
    watchers: Watchers
    streams: StreamLimits
    stopping: asyncio.Event


# Both are coroutines because FastAPI gives every other dependency a thread.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal  # the door put it there
    return principal


Here = Annotated[Context, Depends(_context)]
Who = Annotated[Principal, Depends(_principal)]
