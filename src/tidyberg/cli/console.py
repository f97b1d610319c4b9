"""Makes text safe for terminals: they do not obey control characters in names, and have the symbols that are drawn."""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Control characters but tab and newline, and those that end lines or turn the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# The characters of one drawing are replaced together, so that it stays a drawing in encodings with a few of them.
_IN_ASCII = (
    ("▁▂▃▄▅▆▇█", ".:-=+*%#"),
    ("▏▎▍▌▋▊▉", "---===="),
    ("·", "-"),
    ("–", "-"),
    ("→", ">"),
    ("…", "."),
    ("✓", "+"),
    ("✗", "x"),
)


class TerminalConsole(Console):
    """Shows `?` instead of control characters, and ASCII instead of symbols that the encoding does not have."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield Segment(without_controls(segment.text).translate(self._in_ascii), segment.style)

    @cached_property
    def _in_ascii(self) -> Mapping[int, int]:
        lacking = [drawing for drawing in _IN_ASCII if not _has(self.encoding, drawing[0])]
        return str.maketrans("".join(symbols for symbols, _ in lacking), "".join(plain for _, plain in lacking))


def without_controls(text: str) -> str:
    return _CONTROLS.sub("?", text)


def text_without_controls(text: Text) -> Text:
    """Keeps the styles, because the length stays."""
    shown = text.copy()
    shown.plain = without_controls(text.plain)
    return shown


def escape_controls(document: str) -> str:
    """Escapes what JSON may hold as it is. JSON writes all of ASCII's control characters as escapes itself."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _has(encoding: str, symbols: str) -> bool:
    try:
        symbols.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
