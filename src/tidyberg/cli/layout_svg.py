"""Draws the files of a table as ranges over a column, now and after a sort; readable on light and dark pages."""

from tidyberg.cli.formatting import count, plural, size
from tidyberg.cli.svg_text import svg_text
from tidyberg.model.layout_report import FileLayout, FileRange, LayoutReport

_WIDTH, _MARGIN = 860, 24
_BINS = 160
_MOST_LANES = 400
_LANES_HEIGHT, _PROFILE_HEIGHT = 220, 60
_TEXT = 'fill="currentColor" font-family="system-ui, sans-serif"'
_TAKEN, _LEFT, _DEEP = "#d29922", "#3fb950", "#a371f7"


def layout_svg(report: LayoutReport) -> str:
    picture = _LayoutPicture()
    picture.text(_MARGIN, str(report.table), size=17, weight="bold")
    picture.text(_WIDTH - _MARGIN, f"files over {report.column}, sorted by {report.order}", anchor="end")
    picture.down(14)
    sections = [("now", report.before)]
    if report.forecast is not None:
        sections.append(("after a sort (predicted)", report.after))
    top = max((max(layout.profile(_BINS)) for _, layout in sections), default=0) or 1
    for words, layout in sections:
        picture.section(words, layout, top)
    picture.legend()
    return picture.document(f"The files of {report.table} over {report.column}")


class _LayoutPicture:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._y = 30.0

    def down(self, pixels: float) -> None:
        self._y += pixels

    def section(self, words: str, layout: FileLayout, top: int) -> None:
        self.down(22)
        self.text(_MARGIN, words, size=14, weight="bold")
        found = (
            f"{plural(len(layout.files), 'file')} · up to {count(layout.max_depth)} overlap · "
            f"a lookup reads {layout.lookup_files:.1f}, 1 % of the rows {layout.range_files:.1f}"
        )
        self.text(_WIDTH - _MARGIN, found, anchor="end")
        self.down(10)
        self._ranges(layout)
        self._profile(layout, top)
        self._histogram(layout)

    def legend(self) -> None:
        self.down(14)
        left = float(_MARGIN)
        for colour, words in ((_TAKEN, "sorted by the plan"), (_LEFT, "left as it is"), (_DEEP, "number of files")):
            self._rect(left, self._y - 10, 12, 12, colour, words)
            self.text(left + 18, words)
            left += 180

    def _ranges(self, layout: FileLayout) -> None:
        """One lane per file, in the order of partition and place. Of very many files, every n-th is drawn."""
        step = max(1, -(-len(layout.files) // _MOST_LANES))
        shown = layout.files[::step]
        lane = min(10.0, _LANES_HEIGHT / max(1, len(shown)))
        for number, file in enumerate(shown):
            self._lane(file, self._y + number * lane, max(0.5, lane * 0.8))
        self.down(lane * len(shown) + 8)

    def _lane(self, file: FileRange, y: float, height: float) -> None:
        full = _WIDTH - 2 * _MARGIN
        low, high = (0.0, 1.0) if file.low is None or file.high is None else (file.low, file.high)
        bounds = "no bounds" if file.low is None else f"{file.low_value or ''} … {file.high_value or ''}"
        words = f"{file.partition} · {size(file.size)} · {bounds} · {plural(file.depth, 'file')} overlap"
        colour = _TAKEN if file.is_rewritten and file.path is not None else _LEFT
        opacity = 0.3 if file.low is None else 1.0
        self._rect(_MARGIN + low * full, y, max(1.0, (high - low) * full), height, colour, words, opacity)

    def _profile(self, layout: FileLayout, top: int) -> None:
        """The number of files along the column."""
        width = (_WIDTH - 2 * _MARGIN) / _BINS
        for number, depth in enumerate(layout.profile(_BINS)):
            height = _PROFILE_HEIGHT * depth / top
            place = self._y + _PROFILE_HEIGHT - height
            self._rect(_MARGIN + number * width, place, width, height, _DEEP, plural(depth, "file"))
        self.down(_PROFILE_HEIGHT + 18)

    def _histogram(self, layout: FileLayout) -> None:
        """How many files overlap with how many others, as words: there are few different depths, or very many."""
        depths = sorted(layout.histogram.items())
        shown = depths if len(depths) <= 6 else [*depths[:3], *depths[-3:]]
        words = " · ".join(f"depth {count(depth)}: {plural(files, 'file')}" for depth, files in shown)
        self.text(_MARGIN, words, opacity=0.8)
        self.down(8)

    def text(
        self, x: float, words: str, *, size: int = 13, weight: str = "normal", anchor: str = "start", opacity: float = 1
    ) -> None:
        place = f'x="{x:.1f}" y="{self._y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
        self._parts.append(f'<text {place} opacity="{opacity:g}" {_TEXT}>{svg_text(words)}</text>')

    def _rect(
        self, x: float, y: float, width: float, height: float, colour: str, words: str, opacity: float = 1.0
    ) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self._parts.append(
            f'<rect {place} fill="{colour}" opacity="{opacity:g}"><title>{svg_text(words)}</title></rect>'
        )

    def document(self, title: str) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self._y + 16:.0f}" role="img" '
            'color="#57606a">'
        )
        return "\n".join([head, f"<title>{svg_text(title)}</title>", *self._parts, "</svg>"]) + "\n"
