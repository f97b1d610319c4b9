"""The step that finds orphans and, if the policy says so, removes them."""

from dataclasses import dataclass

from tidyberg.control.maintenance.step import StepContext, StepDone
from tidyberg.errors import BadInput
from tidyberg.model.durations import parse_age, parse_moment
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan
from tidyberg.model.orphans import OrphanCounts, OrphanOptions, OrphanPlan
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural

REPORT, QUARANTINE = "report", "quarantine"
_PAGE = 1_000  # objects in one answer of a listing


@dataclass(frozen=True)
class OrphansStep:
    name: StepName = "orphans"
    needs: frozenset[StepName] = frozenset()
    outdated_by: frozenset[StepName] = frozenset()

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if request.policy.orphans.enabled else "orphans.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        request = context.request
        try:
            found = context.operations.plan_orphans(
                request.table, _options(request), on_event=context.emit, cancel=context.cancel
            )
        except BadInput as error:  # the table forbids it, or shares its location
            return StepPlan(self.name, "refused", str(error))
        numbers = {"files": found.files.files, "bytes_freed": found.files.bytes, "waiting": found.waiting.files}
        if request.policy.orphans.action == REPORT:
            return StepPlan(self.name, "skip", _report(found), numbers=numbers)
        if found.verdict == "nothing":
            return StepPlan(self.name, "skip", "no orphans")
        prices = context.operations.prices
        return StepPlan(
            self.name,
            "run" if found.verdict == "delete" else "wait",
            _without_flags(found.reason),
            dollars=(found.listed / _PAGE * prices.put_per_1000) / 1000,
            dollars_saved_per_month=found.dollars_per_month,
            numbers=numbers,
            # The files that this run sees are deleted by a later one, which must know that it has seen them.
            takes_notes=found.verdict == "wait",
        )

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:  # noqa: ARG002
        """It looks for orphans again in any case: one that was planned may be referenced by now."""
        request = context.request
        result = context.operations.remove_orphans(
            request.table, _options(request), on_event=context.emit, cancel=context.cancel
        )
        changed = result.files.files > 0
        verb = "moved to quarantine" if result.outcome == "quarantined" else "deleted"
        return StepDone(
            f"{_files(result.files)} {verb}" if changed else _without_flags(result.plan.reason),
            changed,
            {"files": result.files.files, "bytes_freed": 0 if result.quarantine else result.files.bytes},
            result.job.job_id if result.job is not None else None,
            result.failure,
        )


def _options(request: MaintenanceRequest) -> OrphanOptions:
    policy = request.policy.orphans
    return OrphanOptions(
        older_than_ms=parse_age(policy.older_than),
        newer_than_ms=None if policy.newer_than is None else parse_moment(policy.newer_than),
        now=policy.now,
        quarantine=policy.action == QUARANTINE,
    )


def _report(found: OrphanPlan) -> str:
    total = found.files.files + found.waiting.files
    if not total:
        return "no orphans"
    size = format_size(found.files.bytes + found.waiting.bytes)
    return f"{plural(total, 'orphan')} ({size}) found; orphans.action is {REPORT}"


def _without_flags(reason: str) -> str:
    return reason.removesuffix(", or one with --now")


def _files(counts: OrphanCounts) -> str:
    return f"{plural(counts.files, 'orphan')} ({format_size(counts.bytes)})"
