"""Routes of schedules: list, create, show, replace, delete."""

import uuid
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.context import Context, Here, Who
from tidyberg.api.described import WITH_BODY, problems
from tidyberg.api.door import DoorRoute
from tidyberg.api.names import ScheduleId
from tidyberg.api.requests import NewSchedule, ScheduleBody
from tidyberg.model.principal import ALL_TENANTS, Principal
from tidyberg.model.submission import DEFAULT_TENANT, Schedule

router = APIRouter(route_class=DoorRoute, prefix="/schedules", tags=["schedules"])


class ScheduleAnswer(BaseModel):
    schedule_id: str
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
    source: Literal["settings", "api"] = Field(description="Those of the settings change with the settings only.")
    created_at: Moment
    updated_at: Moment
    last_due: Moment | None = Field(description="The newest of its times that is dealt with; null before the first.")
    next_due: Moment | None = Field(description="When it comes next, without its jitter; null while it is paused.")


class ScheduleList(BaseModel):
    schedules: list[ScheduleAnswer]


@router.get("", summary="List schedules", responses=problems())
async def list_schedules(here: Here, who: Who) -> ScheduleList:
    """Those of the settings and those that were created here, by id."""
    return ScheduleList(schedules=await here.looking(_all, here, who))


@router.post("", status_code=201, summary="Create a schedule", responses=problems(404, 409, *WITH_BODY))
async def create_schedule(body: NewSchedule, here: Here, who: Who, response: Response) -> ScheduleAnswer:
    """From now on jobs are submitted at its times, exactly once each, by whichever replica comes first."""
    schedule = body.to_schedule(body.schedule_id or str(uuid.uuid4()), _tenant(who))
    saved = await here.acting(here.service.save_schedule, schedule, who, new=True)
    response.headers["Location"] = f"/api/v1/schedules/{saved.schedule_id}"
    return await here.looking(_answer, here, saved)


@router.get("/{schedule_id}", summary="Show a schedule", responses=problems(404))
async def show_schedule(schedule_id: ScheduleId, here: Here, who: Who) -> ScheduleAnswer:
    """What it submits, when it did so last, and when it will next."""
    return await here.looking(_show, here, schedule_id, who)


@router.put("/{schedule_id}", summary="Create or replace a schedule", responses=problems(404, 409, *WITH_BODY))
async def replace_schedule(schedule_id: ScheduleId, body: ScheduleBody, here: Here, who: Who) -> ScheduleAnswer:
    """All of it: what the body leaves out takes its default. `enabled: false` pauses it."""
    saved = await here.acting(here.service.save_schedule, body.to_schedule(schedule_id, _tenant(who)), who)
    return await here.looking(_answer, here, saved)


@router.delete("/{schedule_id}", status_code=204, summary="Delete a schedule", responses=problems(404, 409))
async def delete_schedule(schedule_id: ScheduleId, here: Here, who: Who) -> None:
    """Jobs that it submitted stay."""
    await here.acting(here.service.delete_schedule, schedule_id, who)


def _tenant(who: Principal) -> str:
    """For whom a schedule is that names no tenant."""
    return DEFAULT_TENANT if who.tenant == ALL_TENANTS else who.tenant


def _all(here: Context, who: Principal) -> list[ScheduleAnswer]:
    return [_answer(here, schedule) for schedule in here.service.schedules(who)]


def _show(here: Context, schedule_id: str, who: Principal) -> ScheduleAnswer:
    return _answer(here, here.service.schedule(schedule_id, who))


def _answer(here: Context, schedule: Schedule) -> ScheduleAnswer:
    times = here.service.schedule_times(schedule)
    return ScheduleAnswer(
        schedule_id=schedule.schedule_id,
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
