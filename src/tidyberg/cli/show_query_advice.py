"""Shows which layout the queries of a table would profit from, and by how much."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import plain
from tidyberg.cli.formatting import plural, size
from tidyberg.model.words import count_boundaries
from tidyberg.model.workload import BoundaryChoice, FilterScore, LayoutChoice, LayoutScore, QueryAdvice
from tidyberg.planning.column_names import quoted_name
from tidyberg.planning.sort_orders import order_text

# Returns the command that compacts the table with these flags.
CompactCommand = Callable[..., str]

_MOST_SCORES = 5
_MOST_FILTERS = 10
_MOST_UNREADABLE = 3


def show_query_advice(advice: QueryAdvice, compact: CompactCommand) -> Group:
    return Group(
        Text.assemble((str(advice.table), "bold"), f" · {_queries(advice)}"),
        *_unreadable(advice),
        *_columns(advice),
        *_verdict(advice, compact),
        *_boundary(advice, compact),
        *_filters(advice.filters),
        *_sample(advice),
    )


def query_advice_json(advice: QueryAdvice, compact: CompactCommand) -> dict[str, Any]:
    document: dict[str, Any] = plain(advice)
    document["table"] = str(advice.table)
    document["outcome"] = "nothing" if advice.best is None else "advised"
    document["command"] = None if advice.best is None else compact(**layout_flags(advice.best))
    document["columns"] = dict(advice.columns)
    document["joined_on"] = dict(advice.joined_on)
    if advice.boundary is not None:
        document["boundary"]["command"] = compact(**boundary_flags(advice.boundary))
    return document


def layout_flags(layout: LayoutChoice) -> dict[str, Any]:
    columns = [quoted_name(column) for column in layout.columns]
    return {"sort_order": order_text(columns)} if layout.curve is None else {layout.curve.value: ",".join(columns)}


def boundary_flags(choice: BoundaryChoice) -> dict[str, Any]:
    return {**layout_flags(LayoutChoice((choice.column,))), "boundaries": ", ".join(choice.boundaries)}


def _queries(advice: QueryAdvice) -> str:
    scans = f"{_scans(advice.scans)} of this table"
    if not advice.queries and advice.scans:
        return f"{scans}, from reports of engines"
    parts = [_queries_words(advice.queries), scans]
    if advice.elsewhere:
        parts.append(f"{_queries_words(advice.elsewhere)} without it")
    return ", ".join(parts)


def _unreadable(advice: QueryAdvice) -> Iterable[Text]:
    if not advice.unreadable:
        return
    yield Text(f"  {_queries_words(len(advice.unreadable))} could not be parsed:")
    for one in advice.unreadable[:_MOST_UNREADABLE]:
        yield Text(f"    {one}", style="dim")


def _columns(advice: QueryAdvice) -> Iterable[Text]:
    if advice.columns:
        yield Text(f"  filtered by: {_named(advice.columns)}")
    if advice.joined_on:
        yield Text(f"  joined on: {_named(advice.joined_on)}")
    if advice.unfiltered:
        have = "has" if advice.unfiltered == 1 else "have"
        yield Text(f"  {_scans(advice.unfiltered)} {have} no filter that a layout could serve")
    if advice.unmeasured:
        yield Text(f"  {_scans(advice.unmeasured)} with rarer filters did not count for the choice")


def _verdict(advice: QueryAdvice, compact: CompactCommand) -> Iterable[Text]:
    if advice.best is None:
        yield Text.assemble("  layout: ", ("none", "bold"), f": {advice.why}")
        if advice.scores:
            yield Text(f"    the queries read {_percent(advice.share)} of {plural(advice.files, 'file')} today")
            yield Text(f"    {_others(advice.scores)}", style="dim")
        return
    best = next(one for one in advice.scores if one.layout == advice.best)
    others = [one for one in advice.scores if one.layout != advice.best]
    words = f": the queries read {_percent(best.share)} of the files instead of {_percent(advice.share)}"
    yield Text.assemble("  layout: ", (str(best.layout), "bold"), words)
    if others:
        yield Text(f"    {_others(others)}", style="dim")
    yield Text(f"    to write it: {compact(**layout_flags(advice.best))}")
    if 2 * advice.files_by_size < advice.files:
        yield Text(
            f"    at the target file size, {plural(advice.files, 'file')} become {advice.files_by_size:,}, "
            "which skip less: the figures are for today's number of files",
            style="dim",
        )


def _boundary(advice: QueryAdvice, compact: CompactCommand) -> Iterable[Text]:
    one = advice.boundary
    if one is not None:
        yield Text(f"  {boundary_words(one)}")
        yield Text(f"    to write it: {compact(**boundary_flags(one))}")


def boundary_words(one: BoundaryChoice) -> str:
    which = f"{count_boundaries(len(one.boundaries))} of {one.column}"
    straddle = "straddles" if one.files == 1 else "straddle"
    return (
        f"cutting only the {plural(one.files, 'file')} that {straddle} {which} "
        f"({size(one.bytes)}): the queries read {_percent(one.share)} of the files; "
        f"a full sort by {one.column} ({size(one.full_bytes)}): {_percent(one.full_share)}"
    )


def _filters(filters: tuple[FilterScore, ...]) -> Iterable[Text]:
    if filters:
        yield Text("  files read, before → after:")
    for one in filters[:_MOST_FILTERS]:
        typical = " (typical values)" if one.is_typical else ""
        reads = " → ".join((_read(one.before, one.bytes_before), _read(one.after, one.bytes_after)))
        yield Text(f"    {reads}  {_weight(one.weight)}x  {one.text}{typical}")
    if len(filters) > _MOST_FILTERS:
        yield Text(f"    and {len(filters) - _MOST_FILTERS:,} more", style="dim")


def _sample(advice: QueryAdvice) -> Iterable[Text]:
    sample = advice.sample
    if sample.rows:
        where = f"{sample.partitions:,} of {plural(sample.all_partitions, 'partition')}"
        yield Text(f"  measured on {plural(sample.rows, 'row')} ({size(sample.bytes)}) of {where}", style="dim")


def _others(scores: Iterable[LayoutScore]) -> str:
    """The best scores, and the best of each kind."""
    ordered = list(scores)
    kinds = {one.layout.curve: one for one in reversed(ordered)}
    shown = [one for one in ordered if one in ordered[:_MOST_SCORES] or one in kinds.values()]
    return " · ".join(f"{one.layout}: {_percent(one.share)}" for one in shown)


def _named(columns: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} ({_weight(weight)}x)" for name, weight in columns)


def _queries_words(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"


def _scans(weight: float) -> str:
    return f"{_weight(weight)} {'scan' if weight == 1 else 'scans'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def _read(files: float, read_bytes: int) -> str:
    return f"{_files(files)} ({size(read_bytes)})"


def _files(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 or count == round(count) else f"{count:.1f}"


def _weight(weight: float) -> str:
    return f"{weight:,.0f}" if weight == round(weight) else f"{weight:,.1f}"
