"""Server-sent events of a job: many may watch, none of them holds a thread."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import Request

from tidyberg.api.answers import moment_text
from tidyberg.api.context import Context
from tidyberg.errors import Transient, UnknownJob
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import Principal
from tidyberg.model.submission import JobEvent

EVENT_STREAM = "text/event-stream"
EVENT_SCHEMA = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "id": {"type": "string", "description": "Its number; `end` has none."},
        "event": {"type": "string", "enum": ["status", "stage", "progress", "notice", "end"]},
        "data": {"type": "string", "description": "A JSON object; `at` says when."},
        "retry": {"type": "string"},
    },
}
_LOOK_SECONDS = 0.5
_RETRY_MILLISECONDS = 2000  # how long a client waits before it connects again


async def watch(context: Context, request: Request, job_id: str, who: Principal, after: int) -> AsyncIterator[str]:
    """Events after that number as they come, comments while there are none, and `end` when the job has ended."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n"
    quiet = 0.0
    while not await request.is_disconnected():
        try:
            status, events = await context.looking(_look, context, job_id, who, after)
        except UnknownJob:
            return  # it ended long ago and was forgotten meanwhile
        except Transient:  # the store is away for now
            status, events = JobStatus.RUNNING, []
        for event in events:
            yield _event(event)
            after = event.number
        if not events and status.is_final:
            yield f"event: end\ndata: {json.dumps({'status': status.value})}\n\n"
            return
        if events:
            quiet = 0.0
            continue
        if context.stopping.is_set():
            return  # clients come back, to another replica or to the next process
        quiet += _LOOK_SECONDS
        if quiet >= context.server.heartbeat_seconds:
            yield ": still here\n\n"
            quiet = 0.0
        with suppress(TimeoutError):
            await asyncio.wait_for(context.stopping.wait(), _LOOK_SECONDS)


def _look(context: Context, job_id: str, who: Principal, after: int) -> tuple[JobStatus, list[JobEvent]]:
    # The status first: when it is final, all events are there to be read.
    status = context.service.job(job_id, who).submission.status
    return status, context.service.events(job_id, who, after)


def _event(event: JobEvent) -> str:
    data = json.dumps({"at": moment_text(event.at_ms), **event.data}, ensure_ascii=False)
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
