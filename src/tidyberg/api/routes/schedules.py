"""Routes for schedules: list, create, show, replace and delete."""

import uuid
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import Context, CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.parameters import ScheduleId
from tidyberg.api.requests import NewSchedule, ScheduleBody
from tidyberg.model.principal import ALL_TENANTS, Principal
from tidyberg.model.submission import DEFAULT_TENANT, Schedule

router = APIRouter(route_class=AuthenticatedRoute, prefix="/schedules", tags=["schedules"])


class ScheduleAnswer(BaseModel):
    schedule_id: str
    kind: str = Field(description="What the jobs do.", examples=["compact", "expire"])
    cron: str
    catalog: str | None
    table: str
    strategy: str | None
    options: dict[str, Any]
    timezone: str
    jitter_seconds: int
    missed: Literal["skip", "once", "all"]
    enabled: bool
    tenant: str
    priority: int
    source: Literal["settings", "api"] = Field(description="Schedules from the settings can be changed only there.")
    created_at: Moment
    updated_at: Moment
    last_due: Moment | None = Field(description="The newest due time that was handled; null before the first.")
    next_due: Moment | None = Field(description="The next due time, without jitter; null if the schedule is disabled.")


class ScheduleList(BaseModel):
    schedules: list[ScheduleAnswer]


@router.get("", summary="List schedules", responses=problems())
async def list_schedules(context: CurrentContext, who: CurrentPrincipal) -> ScheduleList:
    """Returns the schedules of the settings and of the API, ordered by id."""
    return ScheduleList(schedules=await context.read_pool(_all, context, who))


@router.post("", status_code=201, summary="Create a schedule", responses=problems(404, 409, *WITH_BODY))
async def create_schedule(
    body: NewSchedule, context: CurrentContext, who: CurrentPrincipal, response: Response
) -> ScheduleAnswer:
    """Submits a job at each due time from now on. Each job is submitted exactly once, by any replica."""
    schedule = body.to_schedule(body.schedule_id or str(uuid.uuid4()), _tenant(who))
    saved = await context.write_pool(context.service.save_schedule, schedule, who, new=True)
    response.headers["Location"] = f"/api/v1/schedules/{saved.schedule_id}"
    return await context.read_pool(_answer, context, saved)


@router.get("/{schedule_id}", summary="Show a schedule", responses=problems(404))
async def show_schedule(schedule_id: ScheduleId, context: CurrentContext, who: CurrentPrincipal) -> ScheduleAnswer:
    """Returns what the schedule submits, its last due time and its next one."""
    return await context.read_pool(_show, context, schedule_id, who)


@router.put("/{schedule_id}", summary="Create or replace a schedule", responses=problems(404, 409, *WITH_BODY))
async def replace_schedule(
    schedule_id: ScheduleId, body: ScheduleBody, context: CurrentContext, who: CurrentPrincipal
) -> ScheduleAnswer:
    """Replaces the whole schedule: absent fields take their defaults. `enabled: false` pauses it."""
    saved = await context.write_pool(context.service.save_schedule, body.to_schedule(schedule_id, _tenant(who)), who)
    return await context.read_pool(_answer, context, saved)


@router.delete("/{schedule_id}", status_code=204, summary="Delete a schedule", responses=problems(404, 409))
async def delete_schedule(schedule_id: ScheduleId, context: CurrentContext, who: CurrentPrincipal) -> None:
    """Jobs that the schedule submitted stay."""
    await context.write_pool(context.service.delete_schedule, schedule_id, who)


def _tenant(who: Principal) -> str:
    """Returns the tenant of a schedule that names none."""
    return DEFAULT_TENANT if who.tenant == ALL_TENANTS else who.tenant


def _all(context: Context, who: Principal) -> list[ScheduleAnswer]:
    return [_answer(context, schedule) for schedule in context.service.schedules(who)]


def _show(context: Context, schedule_id: str, who: Principal) -> ScheduleAnswer:
    return _answer(context, context.service.schedule(schedule_id, who))


def _answer(context: Context, schedule: Schedule) -> ScheduleAnswer:
    times = context.service.schedule_times(schedule)
    return ScheduleAnswer(
        schedule_id=schedule.schedule_id,
        kind=schedule.kind,
        cron=schedule.cron,
        catalog=schedule.catalog,
        table=schedule.table,
        strategy=schedule.strategy,
        options=dict(schedule.options),
        timezone=schedule.timezone,
        jitter_seconds=schedule.jitter_seconds,
        missed=schedule.missed,
        enabled=schedule.enabled,
        tenant=schedule.tenant,
        priority=schedule.priority,
        source=schedule.source,
        created_at=schedule.created_ms,
        updated_at=schedule.updated_ms,
        last_due=times.last_due_ms,
        next_due=times.next_due_ms,
    )
