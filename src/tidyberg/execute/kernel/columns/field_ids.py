"""Field ids of files that were written without any, as Iceberg's own Parquet reader gives them.

With a name mapping: by name. Without: the first column is field 1, the second field 2 and so on, which is right for
files of tables whose columns were only ever added. One id anywhere in a file makes all its columns count by id.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa

from tidyberg.failures import FailureKind, KernelFailure

FIELD_ID = b"PARQUET:field_id"
# Names from the top down to a field; elements, keys and values of lists and maps go by these words whatever their name.
Path = tuple[str, ...]
ELEMENT, KEY, VALUE = "element", "key", "value"


def field_id(column: pa.Field) -> int | None:
    text = (column.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def assigned_ids(
    schema: pa.Schema, mapping: Mapping[Path, int] | None, wanted: Collection[int]
) -> Mapping[Path, int] | None:
    """The ids of the file's fields by their paths; None for a file that has ids of its own."""
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
    """The fields right below a nested type, with the names they go by."""
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
                    f"Columns {taken[identifier]!r} and {'.'.join(place)!r} are the same field {identifier} by the "
                    "table's name mapping.",
                )
            taken[identifier] = ".".join(place)
            found[place] = identifier
        _map_children(children(column.type), place, mapping, found)


def _by_position(schema: pa.Schema, wanted: Collection[int]) -> Mapping[Path, int]:
    for identifier, column in enumerate(schema, start=1):
        if identifier in wanted and _has_struct(column.type):
            # Java finds no field inside them and reads nulls: written down, these would erase what the file holds.
            raise KernelFailure(
                FailureKind.SCHEMA,
                f"Column {column.name!r} holds structs without field ids, and the table has no name mapping "
                "(property schema.name-mapping.default) that says which field is which.",
            )
    return {(column.name,): identifier for identifier, column in enumerate(schema, start=1)}


def _has_struct(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) or any(_has_struct(child.type) for _, child in children(kind))
