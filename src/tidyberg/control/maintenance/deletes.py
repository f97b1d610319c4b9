"""The step that merges deletes and leaves data files as they are."""

from dataclasses import dataclass, replace

from tidyberg.control.maintenance.data import data_options, plan_compaction, run_compaction
from tidyberg.control.maintenance.step import StepContext, StepDone
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.words import plural


@dataclass(frozen=True)
class DeletesStep:
    name: StepName = "deletes"
    needs: frozenset[StepName] = frozenset()
    outdated_by: frozenset[StepName] = frozenset()

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if request.policy.deletes.enabled else "deletes.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        planned = plan_compaction(self.name, context, _options(context.request), "no deletes to merge")
        if planned.verdict != "run" or not context.request.policy.data.enabled:
            return planned
        assert planned.compaction is not None
        touched = {file.path for group in planned.compaction.groups for file in group.files}
        data = context.operations.plan(context.request.table, data_options(context.request))
        rewritten = {file.path for group in data.groups if not group.keeps_data for file in group.files}
        if touched and touched <= rewritten:
            reason = f"data rewrites the {plural(len(touched), 'file')} that have deletes, and applies these"
            return StepPlan(self.name, "skip", reason)
        return planned

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:
        plan = planned.compaction if as_planned else None
        return run_compaction(context, _options(context.request), plan)


def _options(request: MaintenanceRequest) -> PlanOptions:
    return replace(data_options(request), strategy=Strategy.DELETES_ONLY)
