"""Shows who holds the bytes of a table."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidyberg.cli.as_json import plain
from tidyberg.cli.formatting import count, dollars, plural, size
from tidyberg.cli.listing import Listing
from tidyberg.cli.storage_slices import METADATA_KINDS, MOST_REFS, StorageSlice, age_label, slices_of
from tidyberg.model.storage_report import Holder, StorageReport, StoredBytes

_BAR = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"


def show_storage(report: StorageReport) -> Group:
    total = report.total
    title = Text.assemble(
        (str(report.table), "bold"),
        f" · {size(total.bytes)} in {plural(total.files, 'file')} · {_monthly(report, total.bytes)}",
    )
    parts: list[RenderableType] = [title, Text(), _slices(report, slices_of(report))]
    parts += [Text(), _refs(report), Text(), _ages(report), Text(), _metadata(report), Text(), _actions(report)]
    notes = _notes(report)
    return Group(*parts, *([Text(), *notes] if notes else []))


def _monthly(report: StorageReport, amount: int) -> str:
    return f"{dollars(report.dollars(amount))} a month"


def _slices(report: StorageReport, slices: list[StorageSlice]) -> Table:
    largest = max((one.stored.bytes for one in slices), default=0)
    table = Table(box=None, pad_edge=True, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for one in slices:
        share = one.stored.bytes / report.total.bytes if report.total.bytes else 0
        table.add_row(
            one.label, Text(bar(one.stored.bytes, largest), style=one.style), size(one.stored.bytes), f"{share:.0%}",
            _monthly(report, one.stored.bytes), plural(one.stored.files, "file"),
        )  # fmt: skip
    return table


def bar(amount: int, largest: int) -> str:
    """A bar with a resolution of an eighth of a character. What is not nothing is always visible."""
    if not amount or not largest:
        return ""
    eighths = max(1, round(amount / largest * _BAR * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _refs(report: StorageReport) -> Group:
    table = Listing()
    table.add_column("branch or tag", no_wrap=True, max_width=40)
    for heading in ("references", "only it", "a month, only it"):
        table.add_column(heading, justify="right", no_wrap=True)
    for ref in report.refs[:MOST_REFS]:
        table.add_row(ref.ref, size(ref.total.bytes), size(ref.only.bytes), dollars(report.dollars(ref.only.bytes)))
    more = len(report.refs) - MOST_REFS
    return Group(table, *([Text(f" … {more} more (--json has all)", style="dim")] if more > 0 else []))


def _ages(report: StorageReport) -> Listing:
    table = Listing()
    table.add_column("expiring snapshots", no_wrap=True)
    for heading in ("snapshots", "files", "frees", "a month"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in report.ages:
        table.add_row(
            age_label(one.older_than_ms, is_own=one.is_own), count(one.snapshots), count(one.freed.files),
            size(one.freed.bytes), dollars(report.dollars(one.freed.bytes)),
        )  # fmt: skip
    return table


def _metadata(report: StorageReport) -> Listing:
    table = Listing()
    table.add_column("metadata", no_wrap=True)
    for heading in ("current", "all", "files", "a month"):
        table.add_column(heading, justify="right", no_wrap=True)
    known = tuple(one for one in Holder if one not in (Holder.ORPHAN, Holder.UNKNOWN))
    for kind in METADATA_KINDS:
        stored = report.of_kind(kind, holders=known)
        current = report.of_kind(kind, holders=(Holder.CURRENT,))
        table.add_row(
            kind.value, size(current.bytes) if current.files else "–", size(stored.bytes), count(stored.files),
            dollars(report.dollars(stored.bytes)),
        )  # fmt: skip
    return table


def _actions(report: StorageReport) -> Listing:
    table = Listing()
    table.add_column("command", no_wrap=True)
    for heading in ("frees", "a month", "adds first"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("why")
    for one in report.actions:
        freed, saved = ("?", "?")
        if one.frees_bytes is not None:
            freed, saved = size(one.frees_bytes), dollars(report.dollars(one.frees_bytes))
        table.add_row(
            one.command, freed, saved, size(one.adds_bytes) if one.adds_bytes else "–", one.exactness, one.why
        )
    return table


def _notes(report: StorageReport) -> list[Text]:
    notes = []
    if report.young_orphans.files:
        young = report.young_orphans
        notes.append(
            Text(f"{plural(young.files, 'orphan')} ({size(young.bytes)}) younger than 3 days: writers may be at work")
        )
    if report.outside.files:
        words = f"{plural(report.outside.files, 'referenced file')} ({size(report.outside.bytes)}, as recorded)"
        notes.append(Text(f"{words} outside of the table's locations: not counted", style="yellow"))
    if report.missing:
        words = f"{plural(report.missing, 'referenced file')} missing, first {report.first_missing}"
        notes.append(Text(words, style="bold red"))
    if report.unreadable:
        words = f"{plural(len(report.unreadable), 'metadata file')} cannot be read, so nothing is called an orphan"
        notes.append(Text(f"{words}; first: {report.unreadable[0]}", style="bold red"))
    return notes


def storage_json(report: StorageReport) -> dict[str, Any]:
    def stored(found: StoredBytes) -> dict[str, Any]:
        return {"files": found.files, "bytes": found.bytes, "dollars_a_month": report.dollars(found.bytes)}

    return {
        "success": True,
        "table": str(report.table),
        "total": stored(report.total),
        "slices": {one.label: stored(one.stored) for one in slices_of(report)},
        "holdings": [
            {
                "holder": one.holder.value,
                "kind": one.kind.value,
                "ref": one.ref or None,
                "expires_at_ms": one.expires_at_ms,
                **stored(one.stored),
            }
            for one in report.holdings
        ],
        "refs": [
            {"ref": one.ref, "snapshot_id": one.snapshot_id, "total": stored(one.total), "only": stored(one.only)}
            for one in report.refs
        ],
        "ages": [
            {
                "older_than_ms": one.older_than_ms,
                "is_own": one.is_own,
                "snapshots": one.snapshots,
                "freed": stored(one.freed),
            }
            for one in report.ages
        ],
        "actions": [plain(one) for one in report.actions],
        "young_orphans": stored(report.young_orphans),
        "outside": stored(report.outside),
        "missing": {"files": report.missing, "first": report.first_missing},
        "unreadable": list(report.unreadable),
        "dollars_per_gb_month": report.dollars_per_gb_month,
    }
