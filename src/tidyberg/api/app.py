"""Builds the ASGI application around a service: routes, middleware, error handling and the OpenAPI document."""

import asyncio
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse, RedirectResponse

from tidyberg._version import __version__
from tidyberg.api import problems
from tidyberg.api.admission import Admission, AdmissionMiddleware
from tidyberg.api.context import Context, Identify
from tidyberg.api.docs_page import docs_page
from tidyberg.api.openapi import DESCRIPTION, TAGS, openapi_document
from tidyberg.api.rate_limits import RateLimiter
from tidyberg.api.routes import (
    calibration,
    database,
    events,
    jobs,
    maintenance,
    maintenance_plans,
    operations,
    pauses,
    plans,
    probes,
    scan_reports,
    schedules,
    tables,
)
from tidyberg.api.security import Authenticator, secure
from tidyberg.api.thread_pool import FairThreadPool
from tidyberg.api.watched_jobs import StreamLimits, WatchedJobs
from tidyberg.record.changes import KEPT_EVENTS
from tidyberg.service.service import Service
from tidyberg.service.table_operations import ServiceOperations
from tidyberg.settings.serving import Server
from tidyberg.telemetry.http import TelemetryMiddleware

PREFIX = "/api/v1"
_ROUTERS = (
    jobs.router,
    maintenance.router,
    maintenance_plans.router,
    plans.router,
    tables.router,
    pauses.router,
    events.router,
    schedules.router,
    calibration.router,
    operations.router,
    operations.metrics_router,
)
_STREAM_THREADS = 2  # shared by all event streams, which may wait
_COMPACTION_THREADS = 32  # each waits for a job
_STREAM_SECONDS = 30.0  # how long a call of a stream may wait
_PLANNING_SECONDS = 10.0  # how long a call that reads catalogs and storage may wait
_MOST_WAITING = 500  # calls per pool; further calls are refused at once


def create_app(
    service: Service,
    *,
    server: Server | None = None,
    identify: Identify | None = None,
) -> FastAPI:
    """Returns the API of a service. `identify` replaces the authentication of the settings."""
    server = server or service.settings.server
    access = service.settings.access
    app = FastAPI(
        title="tidyberg",
        version=__version__,
        summary="Keeps Apache Iceberg tables tidy.",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    admission = Admission(server.max_wait_seconds)
    identify = identify or Authenticator(service.settings)
    keys_version = partial(getattr, identify, "version", 0)
    stopping = asyncio.Event()
    streams = StreamLimits(server.max_streams, server.max_streams_per_principal)
    service.metrics.count_streams(lambda: len(streams))
    app.state.context = Context(
        service=service,
        server=server,
        identify=identify,
        keys_version=keys_version,
        rate_limiter=RateLimiter(server.requests_per_second, server.burst),
        admission=admission,
        read_pool=FairThreadPool(server.threads, _MOST_WAITING, server.max_wait_seconds),
        write_pool=FairThreadPool(server.threads, _MOST_WAITING, server.max_wait_seconds),
        catalog_pool=FairThreadPool(server.threads, _MOST_WAITING, _PLANNING_SECONDS),
        stream_pool=FairThreadPool(_STREAM_THREADS, server.max_streams, _STREAM_SECONDS),
        operations_pool=FairThreadPool(server.threads, _MOST_WAITING, _PLANNING_SECONDS),
        compaction_pool=FairThreadPool(_COMPACTION_THREADS, _MOST_WAITING, _STREAM_SECONDS),
        operations=ServiceOperations(service),
        watched_jobs=WatchedJobs(partial(service.records.queue.news, limit=KEPT_EVENTS), stopping, keys_version),
        streams=streams,
        draining=asyncio.Event(),
        stopping=stopping,
    )
    problems.install(app)
    app.add_middleware(problems.Defects)
    secure(app, access, server)
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(probes.router)
    app.include_router(database.router)
    app.include_router(scan_reports.router)
    # The contract also has these routes without a prefix.
    for router in (jobs.router, operations.metrics_router):
        app.include_router(router, include_in_schema=False)
    _serve_documentation(app, secured=access.required)
    app.add_middleware(TelemetryMiddleware, metrics=service.metrics, tracer=service.control.tracer)
    app.add_middleware(AdmissionMiddleware, admission=admission, on_shed=service.metrics.connection_shed)
    return app


def _serve_documentation(app: FastAPI, *, secured: bool) -> None:
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            document.update(openapi_document(app, secured=secured))
        return document

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get("/", include_in_schema=False)
    async def home() -> RedirectResponse:
        """Leads a browser that opens the printed address to the documentation."""
        return RedirectResponse("/docs")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(openapi()))
