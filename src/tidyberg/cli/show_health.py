"""Shows the health of a table, and the list of tables."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.cli.formatting import ago, count, plural, short_id, size
from tidyberg.cli.listing import Listing
from tidyberg.cli.show_plan import title_line
from tidyberg.cli.show_sizes import show_histogram
from tidyberg.model.report import HealthReport, TableSummary

SHOWN_PARTITIONS = 10


def show_health(report: HealthReport, *, now_ms: int, next_command: str, show_all: bool = False) -> Group:
    when = f" ({ago(report.snapshot_ms, now_ms)})" if report.snapshot_ms is not None else ""
    title = f"{report.table} · {report.branch} @ {short_id(report.snapshot_id)}{when}"
    parts: list[RenderableType] = [title_line(title, report.health.score), _totals(report), Text()]
    parts += [Text(f"  {reason}") for reason in report.health.reasons] or [Text("  no problems found")]
    if report.file_sizes:
        parts += [Text(), show_histogram(report.file_sizes), Text(), _partitions(report, now_ms, show_all)]
    parts += [Text(), Text(f"next: {next_command}", style="dim")]
    return Group(*parts)


def show_tables(tables: Sequence[TableSummary], *, now_ms: int) -> RenderableType:
    if not tables:
        return Text("no tables")
    shown = Listing()
    shown.add_column("table", no_wrap=True)
    for heading in ("files", "bytes", "average", "rows", "deletes", "last commit"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for summary in tables:
        if summary.error is not None:
            shown.add_row(str(summary.table), Text(summary.error, style="red", overflow="ellipsis"))
            continue
        average = size(summary.bytes / summary.files) if summary.bytes and summary.files else "–"
        shown.add_row(
            str(summary.table), _known(summary.files), "–" if summary.bytes is None else size(summary.bytes),
            average, _known(summary.records), _known(summary.delete_files), ago(summary.snapshot_ms, now_ms),
        )  # fmt: skip
    return shown


def _when(then_ms: int | None, now_ms: int) -> str:
    """Returns the age, or – if no remaining snapshot has the time. That does not mean `never`."""
    return "–" if then_ms is None else ago(then_ms, now_ms)


def _known(number: int | None) -> str:
    return "–" if number is None else count(number)


def _totals(report: HealthReport) -> Text:
    words = [plural(report.files, "file"), f"{count(report.small_files)} small", size(report.bytes),
             plural(report.records, "row"), plural(report.delete_files, "delete file"),
             f"target {size(report.target_file_size)}"]  # fmt: skip
    kept = [plural(report.snapshots, "snapshot"), plural(report.manifests, "manifest")]
    if report.metadata_bytes is not None:
        kept.append(f"metadata.json {size(report.metadata_bytes)}")
    if report.dead_bytes:
        kept.append(f"{size(report.dead_bytes)} freed when older snapshots expire")
    return Text(" · ".join(words) + "\n" + " · ".join(kept))


def _partitions(report: HealthReport, now_ms: int, show_all: bool) -> Group:
    table = Listing()
    table.add_column("partition", no_wrap=True, max_width=44)
    for heading in ("files", "small", "bytes", "deletes", "last write", "last compaction"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = report.partitions if show_all else report.partitions[:SHOWN_PARTITIONS]
    for label, numbers in shown:
        table.add_row(
            label, count(numbers.files), count(numbers.small_files), size(numbers.bytes),
            count(numbers.delete_files) if numbers.delete_files else "–",
            _when(numbers.last_write_ms, now_ms), _when(numbers.last_compaction_ms, now_ms),
        )  # fmt: skip
    rest = len(report.partitions) - len(shown)
    return Group(table, Text(f" … {rest} more (--all)", style="dim")) if rest else Group(table)
