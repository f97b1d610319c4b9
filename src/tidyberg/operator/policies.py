"""Policies of a cluster as values, and the schedule of a service that each one stands for. Nothing here does I/O."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tidyberg.client import Schedule
from tidyberg.errors import BadInput

GROUP = "tidyberg.io"
VERSION = "v1alpha1"
MOST_ID_CHARACTERS = 128  # of a schedule in a service
_DIGEST_CHARACTERS = 32


@dataclass(frozen=True)
class PolicyKind:
    """A custom resource, and the kind of job that its schedules submit."""

    name: str
    plural: str
    short_name: str
    job_kind: str
    description: str


COMPACTION = PolicyKind(
    "CompactionPolicy", "compactionpolicies", "cpol", "compact", "Compacts tables at the times of a cron line."
)
MAINTENANCE = PolicyKind(
    "MaintenancePolicy",
    "maintenancepolicies",
    "mpol",
    "maintain",
    "Does all maintenance that tables need, at the times of a cron line.",
)
POLICY_KINDS = (COMPACTION, MAINTENANCE)


class BadPolicy(BadInput):
    """The spec of a policy is wrong. Nothing was changed in the service."""

    code = "bad-policy"


class PolicySpec(BaseModel):
    """The spec of a policy, as people write it."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)

    table: str = Field(min_length=1)
    schedule: str = Field(min_length=1)
    catalog: str | None = None
    strategy: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    timezone: str = "UTC"
    jitter_seconds: int = Field(0, ge=0)
    missed: Literal["skip", "once", "all"] = "once"
    suspend: bool = False
    tenant: str | None = None
    priority: int = 0


@dataclass(frozen=True)
class PolicyName:
    """The name of a policy among all policies of all clusters that use one service."""

    cluster: str
    kind: PolicyKind
    namespace: str
    name: str

    @property
    def schedule_id(self) -> str:
        """The id of the policy's schedule. It never changes, so a repeated call cannot make a second schedule."""
        # Names in a cluster have no underscore, so two policies never share an id.
        full = f"{self.cluster}_{self.kind.job_kind}_{self.namespace}_{self.name}"
        if len(full) <= MOST_ID_CHARACTERS:
            return full
        digest = hashlib.sha256(full.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{full[: MOST_ID_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def wanted_schedule(name: PolicyName, spec: Mapping[str, Any]) -> Schedule:
    """Returns the schedule that the service should have. Raises BadPolicy if the spec has a mistake."""
    try:
        policy = PolicySpec.model_validate(dict(spec))
    except ValidationError as error:
        raise BadPolicy("; ".join(map(_describe, error.errors())), hint="Change the spec of the policy.") from None
    if policy.strategy is not None and name.kind is not COMPACTION:
        raise BadPolicy(f"A {name.kind.name} has no strategy.", hint="Remove spec.strategy.")
    return Schedule(
        schedule_id=name.schedule_id,
        kind=name.kind.job_kind,
        cron=policy.schedule,
        table=policy.table,
        catalog=policy.catalog,
        strategy=policy.strategy,
        options=policy.options,
        timezone=policy.timezone,
        jitter_seconds=policy.jitter_seconds,
        missed=policy.missed,
        enabled=not policy.suspend,
        tenant=policy.tenant,
        priority=policy.priority,
    )


def _describe(problem: Any) -> str:
    place = ".".join(["spec", *map(str, problem["loc"])])
    return f"{place}: {problem['msg']}"
