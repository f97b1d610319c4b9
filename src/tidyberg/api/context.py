"""What the routes share: the service, who may enter, and threads for calls that block."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from tidyberg.api.admission import Admission
from tidyberg.api.rate_limits import RateLimiter
from tidyberg.api.thread_pool import FairThreadPool
from tidyberg.api.watched_jobs import StreamLimits, WatchedJobs
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
    rate_limiter: RateLimiter
    admission: Admission
    # Apart, so that calls that wait for a catalog do not keep the others waiting.
    read_pool: FairThreadPool  # asks only the store
    write_pool: FairThreadPool  # changes what is stored; may ask a catalog for a moment
    catalog_pool: FairThreadPool  # asks catalogs and storage
    stream_pool: FairThreadPool  # reads for streams of events, which may be many
    watched_jobs: WatchedJobs
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


CurrentContext = Annotated[Context, Depends(_context)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
