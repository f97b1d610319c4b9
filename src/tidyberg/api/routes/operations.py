"""Routes for operators: the audit log and metrics."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import problems
from tidyberg.model.submission import AuditEntry
from tidyberg.telemetry.metrics import CONTENT_TYPE

router = APIRouter(route_class=AuthenticatedRoute, tags=["operations"])
metrics_router = APIRouter(route_class=AuthenticatedRoute, tags=["operations"])

_METRICS_EXAMPLE = """\
# HELP compaction_jobs_total Total number of compaction jobs
# TYPE compaction_jobs_total counter
compaction_jobs_total{status="success"} 142
compaction_jobs_total{status="failed"} 3
"""


class AuditAnswer(BaseModel):
    """A call that changed something, or tried to."""

    number: int
    at: Moment
    who: str
    tenant: str
    action: str = Field(examples=["job.submit"])
    target: str
    outcome: Literal["allowed", "denied", "failed"]
    details: dict[str, Any]


class AuditPage(BaseModel):
    entries: list[AuditAnswer]
    next_before: int | None = Field(description="The `before` of the next page; null on the last page.")


@router.get("/audit", summary="Read the audit log", responses=problems())
async def read_audit(
    context: CurrentContext,
    who: CurrentPrincipal,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="Return only entries with a lower number.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries on a page.")] = 50,
) -> AuditPage:
    """Returns the calls that changed something or were refused, the newest first. Only admins may read it."""
    entries = await context.read_pool(context.service.audit, who, before, limit)
    following = entries[-1].number if len(entries) == limit and entries[-1].number > 1 else None
    return AuditPage(entries=[_entry(entry) for entry in entries], next_before=following)


@metrics_router.get(
    "/metrics",
    summary="Read metrics",
    response_class=Response,
    responses={
        200: {
            "description": "The text format of Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": _METRICS_EXAMPLE}},
        },
        **problems(),
    },
)
async def read_metrics(context: CurrentContext, who: CurrentPrincipal) -> Response:
    """Returns metrics for Prometheus. `/metrics` returns the same."""
    context.service.access.require_everyone(who)
    return Response(await context.read_pool(context.service.metrics.render), media_type=CONTENT_TYPE)


def _entry(entry: AuditEntry) -> AuditAnswer:
    return AuditAnswer(
        number=entry.number,
        at=entry.at_ms,
        who=entry.who,
        tenant=entry.tenant,
        action=entry.action,
        target=entry.target,
        outcome=entry.outcome,
        details=dict(entry.details),
    )
