"""Shows how the files of a table lie along a column, now and after a sort."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.cli.as_json import plain
from tidyberg.cli.formatting import count, dollars, plural, size
from tidyberg.cli.listing import Listing
from tidyberg.model.layout_report import FileLayout, FileRange, LayoutReport

_BINS = 60
_MOST_FILES = 24
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def show_layout(report: LayoutReport, command: str) -> Group:
    title = Text.assemble(
        (str(report.table), "bold"), f" · {plural(len(report.before.files), 'file')} by {report.order}"
    )
    parts: list[RenderableType] = [title, Text()]
    if not report.before.files:
        return Group(title, Text("The table has no data files."))
    top = max(*report.before.profile(_BINS), *report.after.profile(_BINS))
    parts += [Text(f"files over the range of {report.column}, lowest value to highest", style="dim")]
    parts += [_profile("now", report.before, top, "red")]
    if report.forecast is not None:
        parts += [_profile("after", report.after, top, "green")]
    parts += [Text(), _files(report.before.files), Text(), _figures(report), Text()]
    parts += [Text(words) for words in report.verdicts]
    if report.forecast is not None:
        parts.append(Text(f"next: {command}", style="dim"))
    return Group(*parts)


def layout_json(report: LayoutReport) -> dict[str, Any]:
    document: dict[str, Any] = plain(report)
    for name, layout in (("before", report.before), ("after", report.after)):
        document[name]["average_depth"] = layout.lookup_files
        document[name]["histogram"] = {str(depth): files for depth, files in layout.histogram.items()}
    return document


def _profile(label: str, layout: FileLayout, top: int, style: str) -> Text:
    """Draws the number of files along the column, as one line of blocks."""
    blocks = "".join(_EIGHTHS[max(1, round(depth / top * 8)) if depth else 0] for depth in layout.profile(_BINS))
    return Text.assemble(f"{label:>5} ", (blocks, style), f" up to {count(layout.max_depth)}")


def _files(files: tuple[FileRange, ...]) -> Group:
    table = Listing()
    table.add_column("partition", no_wrap=True, max_width=24)
    table.add_column("range", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("overlap", justify="right", no_wrap=True)
    for file in files[:_MOST_FILES]:
        bar = Text(_range_bar(file, _BINS // 2), style="yellow" if file.is_rewritten else "green")
        table.add_row(file.partition, bar, size(file.size), count(file.depth))
    more = len(files) - _MOST_FILES
    return Group(table, *([Text(f" … {count(more)} more (--json has all)", style="dim")] if more > 0 else []))


def _range_bar(file: FileRange, width: int) -> str:
    if file.low is None or file.high is None:
        return "?" * width
    first = min(width - 1, int(file.low * width))
    last = max(first, min(width - 1, int(file.high * width)))
    return "·" * first + "█" * (last - first + 1) + "·" * (width - last - 1)


def _figures(report: LayoutReport) -> Listing:
    table = Listing()
    table.add_column("", no_wrap=True)
    for heading in ("now", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    sorts = report.forecast is not None
    rows: list[tuple[str, str, str]] = [
        ("files", count(len(report.before.files)), count(len(report.after.files))),
        ("deepest overlap", count(report.before.max_depth), count(report.after.max_depth)),
        ("a lookup reads", _number(report.before.lookup_files), _number(report.after.lookup_files)),
        ("1 % of the rows reads", _number(report.before.range_files), _number(report.after.range_files)),
    ]
    for label, now, after in rows:
        table.add_row(label, now, after if sorts else "–")
    if report.forecast is not None:
        table.add_row("price of the sort", "", dollars(report.dollars))
        payback = report.forecast.payback_queries
        table.add_row("pays back after", "", "never" if payback is None else f"{count(payback)} lookups")
    return table


def _number(files: float) -> str:
    return f"{files:,.0f}" if files >= 10 or files == round(files) else f"{files:.1f}"
