"""Routes of pauses: tables that are left alone for a time."""

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
    catalog: Name | None = Field(None, description="The default one when absent.")
    namespace: Name | None = Field(None, description="Else it is in the table's name.")
    reason: str = Field(min_length=1, max_length=500, description="Why, for others to read.", examples=["migration"])
    until: AwareDatetime | None = Field(None, description="When it ends by itself; else it is resumed by someone.")


class PauseAnswer(BaseModel):
    catalog: str
    namespace: str
    table: str
    tenant: str
    paused_by: str
    reason: str
    since: Moment
    until: Moment | None = Field(description="null: until someone resumes it.")


class PauseList(BaseModel):
    pauses: list[PauseAnswer]


@router.get("/pauses", summary="List paused tables", responses=problems())
async def list_pauses(context: CurrentContext, who: CurrentPrincipal) -> PauseList:
    """Those that you may see."""
    found = await context.read_pool(context.service.pauses.all, who)
    return PauseList(pauses=[_answer(pause) for pause in found])


@router.post("/pauses", summary="Pause a table", responses=problems(404, *WITH_BODY))
async def pause_table(body: PauseBody, context: CurrentContext, who: CurrentPrincipal) -> PauseAnswer:
    """No job of it is taken in or begun until it is resumed: not for callers, schedules or auto. One that runs goes on.

    A pause that there is already is replaced.
    """
    return _answer(await context.write_pool(_pause, context, body, who))


@router.delete("/pauses", status_code=204, summary="Resume a table", responses=problems(404))
async def resume_table(
    table: Annotated[TableName, Query()],
    context: CurrentContext,
    who: CurrentPrincipal,
    catalog: Annotated[Name | None, Query(description="The default one when absent.")] = None,
    namespace: Annotated[Name | None, Query(description="Else it is in the table's name.")] = None,
) -> None:
    """Jobs that waited go on within minutes."""
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
