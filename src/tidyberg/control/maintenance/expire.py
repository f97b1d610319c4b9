"""The step that expires snapshots."""

from dataclasses import dataclass

from tidyberg.control.maintenance.step import StepContext, StepDone
from tidyberg.errors import BadInput
from tidyberg.model.durations import parse_age
from tidyberg.model.expiry import ExpireOptions, ExpiryBounds, ExpiryResult
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural

_COMMIT_REQUESTS = 3  # the list of files, the new metadata, and its swap


@dataclass(frozen=True)
class ExpireStep:
    name: StepName = "expire"
    needs: frozenset[StepName] = frozenset()
    outdated_by: frozenset[StepName] = frozenset()

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if request.policy.expire.enabled else "expire.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        request = context.request
        try:
            found = context.operations.expire(
                request.table, _options(request), dry_run=True, on_event=context.emit, cancel=context.cancel
            )
        except BadInput as error:  # the table forbids it
            return StepPlan(self.name, "refused", str(error))
        if found.outcome == "nothing":
            kept = plural(len(found.decision.retained), "snapshot")
            return StepPlan(self.name, "skip", f"nothing is old enough; {kept} kept")
        return StepPlan(
            self.name,
            "run",
            _reason(found),
            dollars=_price(context, found),
            dollars_saved_per_month=context.storage_dollars(found.files.bytes),
            numbers=_numbers(found),
            bounds=ExpiryBounds(found.decision.snapshot_ids, tuple(ref.name for ref in found.decision.refs)),
        )

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:
        options = _options(context.request, planned.bounds if as_planned else None)
        result = context.operations.expire(context.request.table, options, on_event=context.emit, cancel=context.cancel)
        changed = result.outcome in ("expired", "partly")
        return StepDone(
            _reason(result) if changed else "nothing is old enough",
            changed,
            _numbers(result),
            result.job.job_id if result.job is not None else None,
            result.failure,
        )


def _options(request: MaintenanceRequest, bounds: ExpiryBounds | None = None) -> ExpireOptions:
    policy = request.policy.expire
    return ExpireOptions(
        older_than_ms=parse_age(policy.older_than) if policy.older_than is not None else None,
        retain_last=policy.retain_last,
        clean_metadata=policy.clean_metadata,
        bounds=bounds,
    )


def _reason(found: ExpiryResult) -> str:
    words = plural(found.snapshots_expired, "snapshot")
    if found.decision.refs:
        words += f" and {plural(len(found.decision.refs), 'ref')}"
    size = f" ({format_size(found.files.bytes)})" if found.files.bytes else ""  # sizes of manifest lists are unknown
    return f"{words}; {plural(found.files.files, 'file')}{size}"


def _numbers(found: ExpiryResult) -> dict[str, int]:
    return {
        "snapshots": found.snapshots_expired,
        "refs": len(found.decision.refs),
        "files": found.files.files,
        "bytes_freed": found.files.bytes,
    }


def _price(context: StepContext, found: ExpiryResult) -> float:
    """Prices the requests that read all manifest lists and all manifests that leave. Deletes are free."""
    prices = context.operations.prices
    reads = found.snapshots_before + found.files.manifests
    return (reads * prices.get_per_1000 + _COMMIT_REQUESTS * prices.put_per_1000) / 1000
