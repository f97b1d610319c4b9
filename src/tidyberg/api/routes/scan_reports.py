"""The routes of Iceberg's REST catalog that take metrics of scans. Engines send them, or catalogs forward them."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response
from pydantic import Field

from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import Context, CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.parameters import Name
from tidyberg.model.principal import Principal
from tidyberg.service.report_parsing import parse_report

router = APIRouter(route_class=AuthenticatedRoute, tags=["scan reports"])

_EXAMPLE = {
    "report-type": "scan-report",
    "table-name": "default.public.events",
    "snapshot-id": 3051729675574597004,
    "filter": {"type": "eq", "term": "id", "value": "(2-digit-int)"},
    "schema-id": 0,
    "projected-field-ids": [1, 2],
    "projected-field-names": ["id", "name"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2644235116},
        "result-data-files": {"unit": "count", "value": 5},
        "skipped-data-files": {"unit": "count", "value": 35},
        "total-file-size-in-bytes": {"unit": "bytes", "value": 8388608},
    },
}
# The levels of a namespace are separated by the unit separator, 0x1F, as the REST specification says.
_Namespace = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1e\x7f]+$"),
    Path(description="The levels of the namespace, joined by the unit separator (%1F).", examples=["public"]),
]
_Report = Annotated[Any, Body(openapi_examples={"scan report": {"value": _EXAMPLE}})]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    204: {"description": "The report is taken, or is of a kind that this service ignores."},
    **problems(404, *WITH_BODY),
}


@router.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    status_code=204,
    summary="Report a scan of a table",
    responses=_RESPONSES,
)
async def report_metrics_with_prefix(
    prefix: Annotated[Name, Path(description="The catalog, as its clients or these settings call it.")],
    namespace: _Namespace,
    table: Annotated[Name, Path(examples=["events"])],
    body: _Report,
    context: CurrentContext,
    who: CurrentPrincipal,
) -> Response:
    """Takes a `ReportMetricsRequest` of Iceberg's REST specification, as catalogs do.

    Scan reports are added up by table, day and the columns and operators of the filter, for `tidyberg advise`.
    Reports of commits are ignored.
    """
    return await context.write_pool(_take, context, who, prefix, namespace, table, body)


@router.post(
    "/v1/namespaces/{namespace}/tables/{table}/metrics",
    status_code=204,
    summary="Report a scan of a table of the default catalog",
    responses=_RESPONSES,
)
async def report_metrics(
    namespace: _Namespace,
    table: Annotated[Name, Path(examples=["events"])],
    body: _Report,
    context: CurrentContext,
    who: CurrentPrincipal,
) -> Response:
    """The same as the route with a prefix, for clients that have none."""
    return await context.write_pool(_take, context, who, "", namespace, table, body)


def _take(context: Context, who: Principal, prefix: str, namespace: str, table: str, body: Any) -> Response:
    dotted = namespace.replace("\x1f", ".")
    context.service.report_scan(lambda: parse_report(body), who, prefix, dotted, table)
    return Response(status_code=204)
