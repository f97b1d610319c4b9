"""Types of request parameters."""

from typing import Annotated

from fastapi import Header, Path
from pydantic import BaseModel, ConfigDict, Field

from tidyberg.model.submission import MAX_PRIORITY, MIN_PRIORITY

# No control characters: names appear in logs, paths and terminals.
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
_IDENTIFIER = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Name = Annotated[str, Field(min_length=1, max_length=255, pattern=_PRINTABLE)]
TableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        pattern=_PRINTABLE,
        description="A table: `name` or `namespace.name`.",
        examples=["events", "analytics.events"],
    ),
]
TenantName = Annotated[str, Field(min_length=1, max_length=255, pattern=_PRINTABLE, examples=["default"])]
Priority = Annotated[
    int,
    Field(
        ge=MIN_PRIORITY, le=MAX_PRIORITY, description="Jobs of a tenant with a higher priority run first; 0 by default."
    ),
]
JobId = Annotated[
    str,
    Path(
        max_length=64,
        pattern=_IDENTIFIER,
        description="The id that the submission of the job returned.",
        examples=["550e8400-e29b-41d4-a716-446655440000"],
    ),
]
ScheduleId = Annotated[str, Path(max_length=128, pattern=_IDENTIFIER, examples=["nightly-events"])]
NewScheduleId = Annotated[str, Field(min_length=1, max_length=128, pattern=_IDENTIFIER, examples=["nightly-events"])]
PlanHash = Annotated[
    str,
    Path(
        min_length=64,
        max_length=64,
        pattern=r"^[0-9a-f]{64}$",
        description="The hash that `POST /api/v1/plan` returned.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="A second identical request with this key returns the first job; a different request is refused.",
        examples=["events-2024-01-15"],
    ),
]


class RequestModel(BaseModel):
    """Base class of request models. It refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
