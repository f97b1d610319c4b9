"""Shows what a rewrite of manifests does or would do, what it costs, and what a scan gains."""

import dataclasses
from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import job_json
from tidyberg.cli.formatting import count, dollars, plural, size
from tidyberg.model.manifest_rewrite import ManifestPlan, ManifestRewriteResult


def show_manifest_plan(plan: ManifestPlan) -> Group:
    if not plan.pays:
        return Group(_nothing(plan))
    what = f"{plural(plan.replaced, 'manifest')} would be replaced by {count(plan.created)}"
    return Group(Text.assemble((str(plan.table), "bold"), f" · {what}: {plan.reason}"), *_gains(plan))


def show_manifest_result(result: ManifestRewriteResult) -> Group:
    if result.outcome == "nothing":
        return Group(_nothing(result.plan))
    job = f" · job {result.job.job_id[:8]}" if result.job is not None else ""
    what = f"{plural(result.replaced, 'manifest')} replaced by {count(result.created)}"
    retries = f" after {plural(result.attempts, 'attempt')}" if result.attempts > 1 else ""
    written = (
        f"{count(result.entries)} entries, {size(result.bytes_written)} written; {count(result.kept)} manifests kept"
    )
    return Group(
        Text.assemble(("✓ ", "bold green"), (str(result.table), "bold"), f" · {what}{retries}{job}"),
        Text(written),
        *_gains(result.plan),
    )


def _nothing(plan: ManifestPlan) -> Text:
    return Text(f"{plan.table}: nothing to rewrite; {plan.reason}")


def _gains(plan: ManifestPlan) -> list[Text]:
    scan = f"a scan of one partition reads {plan.scan_after:.1f} manifests instead of {plan.scan_before:.1f}"
    lines = [
        Text(
            f"manifests {count(plan.manifests_before)} → {count(plan.manifests_after)}, "
            f"{size(plan.bytes_before)} → {size(plan.bytes_after)}; {scan}"
        )
    ]
    after = plan.payback_scans
    pays = f"pays back after {plural(after, 'such scan')}" if after else "such scans cost as much as before"
    lines.append(
        Text(f"cost {dollars(plan.dollars)}: {count(plan.get_requests)} GET, {count(plan.put_requests)} PUT; {pays}")
    )
    if plan.deleted_entries:
        lines.append(Text(f"entries of deleted files that are dropped: {count(plan.deleted_entries)}"))
    if plan.left:
        why = "of another partition spec, or with UUIDs in their partitions"
        lines.append(Text(f"{plural(plan.left, 'manifest')} left alone: {why}"))
    return lines


def manifest_plan_json(plan: ManifestPlan) -> dict[str, Any]:
    return {**dataclasses.asdict(plan), "table": str(plan.table)}


def planned_json(plan: ManifestPlan) -> dict[str, Any]:
    outcome = "planned" if plan.pays else "nothing"
    return {"success": True, "table": str(plan.table), "outcome": outcome, "plan": manifest_plan_json(plan)}


def manifest_result_json(result: ManifestRewriteResult) -> dict[str, Any]:
    return {
        "success": True,
        "table": str(result.table),
        "outcome": result.outcome,
        "snapshot_id": result.snapshot_id,
        "manifests_created": result.created,
        "manifests_replaced": result.replaced,
        "manifests_kept": result.kept,
        "entries": result.entries,
        "bytes_written": result.bytes_written,
        "attempts": result.attempts,
        "recovered": list(result.recovered),
        "plan": manifest_plan_json(result.plan),
        **({"job": job_json(result.job)} if result.job is not None else {}),
    }
