"""Shows the result of a job: before and after."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidyberg.cli.as_json import TakeNow
from tidyberg.cli.formatting import count, dollars, duration, plural, short_id, size
from tidyberg.cli.show_plan import TIDY_HEALTH, nothing_done, show_left
from tidyberg.cli.show_sizes import show_histogram
from tidyberg.model.job import Job
from tidyberg.model.report import CompactionResult


def show_result(result: CompactionResult, take_now: TakeNow | None = None) -> Group:
    stats = result.stats
    seconds = stats.compaction_time_ms / 1000
    left = show_left(result.left, take_now)
    if not result.has_committed:
        headline = Text.assemble(f"{result.job.table}: ", nothing_done(result.plan))
        if result.outcome != "tidy" or result.plan.health < TIDY_HEALTH:
            headline.append(f" (health {result.plan.health}/100)")
        return Group(headline, *_expired(result), *left, *_left_behind(result))
    headline = Text.assemble(
        ("✓ ", "bold green") if result.failure is None else ("! ", "bold yellow"),
        (f"{result.job.table} · {result.job.branch} @ {short_id(result.snapshot_id)}", "bold"),
        f" · {plural(result.groups_committed, 'group')} committed in {duration(seconds)} · job {result.job.job_id[:8]}",
    )
    parts: list[RenderableType] = [headline, Text(), _before_after(result)]
    parts += [Text(), show_histogram(result.sizes_before, result.sizes_after), Text()]
    parts += [Text(line) for line in (_summary(result), _storage(result)) if line]
    parts += [*_expired(result), *(Text(line) for line in _how(result.job))]
    return Group(*parts, *left, *_left_behind(result))


def _before_after(result: CompactionResult) -> Table:
    stats = result.stats
    table = Table(box=None, pad_edge=True, header_style="dim")
    table.add_column("")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    table.add_row("files", count(stats.files_before), count(stats.files_after))
    table.add_row("live bytes", size(stats.bytes_before), size(stats.bytes_after))
    table.add_row("average", _average(stats.bytes_before, stats.files_before),
                  _average(stats.bytes_after, stats.files_after))  # fmt: skip
    if stats.delete_files_before or stats.delete_files_after:
        table.add_row("delete files", _known(stats.delete_files_before), _known(stats.delete_files_after))
    return table


def _known(number: int | None) -> str:
    return "–" if number is None else count(number)


def _average(total: int, files: int) -> str:
    return size(total / files) if files else "–"


def _summary(result: CompactionResult) -> str:
    stats, job = result.stats, result.job
    words = f"{plural(stats.files_compacted, 'file')} replaced"
    words += f" · {size(stats.bytes_saved)} less to read" if stats.bytes_saved > 0 else ""
    if stats.small_files_remaining > max(1, len(result.plan.partitions)):  # one per partition is the minimum
        words += f" · {plural(stats.small_files_remaining, 'small file')} left"
    if job.actual_dollars is not None:
        words += f" · cost {dollars(job.actual_dollars)}"
        if job.predicted_dollars is not None:
            words += f" (predicted {dollars(job.predicted_dollars)})"
    return words


def _storage(result: CompactionResult) -> str | None:
    """Returns how much was written, and how much is freed when snapshots expire. A rewrite itself frees nothing."""
    freed = result.stats.bytes_freed_at_expiry
    if not freed:
        return None
    written = sum(result.sizes_written)
    return f"storage: {size(written)} written now; the {size(freed)} replaced are freed when older snapshots expire"


def _expired(result: CompactionResult) -> list[RenderableType]:
    """Returns what was done about old snapshots, if the options asked for it."""
    totals = result.job.expired
    if totals is None:
        return []
    if not totals.snapshots_expired:
        return [Text("snapshots: none is old enough to expire")]
    freed = f"{plural(totals.files_deleted, 'file')} deleted, {size(totals.bytes_deleted)} freed"
    return [Text(f"snapshots: {plural(totals.snapshots_expired, 'snapshot')} expired; {freed}")]


def _how(job: Job) -> list[str]:
    """Returns lines about copied and spliced groups, groups encoded instead, storage requests and memory."""
    copied = job.copied
    lines = []
    if copied.groups:
        words = f"{plural(copied.groups, 'group')} copied, {size(copied.bytes)}"
        lines.append(words + (f", {size(copied.bytes_moved)} of it inside the store" if copied.bytes_moved else ""))
    if (spliced := job.spliced).groups:
        words = f"{plural(spliced.groups, 'group')} encoded in part"
        lines.append(f"{words}: {size(spliced.bytes_spliced)} of {size(spliced.bytes)} moved without decoding")
    lines += [
        f"{plural(groups, 'group')} encoded instead of copied: {reason}"
        for reason, groups in sorted(copied.encoded_instead.items())
    ]
    lines += [
        f"{plural(groups, 'group')} encoded instead of spliced: {reason}"
        for reason, groups in sorted(job.spliced.encoded_instead.items())
    ]
    if job.requests:
        lines.append(
            "requests: " + ", ".join(f"{count(number)} {kind}" for kind, number in sorted(job.requests.items()))
        )
    if job.worker_memory_bytes:
        lines.append(f"memory: {size(job.worker_memory_bytes)} in the largest worker")
    return lines


def _left_behind(result: CompactionResult) -> list[RenderableType]:
    shown = {*result.groups_left, *map(str, result.left)}
    left = [Text(f"left: {reason}", style="yellow") for reason in result.groups_left]
    notes = [Text(note, style="dim") for note in result.job.notes if note not in shown]
    when = "failed after its first commit" if result.has_committed else "failed"
    failure = [Text(f"{when}: {result.failure}", style="bold red")] if result.failure else []
    return [*left, *notes, *failure]
