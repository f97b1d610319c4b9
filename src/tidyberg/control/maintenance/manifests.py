"""The step that rewrites manifests."""

from dataclasses import dataclass

from tidyberg.control.maintenance.step import StepContext, StepDone
from tidyberg.errors import Unsupported
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.model.words import plural


@dataclass(frozen=True)
class ManifestsStep:
    name: StepName = "manifests"
    # The next run would rewrite the manifests of their files again.
    needs: frozenset[StepName] = frozenset({"deletes", "data"})
    outdated_by: frozenset[StepName] = frozenset()

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if request.policy.manifests.enabled else "manifests.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        request = context.request
        if first := [step.step for step in context.earlier if step.step in self.needs and step.verdict == "run"]:
            # I10: their commits write other manifests, so a plan of the present ones would promise too much.
            return StepPlan(self.name, "wait", f"{' and '.join(first)} will change the manifests; planned after that")
        try:
            plan = context.operations.plan_manifests(request.table, _options(request), cancel=context.cancel)
        except Unsupported as error:
            return StepPlan(self.name, "refused", str(error))
        if not plan.pays:
            return StepPlan(self.name, "skip" if plan.verdict == "tidy" else "wait", _without_flags(plan.reason))
        return StepPlan(
            self.name,
            "run",
            plan.reason,
            dollars=plan.dollars,
            dollars_saved_per_month=plan.dollars_per_scan * request.policy.scans_per_month,
            numbers={
                "manifests": plan.manifests_before,
                "manifests_after": plan.manifests_after,
                "replaced": plan.replaced,
                "created": plan.created,
            },
        )

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:  # noqa: ARG002
        """It moves entries between manifests and changes no file, so it is planned again in any case."""
        request = context.request
        result = context.operations.rewrite_manifests(
            request.table, _options(request), on_event=context.emit, cancel=context.cancel
        )
        changed = result.outcome == "rewritten"
        done = f"{plural(result.replaced, 'manifest')} became {result.created:,}"
        return StepDone(
            done if changed else _without_flags(result.plan.reason),
            changed,
            {"replaced": result.replaced, "created": result.created},
            result.job.job_id if result.job is not None else None,
        )


def _options(request: MaintenanceRequest) -> ManifestOptions:
    options = request.compaction
    return ManifestOptions(branch=options.branch, ignore_wap_branches=options.ignore_wap_branches)


def _without_flags(reason: str) -> str:
    return reason.removesuffix(" Use --force to rewrite them anyway.")
