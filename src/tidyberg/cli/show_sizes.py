"""Histograms of file sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tidyberg.cli.formatting import count, size
from tidyberg.model.sizes import GB, KB, MB

_EDGES = (64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 32 * MB, 128 * MB, 512 * MB, GB)
_BAR = 24


def size_buckets(sizes: Sequence[int]) -> list[int]:
    """Counts the files between each pair of edges. The last bucket has no upper edge."""
    buckets = [0] * (len(_EDGES) + 1)
    for each in sizes:
        buckets[next((n for n, edge in enumerate(_EDGES) if each < edge), len(_EDGES))] += 1
    return buckets


def bucket_label(number: int) -> str:
    if number == 0:
        return f"< {size(_EDGES[0])}"
    if number == len(_EDGES):
        return f"≥ {size(_EDGES[-1])}"
    return f"{size(_EDGES[number - 1])} – {size(_EDGES[number])}"


@dataclass(frozen=True)
class Histogram:
    """A row per range of sizes, from the smallest to the largest file. Bars shrink with the terminal."""

    counts: Sequence[Sequence[int]]  # by range: before, and optionally after
    headings: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        used = [n for n in range(len(_EDGES) + 1) if any(column[n] for column in self.counts)]
        largest = max((value for column in self.counts for value in column), default=0)
        shown = range(used[0], used[-1] + 1) if used else range(0)
        labels = max((len(bucket_label(number)) for number in shown), default=0)
        # Every column has a space on each side, and one between a bar and its number.
        around = labels + 2 + len(self.counts) * (3 + len(count(largest)))
        bar = max(1, min(_BAR, (options.max_width - around) // len(self.counts)))
        table = Table(box=None, pad_edge=True, header_style="dim")
        table.add_column("file size", justify="right", no_wrap=True)
        for heading in self.headings:
            table.add_column(heading, no_wrap=True)
        colours = ("cyan",) if len(self.counts) == 1 else ("yellow", "green")
        for number in shown:
            bars = [_bar(c[number], largest, bar, colour) for c, colour in zip(self.counts, colours, strict=True)]
            table.add_row(bucket_label(number), *bars)
        yield table


def show_histogram(before: Sequence[int], after: Sequence[int] | None = None) -> Histogram:
    if after is None:
        return Histogram([size_buckets(before)], ("files",))
    return Histogram([size_buckets(before), size_buckets(after)], ("before", "after"))


def _bar(value: int, largest: int, longest: int, colour: str) -> Text:
    if value == 0:
        return Text("–", style="dim")
    width = max(1, round(value / largest * longest))
    return Text.assemble(("█" * width, colour), f" {count(value)}")
