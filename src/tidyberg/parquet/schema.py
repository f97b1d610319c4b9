"""Compares the schemas of Parquet footers: names, ids, types, repetitions.

Writers spell one type in several ways: with a converted type, a logical type or both; a decimal as integers or as
bytes. Two spellings are equal here if they mean the same to every reader.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ElementField, FileField, number, optional_number, structs, substruct, text
from tidyberg.parquet.footer import ENDING, REPEATED, footer_length
from tidyberg.parquet.thrift import Struct, read_struct

_TYPES = ("boolean", "int32", "int64", "int96", "float", "double", "byte array", "fixed byte array")
_REPETITIONS = ("required", "optional", "repeated")
_UNITS = {1: "milliseconds", 2: "microseconds", 3: "nanoseconds"}
_PLAIN_INTEGERS = {"int32": 32, "int64": 64}

# Converted types (deprecated) in the words of logical types. All timestamps of converted types are in UTC.
_CONVERTED = {
    0: "string", 1: "map", 2: "map", 3: "list", 4: "enum", 5: "decimal", 6: "date", 7: "time milliseconds",
    8: "time microseconds", 9: "timestamp milliseconds utc", 10: "timestamp microseconds utc", 11: "unsigned 8",
    12: "unsigned 16", 13: "unsigned 32", 14: "unsigned 64", 15: "signed 8", 16: "signed 16", 17: "signed 32",
    18: "signed 64", 19: "json", 20: "bson", 21: "interval",
}  # fmt: skip
_LOGICAL = {1: "string", 2: "map", 3: "list", 4: "enum", 5: "decimal", 6: "date", 11: "null", 12: "json", 13: "bson",
            14: "uuid", 15: "float16"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Element:
    """A field of a schema, reduced to what matters to readers."""

    name: str
    repetition: str
    children: int
    type: str  # physical, with the length of fixed bytes; empty for groups
    annotation: str
    field_id: int | None

    def __str__(self) -> str:
        kind = " ".join(word for word in (self.type or "group", self.annotation) if word)
        identifier = "no id" if self.field_id is None else f"id {self.field_id}"
        return f"{self.repetition} {kind} ({identifier})"


def elements(schema: list[Struct]) -> list[Element]:
    """Returns all fields, depth first, without the root."""
    return [_element(struct) for struct in schema[1:]]


@lru_cache(maxsize=4)
def expected_elements(arrow_schema: bytes) -> list[Element]:
    """Returns the fields that a file with the table's current schema has."""
    return elements(schema_of(arrow_schema))


def schema_of(arrow_schema: bytes) -> list[Struct]:
    """Returns the schema elements that Arrow writes for an Arrow schema."""
    schema = pa.ipc.read_schema(pa.BufferReader(arrow_schema))
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False, store_decimal_as_integer=True).close()
    content = sink.getvalue().to_pybytes()
    start = len(content) - ENDING - footer_length(content, len(content))
    footer, _ = read_struct(content, start)
    return structs(footer, FileField.SCHEMA, "the schema")


def difference(found: list[Element], expected: list[Element], *, same_bytes: bool) -> str | None:
    """Describes the first difference of a file's schema. Returns None if there is none.

    With `same_bytes`, both schemas must be usable in one file. Without it, a decimal may have another physical type,
    and an optional column of the table may be required in the file: Spark writes this if a query cannot return nulls.
    """
    for position, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        if not _fits(ours, theirs, same_bytes):
            if ours.name != theirs.name or ours.field_id != theirs.field_id:
                return f"field {position + 1} is {_named(ours)}, not {_named(theirs)}"
            return f"{_named(ours)} is {ours}, not {theirs}"
    if len(found) > len(expected):
        return f"{_named(found[len(expected)])} is no column of the table any more"
    if len(found) < len(expected):
        return f"{_named(expected[len(found)])} is missing"
    return None


def _named(element: Element) -> str:
    return f"{element.name!r}" if element.field_id is None else f"{element.name!r} (id {element.field_id})"


def _fits(ours: Element, theirs: Element, same_bytes: bool) -> bool:
    ours, theirs = _without_zone(ours), _without_zone(theirs)
    if not same_bytes and ours.annotation.startswith("decimal"):
        theirs = replace(theirs, type=ours.type)
    if not same_bytes and (ours.repetition, theirs.repetition) == ("required", "optional"):
        theirs = replace(theirs, repetition="required")
    return ours == theirs


def _without_zone(element: Element) -> Element:
    """Removes the UTC flag of times. A time of day has no zone, and writers set the flag at random."""
    is_time = element.annotation.startswith("time ")
    return replace(element, annotation=element.annotation.removesuffix(" utc")) if is_time else element


def _element(struct: Struct) -> Element:
    physical = optional_number(struct, ElementField.TYPE, "a type")
    children = optional_number(struct, ElementField.CHILDREN, "the number of fields of a group") or 0
    repetition = number(struct, ElementField.REPETITION, "the repetition of a field")
    kind = "" if physical is None else _name_of(_TYPES, physical)
    if kind == "fixed byte array":
        kind += f" {number(struct, ElementField.TYPE_LENGTH, 'the length of fixed bytes')}"
    annotation = _annotation(struct)
    if annotation == f"signed {_PLAIN_INTEGERS.get(kind)}":
        annotation = ""  # the default for an integer
    is_inner = physical is None and repetition == REPEATED  # of a list or a map: it has no id
    return Element(
        name=(text(struct, ElementField.NAME, "a field's name") or b"").decode(errors="replace"),
        repetition=_name_of(_REPETITIONS, repetition),
        children=children,
        type=kind,
        annotation="" if is_inner else annotation,
        field_id=None if is_inner else optional_number(struct, ElementField.FIELD_ID, "a field's id"),
    )


def _annotation(struct: Struct) -> str:
    logical = substruct(struct, ElementField.LOGICAL_TYPE, "a logical type")
    converted = optional_number(struct, ElementField.CONVERTED_TYPE, "a converted type")
    if logical:
        found = _logical(logical)
    elif converted is not None:
        found = _CONVERTED.get(converted, f"annotation {converted}")
    else:
        return ""
    if found == "decimal":
        precision = number(struct, ElementField.PRECISION, "the precision of a decimal")
        scale = optional_number(struct, ElementField.SCALE, "the scale of a decimal") or 0
        return f"decimal({precision}, {scale})"
    return found


def _logical(union: Struct) -> str:
    if len(union) != 1:
        raise CannotCopy("its schema is damaged: a logical type has several values")
    (choice, (_, inner)) = next(iter(union.items()))
    if not isinstance(inner, dict):
        raise CannotCopy("its schema is damaged: a logical type has no value")
    if choice in (7, 8):
        unit = substruct(inner, 2, "the unit of a time") or {}
        in_utc = inner.get(1, (0, False))[1] is True
        word = _UNITS.get(next(iter(unit), 0), "unknown unit")
        return f"{'time' if choice == 7 else 'timestamp'} {word}{' utc' if in_utc else ''}"
    if choice == 10:
        return f"{'signed' if inner.get(2, (0, False))[1] is True else 'unsigned'} {inner.get(1, (0, 0))[1]}"
    return _LOGICAL.get(choice, f"annotation {choice}")


def _name_of(names: tuple[str, ...], position: int) -> Any:
    if position >= len(names):
        raise CannotCopy(f"its schema is damaged: {position} is no type or repetition")
    return names[position]
