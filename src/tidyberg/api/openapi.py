"""The OpenAPI document of FastAPI, with our problem documents in place of its own errors."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tidyberg.api.problems import ProblemDetails
from tidyberg.api.routes.database import REQUEST_MODELS

DESCRIPTION = """\
Plan, submit, watch and schedule compactions of Apache Iceberg tables, and expire their snapshots.

Errors are `application/problem+json` with a stable `code`. All routes that submit jobs accept an
`Idempotency-Key`, so that a client can safely repeat them. Unknown fields and parameters are refused.
"""
TAGS = [
    {"name": "jobs", "description": "Submit compactions and other jobs, and follow them."},
    {"name": "plans", "description": "See what a compaction would do, and run exactly that plan."},
    {"name": "tables", "description": "List tables and show their health."},
    {"name": "schedules", "description": "Jobs at fixed times."},
    {"name": "table operations", "description": "Create, write, query and compact the tables of tenants."},
    {"name": "events", "description": "Report commits, so that their tables are looked at."},
    {"name": "scan reports", "description": "Report scans, as to a REST catalog, so that layouts follow queries."},
    {"name": "operations", "description": "For operators of the service."},
    {"name": "health", "description": "For load balancers and orchestrators."},
]
_SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a token (JWT) of the identity provider.",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}
# FastAPI's own errors, which problem documents replace, and enumerations that fields list themselves.
_UNUSED = ("HTTPValidationError", "ValidationError", "Strategy", "RewriteMode")


def openapi_document(app: FastAPI, *, secured: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        license_info=app.license_info,
    )
    schemas = document["components"]["schemas"]
    for name in _UNUSED:
        schemas.pop(name, None)
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    schemas |= REQUEST_MODELS
    if secured:
        document["components"]["securitySchemes"] = _SECURITY_SCHEMES
        for operation in _operations(document):
            operation["security"] = [] if "health" in operation["tags"] else [{name: []} for name in _SECURITY_SCHEMES]
    return document


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()
