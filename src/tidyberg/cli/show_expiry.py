"""Shows what an expiry removed, what it kept and why."""

import dataclasses
from collections import Counter
from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import error_json, job_json, plain
from tidyberg.cli.formatting import count, moment, plural, size
from tidyberg.model.expiry import ExpiryResult

_KINDS = (
    ("data file", "data_files"),
    ("position delete file", "position_delete_files"),
    ("equality delete file", "equality_delete_files"),
    ("manifest", "manifests"),
    ("manifest list", "manifest_lists"),
    ("statistics file", "statistics_files"),
)
_MOST_REASONS = 10


def show_expiry(result: ExpiryResult, timezone: str) -> Group:
    lines = [_headline(result, timezone)]
    if result.outcome != "nothing":
        lines.append(Text(_files(result)))
    removed = _removed(result)
    if removed:
        lines.append(Text(removed))
    lines += [Text(f"  {line}") for line in _kept(result)]
    if result.outside:
        lines.append(
            Text(
                f"{plural(result.outside, 'expired file')} outside of the table's locations: not deleted, because "
                f"other tables may use them; first {result.first_outside}",
                style="yellow",
            )
        )
    if result.refused:
        lines.append(
            Text(f"{plural(result.refused, 'file')} not deleted by storage; first {result.first_refused}", "red")
        )
    if result.verified is not None and (result.failure is None or result.refused):
        checked = plural(result.verified, "reference")
        lines.append(Text(f"verified: the files of the retained snapshots are there ({checked} checked)"))
    if result.failure is not None and not result.refused:
        lines.append(Text(str(result.failure), style="red"))
    return Group(*lines)


def _headline(result: ExpiryResult, timezone: str) -> Text:
    kept = count(len(result.decision.retained))
    cutoff = result.decision.cutoff_ms
    before = "never by age" if cutoff < 0 else f"older than {moment(cutoff, timezone)}"
    if result.outcome == "nothing":
        return Text(f"{result.table}: nothing to expire; all {kept} snapshots are kept (cutoff: {before})")
    mark = ("✓ ", "bold green") if result.failure is None else ("! ", "bold yellow")
    done = "would expire" if result.outcome == "planned" else "expired"
    what = f"{plural(result.snapshots_expired, 'snapshot')} {done} ({before}), {kept} kept"
    job = f" · job {result.job.job_id[:8]}" if result.job is not None else ""
    return Text.assemble(mark, (str(result.table), "bold"), f" · {what}{job}")


def _files(result: ExpiryResult) -> str:
    verb = "would be deleted" if result.outcome == "planned" else "deleted"
    kinds = [plural(number, noun) for noun, name in _KINDS if (number := getattr(result.files, name))]
    listed = f": {', '.join(kinds)}" if kinds else ""
    return f"{plural(result.files.files, 'file')} {verb}, {size(result.files.bytes)} freed{listed}"


def _removed(result: ExpiryResult) -> str:
    parts = [f"{ref}" for ref in result.decision.refs]
    if result.schemas_removed:
        parts.append(plural(len(result.schemas_removed), "unused schema"))
    if result.specs_removed:
        parts.append(plural(len(result.specs_removed), "unused partition spec"))
    return f"{'would be' if result.outcome == 'planned' else 'also'} removed: {', '.join(parts)}" if parts else ""


def _kept(result: ExpiryResult) -> list[str]:
    """One line for each reason. A snapshot that several refs keep counts for each of them."""
    reasons = Counter(reason for found in result.decision.retained.values() for reason in found)
    lines = [f"kept: {plural(number, 'snapshot')} ({reason})" for reason, number in reasons.most_common(_MOST_REASONS)]
    more = len(reasons) - _MOST_REASONS
    return [*lines, f"kept for {plural(more, 'further reason')}"] if more > 0 else lines


def expiry_json(result: ExpiryResult) -> dict[str, Any]:
    decision = result.decision
    return {
        "success": result.failure is None,
        "table": str(result.table),
        "outcome": result.outcome,
        "cutoff_ms": decision.cutoff_ms,
        "snapshots_expired": list(decision.snapshot_ids),
        "snapshots_kept": {str(number): list(reasons) for number, reasons in decision.retained.items()},
        "refs_removed": [plain(ref) for ref in decision.refs],
        "schemas_removed": list(result.schemas_removed),
        "specs_removed": list(result.specs_removed),
        "files": {**dataclasses.asdict(result.files), "total": result.files.files},
        "outside": {"files": result.outside, "first": result.first_outside},
        "refused": {"files": result.refused, "first": result.first_refused},
        "verified_references": result.verified,
        "recovered": list(result.recovered),
        **(error_json(result.failure) if result.failure is not None else {}),
        **({"job": job_json(result.job)} if result.job is not None else {}),
    }
