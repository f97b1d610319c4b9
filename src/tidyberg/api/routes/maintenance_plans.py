"""Routes that say what maintenance jobs would do. They change nothing."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.requests import ExpirePlanRequest, MaintainPlanRequest
from tidyberg.model.expiry import ExpiryResult
from tidyberg.model.maintenance import MaintenancePlan, StepPlan

router = APIRouter(route_class=AuthenticatedRoute, tags=["plans"])


class ExpiryPlanAnswer(BaseModel):
    """An expiry that has not been run: the snapshots and files that it would remove."""

    catalog: str
    namespace: str
    table: str
    nothing_to_do: bool
    cutoff_at: Moment = Field(description="Older snapshots expire, unless something keeps them.")
    snapshots_expired: list[int]
    snapshots_kept: int
    refs_removed: list[str] = Field(description="Branches and tags that are too old.")
    files: dict[str, int] = Field(description="Files that would be deleted, by kind, and their `bytes`.")
    warnings: list[str]


class StepAnswer(BaseModel):
    """One step of maintenance that has not been run."""

    step: str = Field(examples=["expire"])
    verdict: str = Field(description="run, skip, wait or refused.", examples=["run"])
    reason: str
    dollars: float
    dollars_saved_per_month: float
    numbers: dict[str, int] = Field(description="Such as snapshots, files and bytes.")


class PolicyValueAnswer(BaseModel):
    value: bool | int | float | str | None
    origin: str = Field(description="The place that gives the value.", examples=["default"])


class MaintenancePlanAnswer(BaseModel):
    """All steps of `maintain`, planned for the table as it is."""

    catalog: str
    namespace: str
    table: str
    snapshot_id: int | None = Field(description="null: the table has no snapshot yet.")
    created_at: Moment
    nothing_to_do: bool
    dollars: float
    dollars_saved_per_month: float
    steps: list[StepAnswer] = Field(description="In the order in which they run.")
    policy: dict[str, PolicyValueAnswer]
    policy_notes: list[str] = Field(description="What policies of the catalog say and tidyberg does not do.")


@router.post("/expire/plan", summary="Plan an expiry", responses=problems(404, *WITH_BODY))
async def plan_expiry(body: ExpirePlanRequest, context: CurrentContext, who: CurrentPrincipal) -> ExpiryPlanAnswer:
    """Reads metadata and changes nothing. A job may expire more, because snapshots get older until it runs."""
    return await context.catalog_pool(lambda: _expiry(context.service.plan_expiry(body.to_request(), who)))


@router.post("/maintain/plan", summary="Plan the maintenance of a table", responses=problems(404, *WITH_BODY))
async def plan_maintenance(
    body: MaintainPlanRequest, context: CurrentContext, who: CurrentPrincipal
) -> MaintenancePlanAnswer:
    """Changes nothing. Each step is planned for the table as it is, before the steps ahead of it have run.

    The search for orphans lists the table's directory and loads the other tables of the catalog. So only those may ask
    for this who may submit the job.
    """
    return await context.catalog_pool(lambda: _maintenance(context.service.plan_maintenance(body.to_request(), who)))


def _expiry(result: ExpiryResult) -> ExpiryPlanAnswer:
    decision = result.decision
    return ExpiryPlanAnswer(
        catalog=result.table.catalog,
        namespace=".".join(result.table.namespace),
        table=result.table.name,
        nothing_to_do=not decision.snapshot_ids and not decision.refs,
        cutoff_at=decision.cutoff_ms,
        snapshots_expired=list(decision.snapshot_ids),
        snapshots_kept=result.snapshots_before - result.snapshots_expired,
        refs_removed=[ref.name for ref in decision.refs],
        files=asdict(result.files),
        warnings=list(decision.warnings),
    )


def _maintenance(plan: MaintenancePlan) -> MaintenancePlanAnswer:
    policy: dict[str, Any] = plan.policy.values()
    return MaintenancePlanAnswer(
        catalog=plan.table.catalog,
        namespace=".".join(plan.table.namespace),
        table=plan.table.name,
        snapshot_id=plan.snapshot_id,
        created_at=plan.created_ms,
        nothing_to_do=plan.is_empty,
        dollars=plan.dollars,
        dollars_saved_per_month=plan.dollars_saved_per_month,
        steps=[_step(step) for step in plan.steps],
        policy={key: PolicyValueAnswer(value=value, origin=plan.policy.origin(key)) for key, value in policy.items()},
        policy_notes=list(plan.policy.notes),
    )


def _step(step: StepPlan) -> StepAnswer:
    return StepAnswer(
        step=step.step,
        verdict=step.verdict,
        reason=step.reason,
        dollars=step.dollars,
        dollars_saved_per_month=step.dollars_saved_per_month,
        numbers=dict(step.numbers),
    )
