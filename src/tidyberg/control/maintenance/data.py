"""The step that compacts data files."""

from dataclasses import dataclass, replace
from typing import Any

from tidyberg.control.maintenance.step import StepContext, StepDone
from tidyberg.model.left import left_alone, outcome_without_commit
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan, StepVerdict
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Estimate, Plan
from tidyberg.model.report import CompactionResult
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural

_VERDICTS: dict[str, StepVerdict] = {"tidy": "skip", "waiting": "wait", "refused": "refused"}


@dataclass(frozen=True)
class DataStep:
    name: StepName = "data"
    needs: frozenset[StepName] = frozenset()
    outdated_by: frozenset[StepName] = frozenset({"deletes"})  # its groups have other delete files then

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if request.policy.data.enabled else "data.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        return plan_compaction(self.name, context, data_options(context.request), "no file needs a rewrite")

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:
        plan = planned.compaction if as_planned else None
        return run_compaction(context, data_options(context.request), plan)


def data_options(request: MaintenanceRequest) -> PlanOptions:
    """Adds the policy to the options of compactions. Only the step expire expires snapshots."""
    policy = request.policy.data
    changes: dict[str, Any] = {"expire_snapshots": False, "snapshot_retention_hours": None}
    if policy.strategy is not None:
        changes["strategy"] = Strategy.parse(policy.strategy)
    if policy.max_cost is not None:
        changes["max_cost"] = policy.max_cost
    if policy.target_file_size is not None:
        changes["target_file_size"] = policy.target_file_size
    return replace(request.compaction, **changes)


def plan_compaction(step: StepName, context: StepContext, options: PlanOptions, tidy: str) -> StepPlan:
    """Describes a plan. `tidy` is the reason if there is nothing to do."""
    plan = context.operations.plan(context.request.table, options)
    estimate = plan.estimate
    if plan.is_empty:
        left = left_alone(plan)
        outcome = outcome_without_commit(left)
        reason = str(left[0]).removeprefix(f"{outcome}: ") if left else tidy
        return StepPlan(step, _VERDICTS[outcome], reason)
    saved = context.storage_dollars(estimate.bytes_saved) + _saved_by_scans(estimate, context.request)
    return StepPlan(
        step,
        "run",
        _reason(plan),
        dollars=estimate.dollars + estimate.storage_dollars,
        dollars_saved_per_month=saved,
        numbers={
            "files": estimate.input_files,
            "outputs": estimate.output_files,
            "bytes_read": estimate.bytes_read,
            "delete_files": len(plan.deletes),
        },
        compaction=plan,
    )


def run_compaction(context: StepContext, options: PlanOptions, plan: Plan | None) -> StepDone:
    """Compacts. If a plan is given, exactly that plan runs. Its groups that are out of date are left out."""
    operations, request = context.operations, context.request
    if plan is None:
        result = operations.compact(
            request.table, options, verify=request.verify, on_event=context.emit, cancel=context.cancel
        )
    else:
        result = operations.apply(plan, verify=request.verify, on_event=context.emit, cancel=context.cancel)
    return StepDone(
        _done(result),
        changed=result.has_committed,
        numbers={
            "files": result.stats.files_compacted,
            "outputs": len(result.sizes_written),
            "bytes_written": sum(result.sizes_written),
        },
        job_id=result.job.job_id,
        failure=result.failure,
    )


def _reason(plan: Plan) -> str:
    estimate = plan.estimate
    deletes = plural(len(plan.deletes), "delete file")
    words = f"{plural(estimate.input_files, 'file')} ({format_size(estimate.bytes_read)}) become "
    words += f"{estimate.output_files:,}"
    words += f"; {deletes} applied" if plan.deletes else ""
    if plan.keeps_data:
        words = f"{deletes} merged into {estimate.output_files:,}"
    if estimate.payback_scans is not None:
        words += f"; pays back after {plural(estimate.payback_scans, 'full scan')}"
    return words


def _done(result: CompactionResult) -> str:
    if not result.has_committed:
        return str(result.left[0]) if result.left else "nothing is left to do"
    stats = result.stats
    words = f"{plural(stats.files_compacted, 'file')} became {len(result.sizes_written):,}"
    return words + (f"; {plural(len(result.groups_left), 'group')} left" if result.groups_left else "")


def _saved_by_scans(estimate: Estimate, request: MaintenanceRequest) -> float:
    if not estimate.payback_scans:
        return 0.0
    per_scan = (estimate.dollars + estimate.storage_dollars) / estimate.payback_scans
    return per_scan * request.policy.scans_per_month
