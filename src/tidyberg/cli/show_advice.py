"""Shows advice: properties with the statement that sets them, and writers with what their small files cost."""

from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import plain
from tidyberg.cli.formatting import dollars, plural, size
from tidyberg.model.advice import Advice, HistorySpan, PropertyAdvice, WriterAdvice
from tidyberg.planning.writer_settings import interval_words


def show_advice(advice: Advice, setting: str) -> Group:
    """`setting` is the command that sets the advised properties."""
    if advice.is_empty:
        return Group(Text(f"{advice.table}: nothing is left to advise"), *_writers(advice))
    return Group(*_properties(advice, setting, dry_run=False), *_writers(advice))


def show_properties(advice: Advice, setting: str, *, dry_run: bool) -> Group:
    """Shows only the table's properties, as they were set or may be set."""
    return Group(*_properties(advice, setting, dry_run=dry_run))


def advice_json(advice: Advice, *, dry_run: bool, only_properties: bool) -> dict[str, Any]:
    writers = [
        {
            "writer": str(one.history.writer),
            **plain(one),
            **({} if one.cost is None else {"dollars_per_day": one.cost.dollars}),
        }
        for one in advice.writers
    ]
    return {
        "table": str(advice.table),
        "outcome": _outcome(advice, dry_run=dry_run),
        "properties": plain(advice.properties),
        **({} if only_properties else {"writers": writers}),
        "history": {**plain(advice.span), "words": history_words(advice.span)},
    }


def history_words(span: HistorySpan) -> str:
    start = "since the advised properties were set" if span.since_applied else f"in {_days(span.days)}"
    if not span.commits:
        cut = "; older snapshots have expired" if span.is_cut and not span.since_applied else ""
        return f"no history: no writer has committed {start}{cut}"
    cut = "; older snapshots have expired" if span.is_cut else ""
    return f"{plural(span.commits, 'commit')} of writers {start}{cut}"


def _outcome(advice: Advice, *, dry_run: bool) -> str:
    if advice.has_changed:
        return "applied"
    if dry_run:
        return "planned" if advice.properties else "nothing"
    return "nothing" if advice.is_empty else "advised"


def _properties(advice: Advice, setting: str, *, dry_run: bool) -> list[Text]:
    if not advice.properties:
        return [Text(f"{advice.table}: no table property is left to advise")]
    verb = "set just now" if advice.has_changed else "would be set" if dry_run else "advised"
    lines = [Text.assemble((str(advice.table), "bold"), f" · table properties {verb}:")]
    for one in advice.properties:
        lines.append(Text(f"  {one.name}: {_current(one)} → {one.advised}"))
        lines.append(Text(f"    {one.why}", style="dim"))
    if not advice.has_changed and not dry_run:
        lines += [Text(f"  to set them: {setting}, or"), Text(f"  {_statement(advice)}")]
    return lines


def _current(one: PropertyAdvice) -> str:
    return "not set" if one.current is None else one.current


def _statement(advice: Advice) -> str:
    pairs = ", ".join(f"'{one.name}'='{one.advised}'" for one in advice.properties)
    return f"ALTER TABLE {advice.table} SET TBLPROPERTIES ({pairs})"


def _writers(advice: Advice) -> list[Text]:
    lines = [Text(f"writers, {history_words(advice.span)}:" if advice.writers else history_words(advice.span))]
    for one in advice.writers:
        lines += _writer(one)
    return lines


def _writer(one: WriterAdvice) -> list[Text]:
    history = one.history
    every = "" if history.interval_ms is None else f", one every {interval_words(history.interval_ms)}"
    files = f"{plural(history.files, 'file')} of {size(history.file_bytes)} in {plural(history.commits, 'commit')}"
    lines = [Text.assemble("  ", (str(history.writer), "bold"), f": {files}{every}")]
    if one.cost is None:
        return [*lines, Text("    it makes no small files that matter")]
    cost = one.cost
    lines.append(
        Text(
            f"    {plural(cost.files, 'file')} a day where {cost.needed_files:,} would do: {dollars(cost.dollars)} "
            f"a day ({dollars(cost.put_dollars)} to write them, {dollars(cost.compaction_dollars)} to compact them), "
            f"and {dollars(cost.scan_dollars)} more for each scan of a day's files"
        )
    )
    for setting in one.settings:
        lines.append(Text(f"    {setting.place}: {setting.name} = {setting.value}"))
        lines.append(Text(f"      {setting.why}", style="dim"))
    if not one.settings:
        lines.append(Text("    no setting of the writer would change that: leave these files to compaction"))
    return lines


def _days(days: float) -> str:
    return "the last day" if days <= 1 else f"the last {round(days)} days"
