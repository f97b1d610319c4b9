"""Parses boundaries as users write them: values of the first column of a sort order, separated by commas."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, BooleanType, FixedType, FloatType, IcebergType, PrimitiveType, StringType

from tidyberg.errors import BadPredicate, BadSortOrder
from tidyberg.model.sort_key import SortKey
from tidyberg.planning.literals import to_literal
from tidyberg.planning.sort_orders import sort_flag

MOST_BOUNDARIES = 64  # more would cut files into small pieces
_MAX_LENGTH = 10_000
_ITEM = re.compile(r"\s*(?:'(?P<quoted>(?:[^']|'')*)'|(?P<bare>[^',]*[^',\s]))\s*(?P<end>,|$)")
_EXAMPLE = "Separate the values by commas, and put texts into quotes: 2026-11-09, 'it''s'."


@dataclass(frozen=True, slots=True)
class Boundary:
    """A value at which outputs end: lesser values lie on one side, and the value itself on the other."""

    value: bytes  # as the specification serializes single values
    text: str  # SQL that parses to the value
    characters: int | None = None  # of a text


def parse_boundaries(text: str, key: SortKey, schema: Schema) -> tuple[Boundary, ...]:
    """Returns the boundaries in the order of their values, each once."""
    name = schema.find_column_name(key.fields[0].source_id) or "?"
    kind = schema.find_type(key.fields[0].source_id)
    if key.fields[0].transform != "identity":
        raise BadSortOrder(
            f"Boundaries are values of a column, but the sort order begins with {key.fields[0].transform} of {name}.",
            hint=f"Begin the order with the column itself: {sort_flag(name)}.",
        )
    assert isinstance(kind, PrimitiveType)
    found: dict[Any, Boundary] = {}
    for item in _items(text):
        value, shown = _literal(item, name, kind)
        found.setdefault(value, Boundary(to_bytes(kind, value), shown, len(item) if _is_text(kind) else None))
    if len(found) > MOST_BOUNDARIES:
        raise BadSortOrder(
            f"{len(found)} boundaries are too many: at most {MOST_BOUNDARIES} are allowed.",
            hint="Choose those at which the most queries begin or end; others would only cut files into small pieces.",
        )
    return tuple(found[value] for value in sorted(found))


def _is_text(kind: IcebergType) -> bool:
    return isinstance(kind, StringType)


def _items(text: str) -> Iterator[str]:
    if len(text) > _MAX_LENGTH:
        raise BadSortOrder(f"The boundaries are {len(text):,} characters long; at most {_MAX_LENGTH:,} are allowed.")
    if not text.strip():
        raise BadSortOrder("There are no boundaries.", hint=_EXAMPLE)
    at, more = 0, True
    while more:
        match = _ITEM.match(text, at)
        if match is None:
            raise BadSortOrder(f"The boundaries {text!r} cannot be read from character {at + 1} on.", hint=_EXAMPLE)
        quoted, bare = match.group("quoted", "bare")
        yield bare if quoted is None else quoted.replace("''", "'")
        at, more = match.end(), match.group("end") == ","


def _literal(item: str, name: str, kind: PrimitiveType) -> tuple[Any, str]:
    """Returns the value as PyIceberg holds it, and as SQL text."""
    if isinstance(kind, BinaryType | FixedType) or str(kind).endswith("_ns"):
        raise BadSortOrder(
            f"Boundaries cannot be values of {name}: there is no way to write values of type {kind}.",
            hint="Leave out the boundaries.",
        )
    given = item.lower() == "true" if isinstance(kind, BooleanType) and item.lower() in ("true", "false") else item
    try:
        literal, shown = to_literal(given, name, kind)
    except BadPredicate as error:
        raise BadSortOrder(f"Not a boundary: {error}", hint=_EXAMPLE) from None
    value = literal.value
    if isinstance(kind, FloatType):
        value = _next_single(value)
    # Zero has two forms, which SQL calls equal. The lesser one keeps both of them on the same side.
    return (-0.0, "0.0") if isinstance(value, float) and value == 0 else (value, shown)


def _next_single(value: float) -> float:
    """Returns the least number of single precision that is not below the value: it divides the same rows."""
    single = np.float32(value)
    return float(single if float(single) >= value else np.nextafter(single, np.float32(np.inf)))
