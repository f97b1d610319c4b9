"""A table that stays readable on a narrow terminal: if its columns do not fit, each row becomes a few lines."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from tidyberg.cli.console import text_without_controls

_READABLE = 20  # minimum width of a column that can wrap, in characters
_PADDING = 2  # around every column


class Listing(Table):
    """The first column names the row. If rows become lines, cells without a value (–) are omitted."""

    def __init__(self) -> None:
        super().__init__(box=None, pad_edge=True, header_style="dim")

    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """Names and values are no markup. Control characters have no width, so they go before columns are measured."""
        super().add_row(*map(_literal, renderables), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = sum(self._needed(column, console, options) + _PADDING for column in self.columns)
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._as_lines()

    def _needed(self, column: Column, console: Console, options: ConsoleOptions) -> int:
        cells = [column.header, *column.cells]
        whole = [cell for cell in cells if not (isinstance(cell, Text) and cell.overflow == "ellipsis")]
        width = max(Measurement.get(console, options.update(width=1000), cell).maximum for cell in whole)
        if not column.no_wrap:
            width = min(width, _READABLE)
        return min(width, column.max_width) if column.max_width else width

    def _as_lines(self) -> Iterator[RenderableType]:
        for row in zip(*(list(column.cells) for column in self.columns), strict=True):
            name, *values = (_text(cell) for cell in row)
            words = f"{_text(self.columns[0].header).plain} {name.plain}" if name.plain.isdigit() else name.plain
            yield Text(words, style="bold", overflow="fold")
            described = Text(" · ").join(
                _described(_text(column.header).plain, value)
                for column, value in zip(self.columns[1:], values, strict=True)
                if value.plain.strip() not in ("", "–")
            )
            if described.plain:
                yield Padding(described, (0, 0, 0, 2))


def _literal(cell: RenderableType | None) -> RenderableType | None:
    words = Text(cell) if isinstance(cell, str) else cell
    return text_without_controls(words) if isinstance(words, Text) else words


def _text(cell: RenderableType) -> Text:
    if not isinstance(cell, Text):
        return Text(str(cell))
    shown = cell.copy()
    shown.overflow = None
    return shown


def _described(heading: str, value: Text) -> Text:
    """Adds the heading, except to values that explain themselves, such as a verdict or a status."""
    says_itself = heading in ("", "verdict", "status", "what", "strategy")
    return value if says_itself else Text.assemble((f"{heading} ", "dim"), value)
