"""Routes that submit maintenance jobs. `routes/jobs.py` lists, shows, watches and cancels them."""

from typing import Any

from fastapi import APIRouter, Response

from tidyberg.api.answers import JobCreatedAnswer
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import Context, CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.job_answers import created
from tidyberg.api.parameters import IdempotencyKey
from tidyberg.api.requests import ExpireRequest, MaintainRequest
from tidyberg.api.routes.jobs import LOCATION, own_key
from tidyberg.model.principal import Principal
from tidyberg.service.requests import SubmitRequest

router = APIRouter(route_class=AuthenticatedRoute, tags=["jobs"])

_RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"description": "The job is queued; `Location` is its path.", "headers": LOCATION},
    **problems(404, 409, *WITH_BODY),
}


@router.post("/expire", status_code=202, summary="Expire snapshots", responses=_RESPONSES)
async def expire(
    body: ExpireRequest,
    context: CurrentContext,
    who: CurrentPrincipal,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobCreatedAnswer:
    """Queues a job that expires old snapshots, and deletes the files that no other snapshot needs.

    Expired snapshots cannot be brought back. Only admins may do this, unless `access.job_roles` says otherwise.
    """
    return await _submit(context, body.to_request(), who, idempotency_key, response)


@router.post("/maintain", status_code=202, summary="Maintain a table", responses=_RESPONSES)
async def maintain(
    body: MaintainRequest,
    context: CurrentContext,
    who: CurrentPrincipal,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobCreatedAnswer:
    """Queues a job that does all that the table needs, in order: deletes, data, manifests, expire, orphans.

    `notes` of the job has a line for each step. Expired snapshots cannot be brought back. Only admins may do this,
    unless `access.job_roles` says otherwise.
    """
    return await _submit(context, body.to_request(), who, idempotency_key, response)


async def _submit(
    context: Context, request: SubmitRequest, who: Principal, key: str | None, response: Response
) -> JobCreatedAnswer:
    submission = await context.write_pool(context.service.submit, request, who, own_key(key))
    response.headers["Location"] = f"/api/v1/jobs/{submission.job_id}"
    return created(submission)
