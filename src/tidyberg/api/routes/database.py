"""The route of table operations: one path for all of them. Every answer says whether it was a success."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter
from starlette.responses import JSONResponse

from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.problems import MEDIA_TYPE, invalid_request, respond
from tidyberg.errors import TidybergError
from tidyberg.operations.requests import OperationRequest

REQUEST_SCHEMA = TypeAdapter(OperationRequest).json_schema(ref_template="#/components/schemas/{model}")
REQUEST_MODELS: dict[str, Any] = REQUEST_SCHEMA.pop("$defs")

_TABLE = {"tenant_id": "test-tenant", "namespace": "default", "table": "users"}
_EXAMPLES = {
    "create": {
        "summary": "Create a table",
        "value": {
            "operation": "CREATE_TABLE",
            **_TABLE,
            "schema": {
                "fields": {
                    "name": {"type": "string", "required": True},
                    "email": {"type": "string"},
                    "age": {"type": "integer"},
                }
            },
            "if_not_exists": True,
        },
    },
    "write": {
        "summary": "Append records",
        "value": {
            "operation": "WRITE",
            **_TABLE,
            "records": [{"name": "Alice", "email": "alice@example.com", "age": 30}],
        },
    },
    "compact": {
        "summary": "Merge small files",
        "value": {
            "operation": "COMPACT",
            **_TABLE,
            "force": False,
            "target_file_size_mb": None,
            "max_files": None,
            "partition_filter": None,
            "expire_snapshots": True,
            "snapshot_retention_hours": 168,
        },
    },
    "query": {
        "summary": "Read rows",
        "value": {"operation": "QUERY", **_TABLE, "sql": "SELECT count(*) AS people FROM users"},
    },
    "health": {"summary": "Check the catalog", "value": {"operation": "HEALTH", "tenant_id": "test-tenant"}},
}


class CompactStatistics(BaseModel):
    files_before: int
    files_after: int
    files_compacted: int
    files_removed: int
    bytes_before: int
    bytes_after: int
    bytes_saved: int
    snapshots_expired: int
    compaction_time_ms: float
    small_files_remaining: int


class OperationResult(BaseModel):
    """The answer of an operation. Each operation fills its own fields."""

    success: bool
    status: str | None = Field(None, description="HEALTH: `healthy`.")
    version: str | None = Field(None, description="HEALTH: the version of the service.")
    created: bool | None = Field(None, description="CREATE_TABLE: false if the table existed already.")
    namespace: str | None = Field(None, description="CREATE_TABLE: the namespace of the table.")
    table: str | None = Field(None, description="CREATE_TABLE: the table.")
    records_written: int | None = Field(None, description="WRITE: the number of records in the commit.")
    compaction_recommended: bool | None = Field(None, description="WRITE: whether the table has enough small files.")
    small_files_count: int | None = Field(None, description="WRITE: null if this write did not check.")
    repeated: bool | None = Field(None, description="WRITE: an earlier request with this write_id wrote the records.")
    columns: list[str] | None = Field(None, description="QUERY: the names of the columns, in order.")
    records: list[dict[str, Any]] | None = Field(None, description="QUERY: the rows.")
    row_count: int | None = Field(None, description="QUERY: the number of rows returned.")
    truncated: bool | None = Field(None, description="QUERY: whether the result has more rows.")
    compacted: bool | None = Field(None, description="COMPACT: whether files were rewritten.")
    stats: CompactStatistics | None = Field(None, description="COMPACT: what it did.")
    message: str | None = Field(None, description="COMPACT: why nothing was compacted, or what is left.")
    job_id: str | None = Field(None, description="COMPACT: the job. WRITE: the compaction that it started.")
    compaction_error: str | None = Field(None, description="WRITE: why no compaction was started.")


class OperationRoute(AuthenticatedRoute):
    """Adds `success` and `error` to every problem, because clients of this route look for them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def enter(request: Request) -> Response:
            try:
                return await handle(request)
            except TidybergError as error:
                return _in_envelope(respond(error, scrub=request.app.state.context.service.control.scrub))
            except RequestValidationError as error:
                return _in_envelope(respond(*invalid_request(request, error)))

        return enter


router = APIRouter(route_class=OperationRoute, tags=["table operations"])


@router.post(
    "/database",
    summary="Run a table operation",
    responses={
        200: {"model": OperationResult, "description": "The operation succeeded."},
        202: {"model": OperationResult, "description": "The job of a COMPACT still runs; `job_id` names it."},
        **problems(404, 409, *WITH_BODY),
    },
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": REQUEST_SCHEMA, "examples": _EXAMPLES}}}},
    response_model=None,
)
async def database(body: dict[str, Any], context: CurrentContext, who: CurrentPrincipal) -> Response:
    """Creates, writes, reads or compacts a table of a tenant. `operation` decides which.

    The tenant of the credential is authoritative. A caller that may act for all tenants names one in `tenant_id`.
    The setting `operations.enabled` switches this route on. Errors also have `success: false` and `error`.
    """
    # A COMPACT waits for its job, so it must not take the threads of other operations.
    pool = context.compaction_pool if body.get("operation") == "COMPACT" else context.operations_pool
    answer = await pool(context.operations.handle, body, who)
    return JSONResponse(answer.body, status_code=answer.status)


def _in_envelope(response: Response) -> Response:
    problem = json.loads(bytes(response.body))
    text = " ".join(problem[key] for key in ("detail", "hint") if key in problem)
    headers = {
        name: value for name, value in response.headers.items() if name not in ("content-length", "content-type")
    }
    body = {"success": False, "error": text, **problem}
    return JSONResponse(body, status_code=response.status_code, headers=headers, media_type=MEDIA_TYPE)
