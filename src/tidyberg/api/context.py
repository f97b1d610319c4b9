"""What the routes share: the service, who may enter, and threads for calls that block."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from tidyberg.api.admission import Admission
from tidyberg.api.rates import Rates
from tidyberg.api.threads import Threads
from tidyberg.api.watchers import StreamLimits, Watchers
from tidyberg.model.principal import Principal
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server

Identify = Callable[[Request], Awaitable[Principal]]  # raises NotAuthenticated


@dataclass(frozen=True)
class Context:
    service: Service
    server: Server
    identify: Identify
    keys_version: Callable[[], int]  # another number: credentials that were right may be so no more
    rates: Rates
    admission: Admission
    # Apart, so that calls that wait for a catalog do not keep the others waiting.
    looking: Threads  # asks only the store
    acting: Threads  # changes what is stored; may ask a catalog for a moment
    observing: Threads  # asks catalogs and storage
    watching: Threads  # reads for streams of events, which may be many
    watchers: Watchers
    streams: StreamLimits
    draining: asyncio.Event  # it is to stop soon: not ready any more, but every request is answered
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
