"""Routes for paused tables."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import Context, CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.parameters import Name, RequestModel, TableName
from tidyberg.model.principal import Principal
from tidyberg.model.submission import Pause

router = APIRouter(route_class=AuthenticatedRoute, tags=["tables"])


class PauseBody(RequestModel):
    table: TableName
    catalog: Name | None = Field(None, description="The default catalog if absent.")
    namespace: Name | None = Field(None, description="Needed if the table name does not contain it.")
    reason: str = Field(min_length=1, max_length=500, description="Why the table is paused.", examples=["migration"])
    until: AwareDatetime | None = Field(None, description="When the pause ends; absent: when the table is resumed.")


class PauseAnswer(BaseModel):
    catalog: str
    namespace: str
    table: str
    tenant: str
    paused_by: str
    reason: str
    since: Moment
    until: Moment | None = Field(description="null: until the table is resumed.")


class PauseList(BaseModel):
    pauses: list[PauseAnswer]


@router.get("/pauses", summary="List paused tables", responses=problems())
async def list_pauses(context: CurrentContext, who: CurrentPrincipal) -> PauseList:
    """Returns the paused tables that you may see."""
    found = await context.read_pool(context.service.pauses.all, who)
    return PauseList(pauses=[_answer(pause) for pause in found])


@router.post("/pauses", summary="Pause a table", responses=problems(404, *WITH_BODY))
async def pause_table(body: PauseBody, context: CurrentContext, who: CurrentPrincipal) -> PauseAnswer:
    """Until the table is resumed, no job for it is accepted or started: not for callers, schedules or auto.

    A running job continues. A second pause replaces the first.
    """
    return _answer(await context.write_pool(_pause, context, body, who))


@router.delete("/pauses", status_code=204, summary="Resume a table", responses=problems(404))
async def resume_table(
    table: Annotated[TableName, Query()],
    context: CurrentContext,
    who: CurrentPrincipal,
    catalog: Annotated[Name | None, Query(description="The default catalog if absent.")] = None,
    namespace: Annotated[Name | None, Query(description="Needed if the table name does not contain it.")] = None,
) -> None:
    """Jobs that waited for the table start within minutes."""
    await context.write_pool(_resume, context, table, catalog, namespace, who)


def _pause(context: Context, body: PauseBody, who: Principal) -> Pause:
    ref = context.service.resolve(body.table, body.catalog, body.namespace, who=who)
    return context.service.pauses.pause(ref, who, body.reason, _milliseconds(body.until))


def _resume(context: Context, table: str, catalog: str | None, namespace: str | None, who: Principal) -> None:
    context.service.pauses.resume(context.service.resolve(table, catalog, namespace, who=who), who)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _answer(pause: Pause) -> PauseAnswer:
    return PauseAnswer(
        catalog=pause.table.catalog,
        namespace=".".join(pause.table.namespace),
        table=pause.table.name,
        tenant=pause.tenant,
        paused_by=pause.paused_by,
        reason=pause.reason,
        since=pause.since_ms,
        until=pause.until_ms,
    )
