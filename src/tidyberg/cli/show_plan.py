"""Shows a plan: verdicts per partition, the price, the payback and the next command."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidyberg.cli.as_json import TakeNow
from tidyberg.cli.formatting import ago, count, dollars, duration, partition_label, plural, short_id, size
from tidyberg.cli.listing import Listing
from tidyberg.cli.session import THIS_PROCESS
from tidyberg.model.left import LeftAlone, left_alone, outcome_without_commit
from tidyberg.model.options import Strategy
from tidyberg.model.plan import BoundaryForecast, Estimate, LayoutForecast, PartitionVerdict, Plan, Rewrite, Skip

SHOWN_PARTITIONS = 12
TIDY_HEALTH = 80  # below this, a table is not called tidy


def show_plan(
    plan: Plan,
    *,
    now_ms: int,
    engine: str,
    next_command: str | None,
    show_all: bool = False,
    take_now: TakeNow | None = None,
) -> Group:
    parts: list[RenderableType] = [_headline(plan, now_ms), _totals(plan), Text()]
    if plan.partitions:
        parts += [_verdicts(plan, show_all), Text()]
    parts += _conclusion(plan, engine)
    parts += [Text(f"warning: {words}", style="yellow") for words in plan.warnings]
    parts += [Text(f"not in this plan: {words}", style="yellow") for words in plan.left_out]
    parts += show_left(left_alone(plan), take_now)
    closing = f"plan {plan.hash[:8]}"
    if next_command and not plan.is_empty:
        closing += f" · next: {next_command}"
    parts.append(Text(closing, style="dim"))
    return Group(*parts)


def show_groups(plan: Plan) -> Table:
    """Returns the groups that `apply` runs."""
    table = Listing()
    for heading, justify in (("group", "right"), ("partition", "left"), ("files", "right"), ("rows", "right"),
                             ("read", "right"), ("outputs", "right"), ("mode", "left"), ("because", "left"),
                             ("score", "right"), ("price", "right")):  # fmt: skip
        table.add_column(heading, justify="right" if justify == "right" else "left")
    for group in plan.groups:
        table.add_row(
            str(group.group_id), partition_label(group.partition_path), count(len(group.files)),
            count(group.records), size(group.bytes), count(group.outputs), group.mode, group.mode_reason,
            f"{group.score:.2f}", dollars(group.estimate.dollars),
        )  # fmt: skip
    return table


def nothing_done(plan: Plan) -> Text:
    """Returns why nothing is rewritten. A table is called tidy only if no file waits and none is refused."""
    left = left_alone(plan)
    outcome = outcome_without_commit(left)
    files = sum(each.files for each in left if each.disposition == outcome)
    if outcome == "waiting":
        return Text(
            f"{plural(files, 'file')} {'waits' if files == 1 else 'wait'}, nothing is rewritten", style="yellow"
        )
    if outcome == "refused":
        return Text(f"{plural(files, 'file')} cannot be rewritten", style="yellow")
    if any(isinstance(each.verdict, Skip) and each.verdict.code == "filtered" for each in plan.partitions):
        return Text("nothing to do: what the filter selects is tidy", style="green")
    refused_sort = any(isinstance(each.verdict, Skip) and each.verdict.code == "no-gain" for each in plan.partitions)
    if refused_sort and plan.options.get("strategy") == Strategy.SORT:
        return Text("nothing to do: a sort would gain nothing; --force sorts anyway")
    if plan.health < TIDY_HEALTH:
        return Text(
            "nothing to do: rewriting data files would not improve this table; `tidyberg health` shows what would"
        )
    return Text("nothing to do, it is tidy", style="green")


def show_left(left: Sequence[LeftAlone], take_now: TakeNow | None = None) -> list[Text]:
    """Returns what was left unchanged, why, until when, and the command that rewrites it now."""
    lines = [Text(str(each), style="yellow") for each in left]
    first = next((each for each in left if each.take_now is not None), None)
    if first is not None and first.take_now is not None and take_now is not None:
        lines.append(Text(f"to rewrite it now: {take_now(first.take_now)}", style="yellow"))
    return lines


def health_style(score: int) -> str:
    return "bold red" if score < 50 else "bold yellow" if score < TIDY_HEALTH else "bold green"


def title_line(left: str, score: int) -> Table:
    line = Table.grid(expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(Text(left, style="bold"), Text(f"health {score}/100", style=health_style(score)))
    return line


def _headline(plan: Plan, now_ms: int) -> Table:
    state = f"{plan.branch} @ {short_id(plan.snapshot_id)}"
    when = f" ({ago(plan.snapshot_ms, now_ms)})" if plan.snapshot_ms is not None else ""
    return title_line(f"{plan.table} · {state}{when}", plan.health)


def _totals(plan: Plan) -> Text:
    files = sum(partition.files for partition in plan.partitions)
    total = sum(partition.bytes for partition in plan.partitions)
    words = f"{plural(files, 'file')} · {size(total)} · {plural(len(plan.partitions), 'partition')}"
    if files:
        words += f" · average {size(total / files)}, target {size(plan.target_file_size)}"
    if plan.sort_order is not None:
        words += f"\norder by {plan.sort_order}"
    if plan.boundaries is not None:
        words += f"\ncut at {plan.asked_boundaries}"
    if plan.resolved_where:
        words += f"\nwhere {plan.resolved_where}"
    return Text(words)


def _verdicts(plan: Plan, show_all: bool) -> Group:
    ordered = sorted(plan.partitions, key=_importance)
    shown = ordered if show_all else ordered[:SHOWN_PARTITIONS]
    modes = {group.group_id: group.mode for group in plan.groups}
    widths = _widths(shown)
    table = Listing()
    table.add_column("partition", no_wrap=True, max_width=44)
    for heading in ("files", "small", "deletes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("", overflow="fold")
    for partition in shown:
        rewrite = isinstance(partition.verdict, Rewrite)
        table.add_row(
            partition_label(partition.partition_path),
            count(partition.files),
            count(partition.small_files),
            count(partition.delete_files) if partition.delete_files else "–",
            Text("rewrite" if rewrite else "skip", style="green" if rewrite else "dim"),
            _detail(partition, modes, widths),
        )
    if len(shown) == len(ordered):
        return Group(table)
    return Group(table, Text(f" … {len(ordered) - len(shown)} more (--all)", style="dim"))


def _importance(partition: PartitionVerdict) -> tuple[bool, float, int, str]:
    return (not isinstance(partition.verdict, Rewrite), -partition.score, -partition.files, partition.partition_path)


def _widths(partitions: Sequence[PartitionVerdict]) -> tuple[int, int]:
    rewrites = [p.verdict for p in partitions if isinstance(p.verdict, Rewrite)]
    inputs = max((len(count(rewrite.files)) for rewrite in rewrites), default=0)
    return inputs, max((len(count(rewrite.outputs)) for rewrite in rewrites), default=0)


def _detail(partition: PartitionVerdict, modes: Mapping[int, str], widths: tuple[int, int]) -> Text:
    verdict = partition.verdict
    if not isinstance(verdict, Rewrite):
        return Text(verdict.reason, style="dim")
    inputs, outputs = widths
    used = sorted({modes.get(group, "") for group in verdict.groups} - {""})
    change = f"{count(verdict.files):>{inputs}} → {count(verdict.outputs):<{outputs}}"
    if "sort" in used:
        used.append(verdict.reason)
    return Text("  ".join([change, *used, dollars(verdict.dollars)]))


def _conclusion(plan: Plan, engine: str) -> list[RenderableType]:
    if plan.is_empty:
        return [nothing_done(plan)]
    estimate = plan.estimate
    what = "merge" if plan.keeps_data else "rewrite"
    files = "delete file" if plan.keeps_data else "file"
    lines = [
        f"{what} {plural(estimate.input_files, files)} into {count(estimate.output_files)}"
        f" · read {size(estimate.bytes_read)}, write {size(estimate.bytes_written)}"
        f" · about {duration(estimate.seconds)} on {engine}"
        f" · {dollars(estimate.dollars)} ({dollars(estimate.dollars_per_gb)}/GB)",
        _modes(plan),
        _gain(estimate),
    ]
    if plan.boundaries is not None:
        lines.append(_boundaries(plan, plan.boundaries))
    elif plan.layout is not None:
        lines.append(_layout(plan, plan.layout))
    if plan.full_rewrite is not None:
        lines.append(_full_rewrite(plan.full_rewrite))
    if plan.better_inline:
        lines.append(
            "Spark would take longer to start than this takes here"
            if engine == THIS_PROCESS
            else "Spark takes longer to start than one core needs for the job: --engine auto runs it in this process"
        )
    if estimate.storage_dollars:
        kept = dollars(estimate.storage_dollars)
        lines.append(f"the replaced files cost {kept} more in storage until their snapshots expire")
    return [Text(line) for line in lines]


def _modes(plan: Plan) -> str:
    done = {"copy": "copied", "encode": "encoded", "deletes": "of deletes merged", "sort": "sorted"}
    words = [f"{plural(groups, 'group')} {done[mode]} ({why})" for (mode, why), groups in plan.modes.items()]
    return " · ".join(words)


def _full_rewrite(estimate: Estimate) -> str:
    """Returns what it would take to apply the deletes to the data files instead."""
    words = (
        f"rewriting the {plural(estimate.input_files, 'data file')} instead would write "
        f"{size(estimate.bytes_written)} and cost {dollars(estimate.dollars)}"
    )
    if estimate.payback_scans is None:
        return words
    return f"{words}, and pay back after {plural(estimate.payback_scans, 'scan')}"


def _layout(plan: Plan, layout: LayoutForecast) -> str:
    """Returns what a sort buys, and after how many queries it has paid for itself."""
    after, before = _files(layout.lookup_files_after), _files(layout.lookup_files_before).split()[0]
    words = f"sort by {plan.sort_order}: a lookup reads {after} instead of {before}"
    return f"{words}, {_cost_and_payback(plan.estimate, layout.payback_queries)}"


def _boundaries(plan: Plan, forecast: BoundaryForecast) -> str:
    """Returns what queries between boundaries read of the partitions that are rewritten."""
    query = "a query between two boundaries" if len(forecast.asked) > 1 else "a query for one side of the boundary"
    before = f"{_files(forecast.files_before)} ({size(forecast.bytes_before)})"
    words = f"{query} reads {_files(forecast.files_after)} ({size(forecast.bytes_after)}) instead of {before}"
    return f"{words}, {_cost_and_payback(plan.estimate, forecast.payback_queries)}"


def _cost_and_payback(estimate: Estimate, payback_queries: int | None) -> str:
    words = f"costs {dollars(estimate.dollars + estimate.storage_dollars)}"
    if payback_queries is None:
        return f"{words}, and does not pay back by what queries skip"
    return f"{words}, pays back after {count(payback_queries)} {'query' if payback_queries == 1 else 'queries'}"


def _files(number: float) -> str:
    text = f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"
    return f"{text} file" if text == "1" else f"{text} files"


def _gain(estimate: Estimate) -> str:
    saved = f"saves {plural(estimate.file_opens_saved, 'file open')}"
    if estimate.bytes_saved > 0:
        saved += f" and {size(estimate.bytes_saved)}"
    saved += " per full scan; "
    if estimate.payback_scans is None:
        return saved + "does not pay back in requests alone"
    return saved + f"pays back after {plural(estimate.payback_scans, 'scan')}"
