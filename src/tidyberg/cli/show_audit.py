"""Shows an audit: a line per snapshot, and where damaged rows are."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.cli.formatting import count, moment, plural
from tidyberg.model.audit import AuditReport, Harm, Receipt, SnapshotAudit, Verdict

_HARMS = {
    Harm.LOST: "lost",
    Harm.HIDDEN: "hidden by a delete that must not apply to them",
    Harm.CHANGED: "changed",
    Harm.CAME_BACK: "reappeared after they were deleted",
    Harm.DOUBLED: "duplicated",
    Harm.APPEARED: "appeared that were never in the table",
    Harm.LINEAGE: "lost their row id or their last updated sequence number",
}
_MARKS = {Verdict.INTACT: ("✓", "bold green"), Verdict.DAMAGED: ("✗", "bold red"), Verdict.NOT_AUDITED: ("?", "yellow")}
RECEIPT_TEXTS = {
    Receipt.HOLDS: "receipt matches",
    Receipt.FOOTERS_HOLD: "receipt matches (copied files by size and footer)",
    Receipt.BROKEN: "receipt mismatch: files changed since they were written",
    Receipt.UNCHECKED: "receipt not checked",
}


def show_audit(report: AuditReport, *, timezone: str) -> Group:
    parts: list[RenderableType] = [Text(f"{report.table} · {report.branch} · {_summary(report)}", style="bold")]
    for audited in report.snapshots:
        parts += _lines(audited, timezone)
    parts += _refused(report.partly_numbered)
    if report.repair:
        parts.append(Text(f"To rewrite the files that some readers refuse: {report.repair}", style="yellow"))
    return Group(*parts)


def _summary(report: AuditReport) -> str:
    if not report.snapshots:
        return "no replace snapshot in its history"
    verdicts = [audited.verdict for audited in report.snapshots]
    words = {
        Verdict.INTACT: "intact",
        Verdict.DAMAGED: "damaged",
        Verdict.NOT_AUDITED: "could not be audited",
    }
    counts = [f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts]
    return f"{plural(len(verdicts), 'replace snapshot')}: {', '.join(counts)}"


def _lines(audited: SnapshotAudit, timezone: str) -> Iterator[RenderableType]:
    mark, style = _MARKS[audited.verdict]
    line = Text.assemble(
        (f"{mark} ", style),
        f"{audited.snapshot_id} · {moment(audited.timestamp_ms, timezone)} · {audited.made_by} · {_verdict(audited)}",
    )
    if audited.receipt in RECEIPT_TEXTS:
        line.append(f" · {RECEIPT_TEXTS[audited.receipt]}", "red" if audited.receipt is Receipt.BROKEN else "")
    yield line
    yield from _refused(audited.partly_numbered)
    for harm, rows in audited.harms:
        least = "" if audited.is_exact else "at least "
        yield Text(f"    {least}{plural(rows, 'row')} {_HARMS[harm]}", style="red")
        for example in audited.examples:
            if example.harm is harm:
                yield Text(f"      row {example.position} of {example.path} ({example.partition})", style="dim")


def _refused(paths: Iterable[str]) -> Iterator[RenderableType]:
    for path in paths:
        words = "readers built on arrow-rs (DataFusion) refuse it: only some of its row groups are numbered"
        yield Text(f"    {path}: {words}", style="yellow")


def _verdict(audited: SnapshotAudit) -> str:
    if audited.verdict is Verdict.NOT_AUDITED:
        return f"not audited: {audited.reason}"
    if not audited.files_before and not audited.files_after:
        return "intact: no data file or delete changed"
    files = f"{count(audited.files_before)} → {plural(audited.files_after, 'file')}"
    if audited.verdict is Verdict.INTACT:
        lineage = ", row ids too" if audited.lineage_compared else ""
        return f"intact: the same {plural(audited.rows_after, 'row')}{lineage} · {files}"
    return f"DAMAGED: {count(audited.rows_before)} → {plural(audited.rows_after, 'row')} · {files}"
