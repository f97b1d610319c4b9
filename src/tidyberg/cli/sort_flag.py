"""Lets `--sort` take an order, as in `--sort "a desc, day(ts)"`. Without one it means the table's own order.

Typer has no flag with an optional value that leaves a table name after it alone, so the words are changed before.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

_FLAG, _WITH_ORDER = "--sort", "--sort-order"
_NO_TABLE_NAME = re.compile(r'[\s,()\[\]"`]')


def with_sort_order(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments, with `--sort-order` in place of a `--sort` that an order follows."""
    words = [f"{_WITH_ORDER}{word.removeprefix(_FLAG)}" if word.startswith(f"{_FLAG}=") else word for word in arguments]
    for place, word in enumerate(words[:-1]):
        if word == _FLAG and _is_order(words[place + 1], has_table=_has_table(words[:place])):
            words[place] = _WITH_ORDER
    return words


def _has_table(before: Sequence[str]) -> bool:
    """Returns True if the command has a table already: a word that follows no flag, or the flag `--table`."""
    if not before or before[0].startswith("-"):  # flags before the command: which word is the command is not known
        return "--table" in before
    is_flag = [word.startswith("-") for word in before]
    return "--table" in before or any(not (one or other) for one, other in pairwise(is_flag))


def _is_order(word: str, *, has_table: bool) -> bool:
    if word.startswith("-"):
        return False
    return _NO_TABLE_NAME.search(word) is not None or (has_table and "." not in word and "*" not in word)
