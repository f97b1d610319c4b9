"""Field ids of Parquet columns. Files without ids get the ids that Iceberg's own reader would assign.

With a name mapping, ids are assigned by name. Without one, the first column is field 1, the second is field 2, and so
on. That is right if columns were only ever added to the table. If any column of a file has an id, only ids count.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa

from tidyberg.failures import FailureKind, KernelFailure

FIELD_ID = b"PARQUET:field_id"
# Names from the top down to a field. Elements, keys and values of lists and maps always have the names below.
Path = tuple[str, ...]
ELEMENT, KEY, VALUE = "element", "key", "value"


def field_id(column: pa.Field) -> int | None:
    text = (column.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def assigned_ids(
    schema: pa.Schema, mapping: Mapping[Path, int] | None, wanted: Collection[int]
) -> Mapping[Path, int] | None:
    """Returns the assigned ids by path; None if the file has its own ids."""
    if any(_has_id(column) for column in schema):
        return None
    if mapping is None:
        return _by_position(schema, wanted)
    found: dict[Path, int] = {}
    _map_children([(column.name, column) for column in schema], (), mapping, found)
    return found


def _has_id(column: pa.Field) -> bool:
    return field_id(column) is not None or any(_has_id(child) for _, child in children(column.type))


def children(kind: pa.DataType) -> list[tuple[str, pa.Field]]:
    """Returns the fields directly below a nested type, with their names in paths."""
    if pa.types.is_struct(kind):
        return [(child.name, child) for child in kind]
    if pa.types.is_map(kind):
        return [(KEY, kind.key_field), (VALUE, kind.item_field)]
    if is_list(kind):
        return [(ELEMENT, kind.value_field)]
    return []


def is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _map_children(
    columns: list[tuple[str, pa.Field]], path: Path, mapping: Mapping[Path, int], found: dict[Path, int]
) -> None:
    taken: dict[int, str] = {}
    for name, column in columns:
        place = (*path, name)
        identifier = mapping.get(place)
        if identifier is not None:
            if identifier in taken:
                raise KernelFailure(
                    FailureKind.SCHEMA,
                    f"Columns {taken[identifier]!r} and {'.'.join(place)!r} are both field {identifier} in the table's "
                    "name mapping.",
                )
            taken[identifier] = ".".join(place)
            found[place] = identifier
        _map_children(children(column.type), place, mapping, found)


def _by_position(schema: pa.Schema, wanted: Collection[int]) -> Mapping[Path, int]:
    for identifier, column in enumerate(schema, start=1):
        if identifier in wanted and _has_struct(column.type):
            # Java finds no field inside the struct and reads nulls. Writing those nulls would erase the file's values.
            raise KernelFailure(
                FailureKind.SCHEMA,
                f"Column {column.name!r} holds structs without field ids, and the table has no name mapping "
                "(property schema.name-mapping.default) that says which field is which.",
            )
    return {(column.name,): identifier for identifier, column in enumerate(schema, start=1)}


def _has_struct(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) or any(_has_struct(child.type) for _, child in children(kind))
