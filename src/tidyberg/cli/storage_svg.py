"""Draws who holds the bytes of a table as an SVG picture, which is readable on light and dark pages."""

from tidyberg.cli.formatting import dollars, plural, size
from tidyberg.cli.storage_slices import MOST_REFS, age_label, slices_of
from tidyberg.cli.svg_text import svg_text
from tidyberg.model.storage_report import StorageReport

_WIDTH, _LEFT, _RIGHT = 860, 24, 24
_BAR_LEFT, _BAR_RIGHT = 290, 570
_ROW = 26
_TEXT = 'fill="currentColor" font-family="system-ui, sans-serif"'
_ONLY, _SHARED, _FREED = "#a371f7", "#8b949e", "#1f6feb"


def storage_svg(report: StorageReport) -> str:
    picture = _Picture()
    picture.title(report)
    picture.stacked(report)
    for one in slices_of(report):
        share = one.stored.bytes / report.total.bytes if report.total.bytes else 0
        words = f"{size(one.stored.bytes)} · {share:.0%} · {dollars(report.dollars(one.stored.bytes))} a month"
        picture.row(one.label, [(share, one.colour)], words, dot=one.colour)
    picture.heading("Branches and tags", "what only they hold (violet), and what they share (grey)")
    largest = max((one.total.bytes for one in report.refs), default=0) or 1
    for ref in report.refs[:MOST_REFS]:
        shared = ref.total.bytes - ref.only.bytes
        pieces = [(ref.only.bytes / largest, _ONLY), (shared / largest, _SHARED)]
        picture.row(ref.ref, pieces, f"{size(ref.only.bytes)} only it · {size(shared)} shared")
    if len(report.refs) > MOST_REFS:
        picture.row(f"… {len(report.refs) - MOST_REFS} more", [], "")
    picture.heading("What expiring snapshots frees", "")
    most = max((one.freed.bytes for one in report.ages), default=0) or 1
    for age in report.ages:
        words = f"{size(age.freed.bytes)} · {plural(age.snapshots, 'snapshot')}"
        picture.row(age_label(age.older_than_ms, is_own=age.is_own), [(age.freed.bytes / most, _FREED)], words)
    return picture.document(f"Who holds the bytes of {report.table}")


class _Picture:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._y = 30.0

    def title(self, report: StorageReport) -> None:
        self._text(_LEFT, str(report.table), size=17, weight="bold")
        total = report.total
        monthly = dollars(report.dollars(total.bytes))
        words = f"{size(total.bytes)} in {plural(total.files, 'file')}, {monthly} a month"
        self._text(_WIDTH - _RIGHT, words, size=14, anchor="end")
        self._y += 16

    def stacked(self, report: StorageReport) -> None:
        """One bar of the full width, with a piece for each slice."""
        left = float(_LEFT)
        full = _WIDTH - _LEFT - _RIGHT
        for one in slices_of(report):
            width = full * one.stored.bytes / report.total.bytes if report.total.bytes else 0
            if width:
                self._rect(left, self._y, width, 28, one.colour, f"{one.label}: {size(one.stored.bytes)}")
            left += width
        self._y += 28 + 30

    def heading(self, words: str, note: str) -> None:
        self._y += 16
        self._text(_LEFT, words, size=14, weight="bold")
        if note:
            self._text(_BAR_LEFT, note, opacity=0.75)
        self._y += _ROW

    def row(self, label: str, pieces: list[tuple[float, str]], words: str, dot: str | None = None) -> None:
        if dot is not None:
            self._parts.append(f'<circle cx="{_LEFT + 6}" cy="{self._y - 4:.1f}" r="6" fill="{dot}"/>')
        self._text(_LEFT + (20 if dot else 0), _cut(label))
        left = float(_BAR_LEFT)
        for share, colour in pieces:
            width = (_BAR_RIGHT - _BAR_LEFT) * min(1.0, share)
            if share > 0:
                self._rect(left, self._y - 12, max(1.0, width), 14, colour, f"{label}: {words}")
            left += width
        self._text(_BAR_RIGHT + 14, words)
        self._y += _ROW

    def document(self, title: str) -> str:
        height = self._y + 4
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" color="#57606a">'
        )
        return "\n".join([head, f"<title>{svg_text(title)}</title>", *self._parts, "</svg>"]) + "\n"

    def _text(
        self, x: float, words: str, *, size: int = 13, weight: str = "normal", anchor: str = "start", opacity: float = 1
    ) -> None:
        place = f'x="{x:.1f}" y="{self._y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
        self._parts.append(f'<text {place} opacity="{opacity:g}" {_TEXT}>{svg_text(words)}</text>')

    def _rect(self, x: float, y: float, width: float, height: float, colour: str, words: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.0f}"'
        self._parts.append(f'<rect {place} fill="{colour}"><title>{svg_text(words)}</title></rect>')


def _cut(label: str) -> str:
    return label if len(label) <= 38 else f"{label[:37]}…"
