"""Finds the sort key that a plan's options ask for: the table's own order, a text, or a curve."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
)

from tidyberg.errors import BadSortOrder
from tidyberg.model.options import TABLE_ORDER, PlanOptions
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.model.table import Pinned
from tidyberg.planning.column_names import names_like, quoted_name, similar_names, some_of
from tidyberg.planning.sort_text import NamedSortField, parse_column_list, parse_sort_text
from tidyberg.planning.strategies import strategy_type

_CURVE_NAMES = {Curve.ZORDER: "z-order", Curve.HILBERT: "Hilbert curve"}
_FEWEST_COLUMNS, _MOST_COLUMNS = 2, 8  # of a curve
_BY_HAND = 'Name the columns: --sort-order "a, b desc".'


def asked_sort_key(options: PlanOptions, pinned: Pinned) -> SortKey | None:
    """Returns the key that the options ask for, or None if they ask for no order."""
    if options.zorder is not None:
        return curve_of(options.zorder, Curve.ZORDER, pinned)
    if options.hilbert is not None:
        return curve_of(options.hilbert, Curve.HILBERT, pinned)
    if options.sort is None:
        return None
    return table_order(pinned) if options.sort.strip().lower() == TABLE_ORDER else sort_key_of(options.sort, pinned)


def check_order_text(options: PlanOptions) -> None:
    """Raises BadSortOrder for a text that is wrong whatever the table is, so that nobody has to load it first."""
    if options.sort is not None and options.sort.strip().lower() != TABLE_ORDER:
        parse_sort_text(options.sort)
    for text, curve in ((options.zorder, Curve.ZORDER), (options.hilbert, Curve.HILBERT)):
        if text is not None:
            _check_curve_columns(text, curve)


def sort_flag(column: str) -> str:
    """Returns the flag that sorts by a column, as a shell reads it."""
    return f"--sort-order {shlex.quote(order_text((quoted_name(column),)))}"


def _check_curve_columns(text: str, curve: Curve) -> tuple[str, ...]:
    flag = f"--{curve.value}"
    columns = parse_column_list(text, flag)
    if len(columns) < _FEWEST_COLUMNS:
        raise BadSortOrder(
            f"{flag} {text}: a curve needs at least {_FEWEST_COLUMNS} columns.",
            hint=f"To order rows by one column, sort: {sort_flag(columns[0])}.",
        )
    if len(columns) > _MOST_COLUMNS:
        raise BadSortOrder(
            f"{flag} {text}: a curve over {len(columns)} columns helps no query.",
            hint=f"Choose the {_MOST_COLUMNS} or fewer columns that queries filter by most.",
        )
    return columns


def sort_key_for(options: PlanOptions, pinned: Pinned) -> SortKey | None:
    """Returns the key that a plan looks at: the one asked for, or for `auto` the table's own if it can be followed."""
    asked = asked_sort_key(options, pinned)
    if asked is not None or pinned.sort_order_id == 0 or not strategy_type(options).sorts_deep_overlaps:
        return asked
    try:
        return table_order(pinned)
    except BadSortOrder:
        return None  # nobody asked for it


def table_order(pinned: Pinned) -> SortKey:
    """Returns the table's current sort order. Raises BadSortOrder if it has none, or one that cannot be followed."""
    if pinned.sort_order_id == 0 or pinned.sort_order_id not in pinned.sort_orders:
        raise BadSortOrder(
            f"{pinned.table} has no sort order.",
            hint=f"{_BY_HAND} Or give the table an order: ALTER TABLE ... WRITE ORDERED BY a, b.",
        )
    key = pinned.sort_orders[pinned.sort_order_id]
    columns = _sortable_columns(pinned.schema)
    for field in key.fields:
        if field.source_id not in columns:
            raise BadSortOrder(
                f"The sort order {key.order_id} of {pinned.table} is by a column that was dropped "
                f"({_dropped_name(field.source_id, pinned)}).",
                hint=f"Set a new order: ALTER TABLE ... WRITE ORDERED BY a, b. {_BY_HAND}",
            )
        _check_transform(field.transform, columns[field.source_id], _name_of(field.source_id, pinned.schema))
    return key


def sort_key_of(text: str, pinned: Pinned) -> SortKey:
    """Returns the key for a text. If one of the table's orders is the same, outputs may claim that order."""
    fields = tuple(_resolve(named, pinned.schema) for named in parse_sort_text(text))
    _refuse_duplicates([(field.source_id, field.transform) for field in fields], fields, pinned.schema)
    return replace(SortKey(fields), order_id=_known_order(fields, pinned))


def curve_of(text: str, curve: Curve, pinned: Pinned) -> SortKey:
    columns = _check_curve_columns(text, curve)
    fields = tuple(_resolve(NamedSortField(column), pinned.schema) for column in columns)
    _refuse_duplicates([(field.source_id, "") for field in fields], fields, pinned.schema)
    return SortKey(fields, curve)


def describe_key(key: SortKey, schema: Schema) -> str:
    """Returns the key as text. Unless it is a curve, the text parses to the same key."""
    if key.curve is not None:
        names = ", ".join(quoted_name(_name_of(field.source_id, schema)) for field in key.fields)
        return f"{_CURVE_NAMES[key.curve]} of {names}"
    return order_text(_describe_field(field, schema) for field in key.fields)


def order_text(fields: Iterable[str]) -> str:
    """Joins the texts of fields. A column that is called like the word for the table's own order is quoted."""
    text = ", ".join(fields)
    return f'"{text}"' if text.lower() == TABLE_ORDER else text


def _describe_field(field: SortField, schema: Schema) -> str:
    words = quoted_name(_name_of(field.source_id, schema))
    if field.transform != "identity":
        name, _, width = field.transform.removesuffix("]").partition("[")
        words = f"{name}({width}, {words})" if width else f"{name}({words})"
    if field.descending:
        words += " desc"
    if field.nulls_last != field.descending:  # otherwise it is the default of the direction
        words += " nulls last" if field.nulls_last else " nulls first"
    return words


def _resolve(named: NamedSortField, schema: Schema) -> SortField:
    columns = _sortable_columns(schema)
    names = sorted(schema.column_names)
    found = names_like(named.column, names)
    if len(found) != 1:
        problem = f"There is no column {named.column}." if not found else f"{named.column} may be {' or '.join(found)}."
        raise BadSortOrder(problem, hint=similar_names(named.column, names) or f"The table has {some_of(names)}.")
    column = schema.find_field(found[0])
    if column.field_id not in columns:
        raise BadSortOrder(
            f"Rows cannot be sorted by column {quoted_name(found[0])}: {_why_without_order(column.field_type)}.",
            hint=_hint_without_order(column, found[0]),
        )
    _check_transform(named.transform, column.field_type, found[0])
    return SortField(column.field_id, named.transform, named.descending, named.nulls_last)


def _check_transform(transform: str, kind: IcebergType, name: str) -> None:
    parsed = parse_transform(transform)
    if str(parsed) == "unknown":
        raise BadSortOrder(
            f"The table's sort order has the transform {transform!r}, which this version does not know.", hint=_BY_HAND
        )
    if not parsed.can_transform(kind):
        raise BadSortOrder(
            f"The transform {transform} does not apply to column {quoted_name(name)}, which is of type {kind}.",
            hint="Bucket takes neither floats nor booleans; truncate takes whole numbers, decimals, strings and "
            "binary; year, month and day take dates and timestamps; hour takes timestamps.",
        )


def _refuse_duplicates(keys: list[tuple[int, str]], fields: tuple[SortField, ...], schema: Schema) -> None:
    for position, key in enumerate(keys):
        if key in keys[:position]:
            shown = _describe_field(SortField(fields[position].source_id, fields[position].transform), schema)
            raise BadSortOrder(f"The sort order names {shown} twice.", hint="Remove the second one: it has no effect.")


def _known_order(fields: tuple[SortField, ...], pinned: Pinned) -> int | None:
    """Returns the table's order with exactly these fields, the current one first."""
    same = [order_id for order_id, key in sorted(pinned.sort_orders.items()) if key.fields == fields]
    return pinned.sort_order_id if pinned.sort_order_id in same else max(same, default=None)


def _sortable_columns(schema: Schema) -> Mapping[int, IcebergType]:
    """Returns the columns that have an order, by id. Fields of structs count; elements of lists and maps do not."""

    def walk(fields: tuple[NestedField, ...]) -> Iterator[tuple[int, IcebergType]]:
        for field in fields:
            if isinstance(field.field_type, StructType):
                yield from walk(field.field_type.fields)
            elif _has_order(field.field_type):
                yield field.field_id, field.field_type

    return dict(walk(schema.fields))


def _has_order(kind: IcebergType) -> bool:
    return isinstance(kind, PrimitiveType) and not isinstance(kind, UnknownType | GeometryType | GeographyType)


def _why_without_order(kind: IcebergType) -> str:
    if _has_order(kind):
        return "it is inside a list or a map, so a row may have many values"
    name = type(kind).__name__.removesuffix("Type").lower()
    return f"it is {'an' if name[0] in 'aeiou' else 'a'} {name}, which has no order"


def _hint_without_order(column: NestedField, name: str) -> str:
    if isinstance(column.field_type, StructType) and column.field_type.fields:
        return f"Name one of its fields, such as {name}.{column.field_type.fields[0].name}."
    if isinstance(column.field_type, ListType | MapType):
        return "Choose a column that has one value per row."
    return "Choose another column."


def _name_of(field_id: int, schema: Schema) -> str:
    return schema.find_column_name(field_id) or f"column {field_id}"


def _dropped_name(field_id: int, pinned: Pinned) -> str:
    names = (schema.find_column_name(field_id) for _, schema in sorted(pinned.schemas.items(), reverse=True))
    return next((name for name in names if name is not None), f"field id {field_id}")
