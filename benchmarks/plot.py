"""Writes plots as plain SVG. It diffs well, needs no library, and is readable on light and dark pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = ("#1f6feb", "#d1495b", "#e0a100", "#8b949e", "#2da44e", "#a371f7")
_LABELS, _WIDTH, _ROW, _TOP, _BOTTOM, _RIGHT = 250, 860, 34, 64, 46, 30
_TEXT = 'fill="currentColor" font-family="system-ui, sans-serif"'


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis in whole decades from `left` to `right`."""

    low: int
    high: int
    left: float
    right: float

    @classmethod
    def around(cls, values: Sequence[float], left: float, right: float) -> "Axis":
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), left, right)

    def at(self, value: float) -> float:
        return self.left + (log10(value) - self.low) / (self.high - self.low) * (self.right - self.left)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def dot_plot(title: str, unit: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Draws one line per row and one dot per series on a logarithmic axis, so that equal ratios look equal."""
    series = list(dict.fromkeys(name for _, values in rows for name in values))
    colour = dict(zip(series, COLOURS, strict=False))
    axis = Axis.around([value for _, values in rows for value in values.values()], _LABELS, _WIDTH - _RIGHT)
    height = _TOP + len(rows) * _ROW + _BOTTOM
    parts = [_text(10, 20, title, size=15, weight="bold"), *_legend(series, colour)]
    for tick in axis.ticks:
        parts.append(_line(axis.at(tick), _TOP, axis.at(tick), height - _BOTTOM, "0.2"))
        parts.append(_text(axis.at(tick), height - _BOTTOM + 18, f"{tick:,g}", anchor="middle"))
    parts.append(_text((axis.left + axis.right) / 2, height - 8, unit, anchor="middle"))
    for number, (label, values) in enumerate(rows):
        y = _TOP + (number + 0.5) * _ROW
        ends = [axis.at(value) for value in values.values()]
        parts.append(_text(_LABELS - 14, y + 4, label, anchor="end"))
        parts.append(_line(min(ends), y, max(ends), y, "0.35"))
        for name, value in values.items():
            parts.append(_dot(axis.at(value), y, colour[name], f"{label}: {name} {value:,.3g} {unit}"))
    return _document(height, title, parts)


def line_plot(
    title: str, x_unit: str, y_unit: str, series: Mapping[str, Sequence[tuple[float, float]]], height: int = 420
) -> str:
    """Draws one line per series on logarithmic axes. The grey line shows proportional growth."""
    colour = dict(zip(series, COLOURS, strict=False))
    points = [point for line in series.values() for point in line]
    across = Axis.around([x for x, _ in points], 70, _WIDTH - _RIGHT)
    up = Axis.around([y for _, y in points], height - _BOTTOM, _TOP)
    parts = [_text(10, 20, title, size=15, weight="bold"), *_legend(list(series), colour)]
    for tick in across.ticks:
        parts.append(_line(across.at(tick), up.right, across.at(tick), up.left, "0.2"))
        parts.append(
            _text(across.at(tick), up.left + 18, f"{tick:,g}" if tick < 1 else f"{tick:,.0f}", anchor="middle")
        )
    for tick in up.ticks:
        parts.append(_line(across.left, up.at(tick), across.right, up.at(tick), "0.2"))
        parts.append(_text(across.left - 8, up.at(tick) + 4, f"{tick:,g}", anchor="end"))
    parts.append(_text((across.left + across.right) / 2, height - 8, x_unit, anchor="middle"))
    parts.append(_text(10, _TOP - 4, y_unit))
    decades = min(across.high - across.low, up.high - up.low)
    start, end = (across.at(10.0**across.high / 10.0**n) for n in (decades, 0))
    parts.append(_line(start, up.at(10.0 ** (up.high - decades)), end, up.at(10.0**up.high), "0.5"))
    for name, line in series.items():
        places = [(across.at(x), up.at(y)) for x, y in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour[name]}" stroke-width="2"/>')
        for (x, y), (at_x, at_y) in zip(sorted(line), places, strict=True):
            parts.append(_dot(at_x, at_y, colour[name], f"{name}: {x:,.0f} {x_unit}, {y:,.3g} {y_unit}"))
    return _document(height, title, parts)


def time_plot(
    title: str,
    x_unit: str,
    y_unit: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    colours: Sequence[str] = COLOURS,
    height: int = 360,
) -> str:
    """Draws one line per series on linear axes that begin at zero."""
    colour = dict(zip(series, colours, strict=False))
    points = [point for line in series.values() for point in line]
    right, top = max(x for x, _ in points), max(y for _, y in points)
    x_step, y_step = _step(right), _step(top)
    left, bottom, width = 70, height - _BOTTOM, _WIDTH - _RIGHT - 70

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x / right * width, bottom - y / top * (bottom - _TOP)

    parts = [_text(10, 20, title, size=15, weight="bold"), *_legend(list(series), colour)]
    for number in range(int(right / x_step) + 1):
        x, _ = at(number * x_step, 0)
        parts.append(_line(x, _TOP, x, bottom, "0.2"))
        parts.append(_text(x, bottom + 18, f"{number * x_step:,g}", anchor="middle"))
    for number in range(int(top / y_step) + 1):
        _, y = at(0, number * y_step)
        parts.append(_line(left, y, left + width, y, "0.2"))
        parts.append(_text(left - 8, y + 4, f"{number * y_step:,.0f}", anchor="end"))
    parts.append(_text(left + width / 2, height - 8, x_unit, anchor="middle"))
    parts.append(_text(10, _TOP - 4, y_unit))
    for name, line in series.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour[name]}" stroke-width="2"/>')
    return _document(height, title, parts)


def _step(largest: float) -> float:
    """Returns a round distance for five to twelve grid lines."""
    power = 10.0 ** floor(log10(largest / 5))
    return next(power * factor for factor in (1, 2, 5, 10) if largest / (power * factor) <= 12)


def _legend(series: Sequence[str], colour: Mapping[str, str]) -> list[str]:
    parts: list[str] = []
    x, y = 16.0, 36.0
    for name in series:
        width = 34 + 7.2 * len(name)
        if x + width > _WIDTH:
            x, y = 16.0, y + 17
        parts.append(_dot(x, y, colour[name], name))
        parts.append(_text(x + 11, y + 4, name))
        x += width
    return parts


def _document(height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" color="#57606a">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f"<text {place} {_TEXT}>{escape(words)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, opacity: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="{opacity}"/>'


def _dot(x: float, y: float, colour: str, words: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"><title>{escape(words)}</title></circle>'
