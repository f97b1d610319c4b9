"""The route that takes events of commits."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, Field

from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.service.event_parsing import parse_events

router = APIRouter(route_class=AuthenticatedRoute, tags=["events"])

_EXAMPLES = [
    {
        "specversion": "1.0",
        "id": "0195d6a2-7d0c-7d51-9a5b-3f6e1c2d4b5a",
        "source": "uri:iceberg-catalog-service:catalog-0",
        "type": "updateTable",
        "tabular-type": "table",
        "namespace": "analytics",
        "name": "events",
        "warehouse-id": "c0ffee00-0000-4000-8000-000000000001",
        "data": {},
    },
    {
        "Records": [
            {
                "eventName": "ObjectCreated:Put",
                "s3": {
                    "bucket": {"name": "lake"},
                    "object": {"key": "analytics/events/metadata/00042-7c.metadata.json", "sequencer": "0055AED6DCD9"},
                },
            }
        ]
    },
]


class EventsAnswer(BaseModel):
    accepted: int = Field(description="Events that lead to a look at their table.")
    duplicates: int = Field(description="Events that arrived before.")
    ignored: list[str] = Field(description="Why each of the other events leads to nothing.")


@router.post("/events", status_code=202, summary="Report commits", responses=problems(404, 409, *WITH_BODY))
async def receive_events(
    body: Annotated[Any, Body(openapi_examples={f"example {n}": {"value": one} for n, one in enumerate(_EXAMPLES, 1)})],
    request: Request,
    context: CurrentContext,
    who: CurrentPrincipal,
) -> EventsAnswer:
    """Takes CloudEvents of catalogs (structured, batched, or binary with `ce-` headers), and S3 notifications.

    A table that was committed to is looked at when it is quiet, and compacted if that pays, as in auto mode. A service
    takes no events unless `scheduler.events.enabled` is set.
    """
    types = context.service.settings.scheduler.events.types
    events = parse_events(body, request.headers, types)
    taken = await context.write_pool(context.service.receive, events, who)
    return EventsAnswer(accepted=taken.accepted, duplicates=taken.duplicates, ignored=list(taken.ignored))
