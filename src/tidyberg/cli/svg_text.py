"""Escapes names and values for the pictures: not every character of a column's name or of a bound may stand in XML."""

import re
from html import escape

# XML 1.0 has no control characters but these three, no surrogates and not the last two code points of the plane.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_text(words: str) -> str:
    return escape(_NO_XML.sub("\ufffd", words))
