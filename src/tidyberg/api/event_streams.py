"""Streams the events of a job. A stream needs no thread and shares its reads of the store with others."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from tidyberg.api.context import Context
from tidyberg.api.watched_jobs import LOOK_SECONDS, WatchedJob, encoded
from tidyberg.errors import IdentityProviderDown, NotAuthenticated, Transient
from tidyberg.model.principal import Principal

EVENT_STREAM = "text/event-stream"
EVENT_SCHEMA = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "id": {"type": "string", "description": "The number of the event; `end` has none."},
        "event": {"type": "string", "enum": ["status", "stage", "progress", "notice", "end"]},
        "data": {"type": "string", "description": "A JSON object; `at` is the time of the event."},
        "retry": {"type": "string"},
    },
}
_RETRY_MILLISECONDS = 2000  # how long a client waits before it connects again
SEND_SECONDS = 60.0  # a client that reads nothing for this long is gone


class EventStream(StreamingResponse):
    """Ends with the job, the client or the service, or when the client stops reading."""

    media_type = EVENT_STREAM

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            scope["state"]["abort"]()  # a normal close would wait for the client
            await asyncio.sleep(0.1)
        finally:
            self._on_end()


class Viewer:
    """The caller of a stream. Its credential is checked again when API keys change."""

    def __init__(self, context: Context, request: Request) -> None:
        self._context = context
        self._request = request
        self._version: int = request.state.keys_version
        self._principal: Principal = request.state.principal

    async def may_still_look(self) -> bool:
        version = self._context.keys_version()
        if version == self._version:
            return True
        try:
            found = await self._context.identify(self._request)
        except NotAuthenticated:
            return False
        except IdentityProviderDown:
            return True  # checked again before the next events
        self._version = version
        return found == self._principal


async def watch(context: Context, job_id: str, after: int, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yields new events after that number, comments while there are none, and `end` when the job has ended."""
    yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
    with context.watched_jobs.watching(job_id) as (job, woken):
        while True:
            woken.clear()
            if not await viewer.may_still_look():
                return
            events = await _events(context, job, after)
            for number, text in events:
                yield text
                after = number
            if events:
                continue
            if job.is_over:
                if job.status is not None and job.status.is_final:
                    yield f"event: end\ndata: {json.dumps({'status': job.status.value})}\n\n".encode()
                return
            if context.stopping.is_set():
                return  # clients reconnect to another replica or to the next process
            try:
                await asyncio.wait_for(woken.wait(), context.server.heartbeat_seconds)
            except TimeoutError:
                yield b": still here\n\n"


async def _events(context: Context, job: WatchedJob, after: int) -> list[tuple[int, bytes]]:
    while (events := job.after(after)) is None:
        with suppress(Transient):  # the store does not answer now
            found = await context.stream_pool(context.service.records.queue.events, job.job_id, after=after)
            if found:
                return [(event.number, encoded(event)) for event in found]
            return []  # they were deleted meanwhile
        await asyncio.sleep(LOOK_SECONDS)
    return events
