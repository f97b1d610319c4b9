"""Histograms of file sizes."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from tidyberg.cli.words import count, size
from tidyberg.model.sizes import GB, KB, MB

_EDGES = (64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 32 * MB, 128 * MB, 512 * MB, GB)
_BAR = 24


def size_buckets(sizes: Sequence[int]) -> list[int]:
    """How many files lie below each edge and not below the one before; the last counts all above."""
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


def show_histogram(before: Sequence[int], after: Sequence[int] | None = None) -> Table:
    """One row a range of sizes, from the smallest that holds a file to the largest."""
    columns = [size_buckets(sizes) for sizes in (before, after) if sizes is not None]
    used = [n for n in range(len(_EDGES) + 1) if any(column[n] for column in columns)]
    largest = max((value for column in columns for value in column), default=0)
    table = Table(box=None, pad_edge=True, header_style="dim")
    table.add_column("file size", justify="right")
    for heading in ("files",) if after is None else ("before", "after"):
        table.add_column(heading, no_wrap=True)
    for number in range(used[0], used[-1] + 1) if used else ():
        colours = ("cyan",) if after is None else ("yellow", "green")
        bars = [_bar(column[number], largest, colour) for column, colour in zip(columns, colours, strict=True)]
        table.add_row(bucket_label(number), *bars)
    return table


def _bar(value: int, largest: int, colour: str) -> Text:
    if value == 0:
        return Text("–", style="dim")
    width = max(1, round(value / largest * _BAR))
    return Text.assemble(("█" * width, colour), f" {count(value)}")
