"""Shows which orphans were found and deleted, what stays and why."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import error_json, job_json, plain
from tidyberg.cli.formatting import dollars, moment, plural, size
from tidyberg.model.orphans import (
    PURGE,
    CatalogLocations,
    OrphanCounts,
    OrphanPlan,
    OrphanResult,
    QuarantineResult,
    SharedLocation,
)

_KINDS = (
    ("data file", "data_files"),
    ("manifest", "manifests"),
    ("manifest list", "manifest_lists"),
    ("metadata file", "metadata_files"),
    ("statistics file", "statistics_files"),
    ("other file", "other_files"),
)


def show_orphan_plan(plan: OrphanPlan, timezone: str) -> Group:
    lines = [_headline(plan, timezone)]
    if plan.files.files:
        saved = dollars(plan.dollars_per_month)
        lines.append(Text(f"{_counted(plan.files)} would be deleted, {size(plan.files.bytes)}, {saved} a month"))
    return Group(*lines, *_details(plan))


def show_orphans(result: OrphanResult, timezone: str) -> Group:
    plan = result.plan
    lines = [_headline(plan, timezone, result)]
    if result.files.files:
        where = f"moved to {result.quarantine}" if result.quarantine else "deleted"
        lines.append(Text(f"{_counted(result.files)} {where}, {size(result.files.bytes)}"))
    if result.referenced_meanwhile:
        lines.append(Text(f"{plural(result.referenced_meanwhile, 'file')} committed meanwhile: kept"))
    lines += _details(plan)
    if result.refused:
        lines.append(Text(f"{plural(result.refused, 'orphan')} not removed; first {result.first_refused}", "red"))
    return Group(*lines)


def _headline(plan: OrphanPlan, timezone: str, result: OrphanResult | None = None) -> Text:
    before = f"older than {moment(plan.cutoff_ms, timezone)}"
    found = plan.files.files + plan.waiting.files
    if not found:
        return Text(f"{plan.table}: no orphans among {plural(plan.listed, 'file')} ({before})")
    is_fine = result is None or result.failure is None
    mark = ("✓ ", "bold green") if is_fine else ("! ", "bold yellow")
    job = f" · job {result.job.job_id[:8]}" if result is not None and result.job is not None else ""
    what = f"{plural(found, 'orphan')} among {plural(plan.listed, 'file')} ({before}){job}"
    return Text.assemble(mark, (str(plan.table), "bold"), f" · {what}")


def _details(plan: OrphanPlan) -> list[Text]:
    lines = []
    if plan.waiting.files:
        lines.append(
            Text(
                f"{_counted(plan.waiting)} kept, {size(plan.waiting.bytes)}: no run has seen them 12 hours ago or "
                "earlier. Run this again then, or use --now.",
                style="yellow",
            )
        )
    lines += [Text(f"  kept: {plural(number, 'file')} ({why})") for why, number in sorted(plan.kept.items())]
    lines += [Text(f"  kept because of {path}, which the catalog does not know") for path in plan.other_states]
    lines += [Text(f"not checked for a shared location: {text}", style="yellow") for text in plan.not_checked]
    return lines


def _counted(files: OrphanCounts) -> str:
    kinds = [plural(number, noun) for noun, name in _KINDS if (number := getattr(files, name))]
    return f"{plural(files.files, 'orphan')} ({', '.join(kinds)})"


def orphan_plan_json(plan: OrphanPlan) -> dict[str, Any]:
    return {
        "success": True,
        "table": str(plan.table),
        "verdict": plan.verdict,
        "reason": plan.reason,
        "cutoff_ms": plan.cutoff_ms,
        "files": _counts_json(plan.files),
        "dollars_per_month": plan.dollars_per_month,
        "waiting": _counts_json(plan.waiting),
        "listed": plan.listed,
        "kept": dict(plan.kept),
        "not_checked": list(plan.not_checked),
        "other_states": list(plan.other_states),
        "first": list(plan.first),
    }


def orphans_json(result: OrphanResult) -> dict[str, Any]:
    return {
        **orphan_plan_json(result.plan),
        "success": result.failure is None,
        "outcome": result.outcome,
        "files": _counts_json(result.files),
        "referenced_meanwhile": result.referenced_meanwhile,
        "refused": {"files": result.refused, "first": result.first_refused},
        "quarantine": result.quarantine,
        **(error_json(result.failure) if result.failure is not None else {}),
        **({"job": job_json(result.job)} if result.job is not None else {}),
    }


def _counts_json(files: OrphanCounts) -> dict[str, int]:
    return {**dataclasses.asdict(files), "total": files.files}


def show_quarantine(result: QuarantineResult) -> Group:
    if result.outcome == "nothing":
        is_purge = result.job is not None and result.job.strategy == PURGE
        found = "nothing in quarantine is old enough to be purged" if is_purge else "nothing is in quarantine"
        return Group(Text(f"{result.table}: {found}"))
    verb = "deleted" if result.job is not None and result.job.strategy.endswith("purge") else "restored"
    lines = [Text(f"{result.table}: {plural(result.files, 'file')} {verb}, {size(result.bytes)}")]
    if result.already_there:
        lines.append(
            Text(f"{plural(result.already_there, 'file')} left in quarantine: another file has its place", "yellow")
        )
    if result.refused:
        lines.append(Text(f"{plural(result.refused, 'file')} not {verb}; first {result.first_refused}", "red"))
    return Group(*lines)


def quarantine_json(result: QuarantineResult) -> dict[str, Any]:
    return {
        "success": result.failure is None,
        "table": str(result.table),
        "outcome": result.outcome,
        "jobs": list(result.jobs),
        "files": result.files,
        "bytes": result.bytes,
        "already_there": result.already_there,
        "refused": {"files": result.refused, "first": result.first_refused},
        **(error_json(result.failure) if result.failure is not None else {}),
        **({"job": job_json(result.job)} if result.job is not None else {}),
    }


def show_locations(found: CatalogLocations, shared: Sequence[SharedLocation]) -> Group:
    lines = [Text(f"{one.other} in {one.other_location} lies in {one.table} ({one.location})", "red") for one in shared]
    lines += [Text(f"not checked: {text}", style="yellow") for text in found.not_checked]
    number = plural(len(shared), "shared location") if shared else "no shared locations"
    return Group(*lines, Text(f"{number} among {plural(len(found.tables), 'table')}", style="bold"))


def locations_json(found: CatalogLocations, shared: Sequence[SharedLocation]) -> dict[str, Any]:
    return {
        "success": not shared,
        "tables": len(found.tables),
        "shared": [plain(one) for one in shared],
        "not_checked": list(found.not_checked),
    }
