"""Routes for jobs: submit, list, show, cancel and watch."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from tidyberg.api.answers import JobAnswer, JobCreatedAnswer, JobPageAnswer
from tidyberg.api.authenticated_route import AuthenticatedRoute, counted_as
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.event_streams import EVENT_SCHEMA, EVENT_STREAM, EventStream, Viewer, watch
from tidyberg.api.job_answers import created, job_answer
from tidyberg.api.parameters import IdempotencyKey, JobId
from tidyberg.api.requests import CompactRequest, JobFilters
from tidyberg.errors import BadInput
from tidyberg.model import submission as model
from tidyberg.model.principal import Principal
from tidyberg.record.clock import wall_clock_ms
from tidyberg.service.requests import JobView
from tidyberg.service.service import Service

router = APIRouter(route_class=AuthenticatedRoute, tags=["jobs"])

_RESERVED_KEYS = ("schedule:", "auto:")
LOCATION = {"Location": {"description": "The path of the job.", "schema": {"type": "string"}}}


@router.post(
    "/compact",
    status_code=202,
    summary="Submit a compaction",
    responses={
        202: {"description": "The job is queued; `Location` is its path.", "headers": LOCATION},
        **problems(404, 409, *WITH_BODY),
    },
)
async def compact(
    body: CompactRequest,
    context: CurrentContext,
    who: CurrentPrincipal,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobCreatedAnswer:
    """Queues a job that plans, rewrites, verifies and commits. Answers at once. The table must exist.

    `estimated_duration_seconds` comes from earlier jobs or the newest snapshot. It is null if neither is known.
    """
    submission = await context.write_pool(context.service.submit, body.to_request(), who, own_key(idempotency_key))
    response.headers["Location"] = f"/api/v1/jobs/{submission.job_id}"
    return created(submission)


def own_key(key: str | None) -> str | None:
    """Refuses keys with a prefix that schedules use, so that the two never collide."""
    if key is not None and key.startswith(_RESERVED_KEYS):
        raise BadInput(f"Idempotency keys that start with {key.partition(':')[0]}: are reserved for the service.")
    return key


@router.get("/jobs", summary="List jobs", responses=problems(404))
async def list_jobs(
    filters: Annotated[JobFilters, Query()], context: CurrentContext, who: CurrentPrincipal
) -> JobPageAnswer:
    """Returns one page of jobs, the newest first unless `sort` says otherwise.

    Only the answer for a single job says what its run did. Here `progress`, `stage`, `left`, `stats`, `notes`,
    `snapshot_id` and the counts of groups, bytes, files and requests are empty.
    """
    return await context.read_pool(_page, context.service, filters, who)


def _page(service: Service, filters: JobFilters, who: Principal) -> JobPageAnswer:
    table = service.resolve(filters.table, filters.catalog, filters.namespace, who=who) if filters.table else None
    query = model.Query(
        tenants=frozenset((filters.tenant,)) if filters.tenant else None,
        statuses=frozenset(filters.status) or None,
        table=table,
        created_by=filters.created_by,
        newest_first=filters.sort == "-created_at",
        limit=filters.limit,
        cursor=filters.cursor,
    )
    page = service.jobs(query, who)
    now = wall_clock_ms()
    return JobPageAnswer(jobs=[job_answer(one, None, now) for one in page.submissions], next_cursor=page.next)


@router.get("/jobs/{job_id}", summary="Show a job", responses=problems(404))
async def show_job(job_id: JobId, context: CurrentContext, who: CurrentPrincipal) -> JobAnswer:
    """Returns the request, the progress and the result of a job."""
    view = await context.read_pool(context.service.job, job_id, who)
    return job_answer(view.submission, view.run, wall_clock_ms())


@router.delete("/jobs/{job_id}", summary="Cancel a job", responses=problems(404))
async def cancel_job(job_id: JobId, context: CurrentContext, who: CurrentPrincipal) -> JobAnswer:
    """A queued job ends at once. A running job stops soon and leaves the table unchanged. A finished job stays."""
    view = await context.write_pool(_cancel, context.service, job_id, who)
    return job_answer(view.submission, view.run, wall_clock_ms())


def _cancel(service: Service, job_id: str, who: Principal) -> JobView:
    service.cancel(job_id, who)
    return service.job(job_id, who)


@router.get(
    "/jobs/{job_id}/events",
    summary="Watch a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events until the job ends. `id` is the number of the event. Send the last one as "
            "`Last-Event-ID` to continue after it. The last event of the stream is `end`.",
            "content": {
                EVENT_STREAM: {
                    "schema": EVENT_SCHEMA,
                    "example": 'id: 3\nevent: stage\ndata: {"at": "2024-01-15T10:00:09Z", "stage": "execute"}\n\n',
                }
            },
        },
        **problems(404),
    },
)
async def watch_job(
    job_id: JobId,
    context: CurrentContext,
    who: CurrentPrincipal,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53, description="Return only events with a higher number.")] = 0,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern=r"^[0-9]{1,15}$",
            description="Takes precedence over `after`.",
            examples=["3"],
        ),
    ] = None,
) -> StreamingResponse:
    """Streams server-sent events: `status`, `stage`, `progress`, `notice` and `end`."""
    start = int(last_event_id) if last_event_id is not None else after
    key = counted_as(request, who)
    context.streams.enter(key)
    try:
        view = await context.stream_pool(context.service.job, job_id, who)  # raises before the stream starts
    except BaseException:
        context.streams.leave(key)
        raise
    events = watch(context, view.submission.job_id, start, Viewer(context, request))
    return EventStream(events, lambda: context.streams.leave(key))
