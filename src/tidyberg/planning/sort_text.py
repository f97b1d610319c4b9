"""Parses sort orders as users write them, such as `a desc nulls last, bucket(16, id), day(ts)`.

Names stay names here: `planning/sort_orders.py` looks them up in a table.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidyberg.errors import BadSortOrder

MAX_LENGTH = 10_000
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d+)
      | (?P<sign>[(),.\[\]])
    )""",
    re.VERBOSE,
)
_EXAMPLE = "Write it as after ORDER BY: a desc nulls last, bucket(16, id), day(ts)."
_QUOTES = 'Put other names in quotes: "my column".'
_WITH_WIDTH = ("bucket", "truncate")
_MOST_DIGITS = 10  # of a width below 2^31
# The names of the specification, and the plural that Spark uses in DDL.
_TRANSFORMS = {
    "identity": "identity",
    "bucket": "bucket",
    "truncate": "truncate",
    **{f"{unit}{ending}": unit for unit in ("year", "month", "day", "hour") for ending in ("", "s")},
}


@dataclass(frozen=True, slots=True)
class NamedSortField:
    """One field of a sort order, with the column by name."""

    column: str
    transform: str = "identity"
    descending: bool = False
    nulls_last: bool = False


def parse_sort_text(text: str) -> tuple[NamedSortField, ...]:
    """Returns the fields in their order. Nulls come first if the field is ascending and last if it is descending."""
    return tuple(_Parser(text).fields())


def parse_column_list(text: str, flag: str) -> tuple[str, ...]:
    """Returns the columns of a curve. A curve has neither directions nor transforms."""
    fields = parse_sort_text(text)
    if any(field != NamedSortField(field.column) for field in fields):
        raise BadSortOrder(
            f"{flag} takes plain columns, not {text!r}.", hint="A curve has no direction and no transforms: a, b, c."
        )
    return tuple(field.column for field in fields)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # quoted, word, number, sign, or end
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadSortOrder(f"The sort order is {len(text):,} characters long; at most {MAX_LENGTH:,} are allowed.")
        if not text.strip():
            raise BadSortOrder("The sort order is empty.", hint=_EXAMPLE)
        self._text = text
        self._tokens = list(self._split())
        self._next = 0

    def fields(self) -> Iterator[NamedSortField]:
        yield self._field()
        while self._accept(","):
            yield self._field()
        if self._token.kind != "end":
            raise self._unexpected("a comma", hint=f"{_EXAMPLE} {_QUOTES}")

    def _field(self) -> NamedSortField:
        column, transform = self._term()
        descending = self._accept("desc")
        if not descending:
            self._accept("asc")
        nulls_last = descending
        if self._accept("nulls"):
            nulls_last = self._accept("last")
            if not nulls_last and not self._accept("first"):
                raise self._unexpected("first or last")
        return NamedSortField(column, transform, descending, nulls_last)

    def _term(self) -> tuple[str, str]:
        function = self._token
        is_call = function.kind == "word" and self._tokens[self._next + 1].text in ("(", "[")
        if not is_call:
            return self._name(), "identity"
        self._next += 1
        name = _TRANSFORMS.get(function.text.lower())
        if name is None:
            why = "Void has no order. " if function.text.lower() == "void" else ""
            raise BadSortOrder(
                f"{function.text!r} is not a transform that rows can be sorted by.",
                hint=f"{why}Choose one of identity, bucket, truncate, year, month, day and hour.",
            )
        width: int | None = None
        if self._accept("["):  # as in metadata: bucket[16](id)
            width = self._number()
            self._expect("]")
        self._expect("(")
        if width is None and self._token.kind == "number":
            width = self._number()
            self._expect(",")
        column = self._name()
        if width is None and name in _WITH_WIDTH and self._accept(","):
            width = self._number()
        self._expect(")")
        return column, self._with_width(name, width)

    def _with_width(self, name: str, width: int | None) -> str:
        if name not in _WITH_WIDTH:
            if width is not None:
                raise BadSortOrder(f"The transform {name} takes only a column.", hint=f"Write {name}(column).")
            return name
        if not width or width >= 2**31:
            raise BadSortOrder(
                f"The transform {name} needs a number above 0 and below 2^31.", hint=f"Write {name}(16, column)."
            )
        return f"{name}[{width}]"

    def _name(self) -> str:
        parts = [self._part()]
        while self._accept("."):
            parts.append(self._part())
        return ".".join(parts)

    def _part(self) -> str:
        token = self._token
        if token.kind == "word":
            self._next += 1
            return token.text
        if token.kind == "quoted":
            self._next += 1
            mark = token.text[0]
            return token.text[1:-1].replace(mark * 2, mark)
        raise self._unexpected("a column")

    def _number(self) -> int:
        token = self._token
        if token.kind != "number":
            raise self._unexpected("a number")
        if len(token.text) > _MOST_DIGITS:
            raise BadSortOrder(
                f"The sort order has a number of {len(token.text):,} digits at character {token.at + 1}.",
                hint="A width is below 2^31.",
            )
        self._next += 1
        return int(token.text)

    def _accept(self, text: str) -> bool:
        token = self._token
        if token.kind in ("word", "sign") and token.text.lower() == text:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(text)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _unexpected(self, wanted: str, hint: str = _EXAMPLE) -> BadSortOrder:
        token = self._token
        found = "ends" if token.kind == "end" else f"has {token.text!r} at character {token.at + 1}"
        return BadSortOrder(f"The sort order {self._text!r} {found} where {wanted} is expected.", hint=hint)

    def _split(self) -> Iterator[_Token]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None or found.lastgroup is None:
                raise BadSortOrder(
                    f"The sort order {self._text!r} cannot be read from character {at + 1} on.",
                    hint=f"{_EXAMPLE} {_QUOTES}",
                )
            kind = found.lastgroup
            yield _Token(kind, found.group(kind), found.start(kind))
            at = found.end()
        yield _Token("end", "", end)
