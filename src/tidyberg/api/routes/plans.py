"""Routes for plans: make a plan, apply a plan."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from tidyberg.api.answers import JobCreatedAnswer, LeftAnswer, Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import WITH_BODY, problems
from tidyberg.api.job_answers import created, left_answer
from tidyberg.api.parameters import IdempotencyKey, PlanHash
from tidyberg.api.requests import ApplyRequest, PlanRequest
from tidyberg.api.routes.jobs import own_key
from tidyberg.model.left import left_alone
from tidyberg.model.plan import Estimate, LayoutForecast, PartitionVerdict, Plan

router = APIRouter(route_class=AuthenticatedRoute, tags=["plans"])


class EstimateAnswer(BaseModel):
    """What the rewrite costs and saves."""

    input_files: int
    output_files: int
    bytes_read: int
    bytes_written: int
    seconds: float
    dollars: float = Field(description="Cost of requests and compute.")
    storage_dollars: float = Field(description="Cost of storing the replaced files until their snapshots expire.")
    file_opens_saved: int = Field(description="File opens saved per full scan.")
    payback_scans: int | None = Field(description="Full scans until the rewrite has paid for itself; null: never.")


class LayoutAnswer(BaseModel):
    """How deep files overlap along the sort key, and what a query reads before and after the sort."""

    max_depth: int = Field(description="The most files that hold rows of the same range of the key.")
    unknown_files: int = Field(description="Files without bounds of the first key column; every query reads them.")
    lookup_files_before: float = Field(description="Files that a lookup of one value reads; the average depth.")
    lookup_files_after: float
    lookup_bytes_before: int
    lookup_bytes_after: int
    range_files_before: float = Field(description="Files that a query for 1 % of the rows reads.")
    range_files_after: float
    scratch_bytes: int = Field(description="Written to scratch space and read again while rows are sorted.")
    payback_queries: int | None = Field(description="Lookups until the sort has paid for itself; null: never.")


class BoundariesAnswer(BaseModel):
    """What a query between two neighbouring boundaries reads of the partitions that are rewritten."""

    asked: list[str] = Field(description="The boundaries, in ascending order, as SQL.", examples=[["'2026-11-09'"]])
    files_before: float
    files_after: float
    bytes_before: int
    bytes_after: int
    payback_queries: int | None = Field(description="Queries until the cut has paid for itself; null: never.")


class PartitionAnswer(BaseModel):
    partition: str = Field(description="Empty for a table without partitions.")
    spec_id: int
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int
    score: float
    verdict: str = Field(description="rewrite or skip.", examples=["rewrite"])
    code: str | None = Field(
        description="Why the partition is skipped, as a stable code; null for a rewrite.", examples=["tidy"]
    )
    reason: str
    output_files: int | None = Field(description="null for a skip.")
    dollars: float | None = Field(description="null for a skip.")
    layout: LayoutAnswer | None = Field(description="null if the plan does not look at the order of files.")


class ModeAnswer(BaseModel):
    mode: str = Field(
        description="copy (row groups are copied), encode (rows are rewritten), sort (rows are ordered) or deletes.",
        examples=["copy"],
    )
    reason: str = Field(examples=["large row groups"])
    groups: int


class PlanAnswer(BaseModel):
    """What a compaction would do, why, and what it costs."""

    plan_hash: str = Field(description="`POST /api/v1/plans/{plan_hash}/apply` runs exactly this plan.")
    catalog: str
    namespace: str
    table: str
    branch: str
    snapshot_id: int | None = Field(description="null: the branch has no snapshot yet.")
    created_at: Moment
    strategy: str
    options: dict[str, Any] = Field(description="The options in effect, from the settings and the request.")
    health: int = Field(ge=0, le=100, description="0 (untidy) to 100 (tidy).")
    nothing_to_do: bool
    estimate: EstimateAnswer
    groups: int = Field(description="Number of file groups; the files of a group are rewritten together.")
    modes: list[ModeAnswer] = Field(description="How the groups are rewritten, and why.")
    partitions_total: int
    partitions: list[PartitionAnswer] = Field(description="In the order of the plan; at most `partitions` of them.")
    full_rewrite: EstimateAnswer | None = Field(
        description="If deletes are merged: what a rewrite of the same data files would cost instead."
    )
    sort_order: str | None = Field(description="The order or curve that the plan looked at; null: none.")
    layout: LayoutAnswer | None = Field(description="Of all partitions that are sorted; null: none is.")
    boundaries: BoundariesAnswer | None = Field(description="null if no boundaries were given.")
    left_out: list[str] = Field(description="What a budget or limit excluded from this plan.")
    warnings: list[str] = Field(description="What the rewrite does not preserve, such as the order of rows.")
    left: list[LeftAnswer] = Field(description="Files that the plan leaves unchanged, why, and until when.")
    better_inline: bool = Field(
        description="True if starting Spark would take longer than the whole job on one core. `engine: auto` runs it"
        " inline."
    )


@router.post("/plan", summary="Plan a compaction", responses=problems(404, *WITH_BODY))
async def make_plan(
    body: PlanRequest,
    context: CurrentContext,
    who: CurrentPrincipal,
    partitions: Annotated[int, Query(ge=0, le=100_000, description="Maximum number of partitions to return.")] = 1000,
) -> PlanAnswer:
    """Reads only metadata and changes nothing. The service keeps the plan for some days; apply it by its hash."""
    return await context.catalog_pool(lambda: plan_answer(context.service.plan(body.to_request(), who), partitions))


@router.post(
    "/plans/{plan_hash}/apply",
    status_code=202,
    summary="Apply a plan",
    responses=problems(404, 409, *WITH_BODY),
)
async def apply_plan(
    plan_hash: PlanHash,
    context: CurrentContext,
    who: CurrentPrincipal,
    response: Response,
    body: ApplyRequest | None = None,
    idempotency_key: IdempotencyKey = None,
) -> JobCreatedAnswer:
    """Queues a job that runs exactly this plan. Groups that are out of date are skipped and reported."""
    priority = body.priority if body else 0
    submission = await context.write_pool(context.service.apply, plan_hash, who, own_key(idempotency_key), priority)
    response.headers["Location"] = f"/api/v1/jobs/{submission.job_id}"
    return created(submission)


def plan_answer(plan: Plan, partitions: int) -> PlanAnswer:
    return PlanAnswer(
        plan_hash=plan.hash,
        catalog=plan.table.catalog,
        namespace=".".join(plan.table.namespace),
        table=plan.table.name,
        branch=plan.branch,
        snapshot_id=plan.snapshot_id,
        created_at=plan.created_ms,
        strategy=str(plan.options.get("strategy", "")),
        options=dict(plan.options),
        health=plan.health,
        nothing_to_do=plan.is_empty,
        estimate=_estimate(plan.estimate),
        groups=len(plan.groups),
        modes=[ModeAnswer(mode=mode, reason=why, groups=groups) for (mode, why), groups in plan.modes.items()],
        partitions_total=len(plan.partitions),
        partitions=[_partition(partition) for partition in plan.partitions[:partitions]],
        full_rewrite=_estimate(plan.full_rewrite) if plan.full_rewrite is not None else None,
        sort_order=plan.sort_order,
        layout=_layout(plan.layout),
        boundaries=None if plan.boundaries is None else BoundariesAnswer.model_validate(asdict(plan.boundaries)),
        left_out=list(plan.left_out),
        warnings=list(plan.warnings),
        left=[left_answer(each) for each in left_alone(plan)],
        better_inline=plan.better_inline,
    )


def _layout(layout: LayoutForecast | None) -> LayoutAnswer | None:
    return None if layout is None else LayoutAnswer.model_validate(asdict(layout))


def _estimate(estimate: Estimate) -> EstimateAnswer:
    return EstimateAnswer(
        input_files=estimate.input_files,
        output_files=estimate.output_files,
        bytes_read=estimate.bytes_read,
        bytes_written=estimate.bytes_written,
        seconds=estimate.seconds,
        dollars=estimate.dollars,
        storage_dollars=estimate.storage_dollars,
        file_opens_saved=estimate.file_opens_saved,
        payback_scans=estimate.payback_scans,
    )


def _partition(partition: PartitionVerdict) -> PartitionAnswer:
    verdict = partition.verdict
    return PartitionAnswer(
        partition=partition.partition_path,
        spec_id=partition.spec_id,
        files=partition.files,
        small_files=partition.small_files,
        bytes=partition.bytes,
        records=partition.records,
        delete_files=partition.delete_files,
        score=partition.score,
        verdict=verdict.kind,
        code=verdict.code if verdict.kind == "skip" else None,
        reason=verdict.reason,
        output_files=verdict.outputs if verdict.kind == "rewrite" else None,
        dollars=verdict.dollars if verdict.kind == "rewrite" else None,
        layout=_layout(partition.layout),
    )
