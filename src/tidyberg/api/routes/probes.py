"""Routes that tell whether the service lives and whether it can work; open to everyone, for load balancers."""

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
        description="Each part: `ok`, or what is wrong with it.",
        examples=[{"store": "ok", "engine": "ok", "catalog default": "ok"}],
    )


@router.head("/health", include_in_schema=False)
@router.head("/health/live", include_in_schema=False)
@router.get("/health", summary="Whether the service runs", name="health")
@router.get("/health/live", summary="Whether the process lives", name="live")
async def alive() -> Alive:
    """Answers without asking anybody else."""
    return Alive(version=__version__)


@router.head("/health/ready", include_in_schema=False)
@router.get(
    "/health/ready",
    summary="Whether jobs can be taken and run",
    responses={503: {"model": Ready, "description": "Something that jobs need is not there; `checks` says what."}},
)
async def ready(context: CurrentContext, request: Request, response: Response) -> Ready:
    """Asks the store, the engine and the catalogs, each for a short time only.

    Where callers must say who they are, `checks` is empty for those who did not, or who see one tenant only.
    """
    found = await context.catalog_pool(context.service.ready)
    if context.draining.is_set():
        found = ReadinessReport(False, {"server": "It is stopping.", **found.checks})
    if not found.ok:
        response.status_code = 503
        response.headers["Retry-After"] = "5"
    told = found.checks if await _may_know(context, request) else {}
    checks = {name: context.service.control.scrub(words) for name, words in told.items()}
    return Ready(status="ok" if found.ok else "unavailable", checks=checks)


async def _may_know(context: Context, request: Request) -> bool:
    """Which catalogs there are, and what is wrong with them, is not for everyone."""
    try:
        context.service.access.require_everyone(await context.identify(request))
    except (NotAuthenticated, AccessDenied, IdentityProviderDown):
        return False
    return True
