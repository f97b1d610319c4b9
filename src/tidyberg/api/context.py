"""What all routes share: the service, authentication, limits and thread pools."""

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
from tidyberg.service.table_operations import ServiceOperations
from tidyberg.settings.serving import Server

Identify = Callable[[Request], Awaitable[Principal]]  # raises NotAuthenticated


@dataclass(frozen=True)
class Context:
    service: Service
    server: Server
    identify: Identify
    keys_version: Callable[[], int]  # changes when API keys change
    rate_limiter: RateLimiter
    admission: Admission
    # Separate pools, so that a slow catalog does not block other calls.
    read_pool: FairThreadPool  # reads the store
    write_pool: FairThreadPool  # writes to the store; may call a catalog briefly
    catalog_pool: FairThreadPool  # reads catalogs and storage
    stream_pool: FairThreadPool  # reads the store for event streams
    operations_pool: FairThreadPool  # writes to and reads tables
    compaction_pool: FairThreadPool  # waits for compactions
    operations: ServiceOperations
    watched_jobs: WatchedJobs
    streams: StreamLimits
    draining: asyncio.Event  # will stop soon: not ready, but still answers requests
    stopping: asyncio.Event


# These are coroutines because FastAPI runs other dependencies in a thread.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal  # set by AuthenticatedRoute
    return principal


CurrentContext = Annotated[Context, Depends(_context)]
CurrentPrincipal = Annotated[Principal, Depends(_principal)]
