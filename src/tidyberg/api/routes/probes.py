"""Liveness and readiness probes. They need no credential, so that load balancers can call them."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from tidyberg._version import __version__
from tidyberg.api.context import Context, CurrentContext
from tidyberg.errors import AccessDenied, IdentityProviderDown, NotAuthenticated
from tidyberg.service.requests import ReadinessReport

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"
    version: str = Field(examples=["0.1.0"])


class Ready(BaseModel):
    status: Literal["ok", "unavailable"]
    checks: dict[str, str] = Field(
        description="For each part: `ok`, or what is wrong.",
        examples=[{"store": "ok", "engine": "ok", "catalog default": "ok"}],
    )


@router.head("/health", include_in_schema=False)
@router.head("/health/live", include_in_schema=False)
@router.get("/health", summary="Whether the service runs", name="health")
@router.get("/health/live", summary="Whether the process is alive", name="live")
async def alive() -> Alive:
    """Answers without a call to any other system."""
    return Alive(version=__version__)


@router.head("/health/ready", include_in_schema=False)
@router.get(
    "/health/ready",
    summary="Whether the service can accept and run jobs",
    responses={503: {"model": Ready, "description": "A part that jobs need is not available; `checks` says which."}},
)
async def ready(context: CurrentContext, request: Request, response: Response) -> Ready:
    """Checks the store, the engine and the catalogs, each with a short timeout.

    If the service requires authentication, `checks` is empty for callers without a credential and for callers that
    see only one tenant.
    """
    found = await context.catalog_pool(context.service.ready)
    if context.draining.is_set():
        found = ReadinessReport(False, {"server": "The server is stopping.", **found.checks})
    if not found.ok:
        response.status_code = 503
        response.headers["Retry-After"] = "5"
    visible = found.checks if await _may_see_checks(context, request) else {}
    checks = {name: context.service.control.scrub(words) for name, words in visible.items()}
    return Ready(status="ok" if found.ok else "unavailable", checks=checks)


async def _may_see_checks(context: Context, request: Request) -> bool:
    """The checks name catalogs, so only callers that see all tenants may read them."""
    try:
        context.service.access.require_everyone(await context.identify(request))
    except (NotAuthenticated, AccessDenied, IdentityProviderDown):
        return False
    return True
