"""Reads config.json as people write it: with `//` comments, and with or without the outer braces."""


def plain_json(text: str) -> str:
    """Returns the text without comments, and with braces around it. Every line keeps its number."""
    plain = "\n".join(_without_comment(line) for line in text.splitlines())
    return plain if not plain.lstrip().startswith('"') else "{" + plain + "}"


def _without_comment(line: str) -> str:
    in_text = escaped = False
    for place, character in enumerate(line):
        if escaped:
            escaped = False
        elif in_text and character == "\\":
            escaped = True
        elif character == '"':
            in_text = not in_text
        elif not in_text and line.startswith("//", place):
            return line[:place].rstrip()
    return line
