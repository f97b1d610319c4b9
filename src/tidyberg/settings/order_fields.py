"""Field types of settings that say how rows are ordered: sort orders, columns of a curve, boundaries."""

from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from tidyberg.model.options import TABLE_ORDER


def _order_text(value: Any) -> Any:
    """Accepts a list of fields, and true for the table's own order."""
    return TABLE_ORDER if value is True else _column_list(value)


def _column_list(value: Any) -> Any:
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return None if value is False or value == [] else value


OrderText = Annotated[
    str | None,
    BeforeValidator(_order_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string"}},
                {"type": "boolean"},
                {"type": "null"},
            ]
        }
    ),
]
ColumnList = Annotated[
    str | None,
    BeforeValidator(_column_list),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string"}},
                {"type": "null"},
            ]
        }
    ),
]


def _boundary_text(value: Any) -> Any:
    """Accepts a list of values. Each is quoted, because a text may contain commas."""
    if not isinstance(value, list | tuple):
        return value
    return ", ".join(_quoted(item) for item in value) or None


def _quoted(item: Any) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, date):  # YAML reads dates and timestamps as such
        return f"'{item.isoformat()}'"
    if not isinstance(item, str | int | float):
        raise ValueError(f"{item!r} is not a value that a column can have")
    return "'" + str(item).replace("'", "''") + "'"


BoundaryText = Annotated[
    str | None,
    BeforeValidator(_boundary_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "array",
                    "items": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
                },
                {"type": "null"},
            ]
        }
    ),
]
