"""The field ids of Parquet's Thrift structures, and typed access to their fields that checks every type.

The ids are those of parquet.thrift. An unknown field may hold an offset, which would be wrong in another file. So we
refuse structures with unknown ids instead of copying or dropping such fields.
"""

from typing import Any

from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Struct, ThriftList


class FileField:
    VERSION, SCHEMA, ROWS, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS, ENCRYPTION, SIGNING_KEY = range(1, 10)
    KNOWN = frozenset(range(1, 10))


class ElementField:
    TYPE, TYPE_LENGTH, REPETITION, NAME, CHILDREN, CONVERTED_TYPE, SCALE, PRECISION, FIELD_ID, LOGICAL_TYPE = range(
        1, 11
    )
    KNOWN = frozenset(range(1, 11))


class GroupField:
    COLUMNS, TOTAL_BYTES, ROWS, SORTING_COLUMNS, FILE_OFFSET, TOTAL_COMPRESSED, ORDINAL = range(1, 8)
    KNOWN = frozenset(range(1, 8))


class ChunkField:
    FILE_PATH, FILE_OFFSET, METADATA = 1, 2, 3
    OFFSET_INDEX, OFFSET_INDEX_LENGTH, COLUMN_INDEX, COLUMN_INDEX_LENGTH, CRYPTO, ENCRYPTED_METADATA = range(4, 10)
    KNOWN = frozenset(range(1, 10))


class MetadataField:
    TYPE, ENCODINGS, PATH, CODEC, VALUES, UNCOMPRESSED, COMPRESSED, KEY_VALUES = range(1, 9)
    DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, STATISTICS, ENCODING_STATS, BLOOM, BLOOM_LENGTH = range(9, 16)
    SIZE_STATISTICS, GEOSPATIAL = 16, 17
    KNOWN = frozenset(range(1, 18))


class StatisticsField:
    BOUNDS = (1, 2, 5, 6)  # max and min (deprecated), max_value and min_value
    NULLS = 3
    UPPER_IS_EXACT, LOWER_IS_EXACT = 7, 8


class IndexField:
    PAGE_LOCATIONS, UNENCODED_BYTES = 1, 2
    KNOWN = frozenset((1, 2))


class LocationField:
    OFFSET, LENGTH, FIRST_ROW = 1, 2, 3
    KNOWN = frozenset((1, 2, 3))


def known_only(struct: Struct, known: frozenset[int], what: str) -> Struct:
    unknown = sorted(set(struct) - known)
    if unknown:
        raise CannotCopy(f"{what} has fields that this version does not know ({', '.join(map(str, unknown))})")
    return struct


def number(struct: Struct, identifier: int, what: str) -> int:
    """Returns a required number that is not negative."""
    found = optional_number(struct, identifier, what)
    if found is None:
        raise CannotCopy(f"its footer does not state {what}")
    return found


def optional_number(struct: Struct, identifier: int, what: str) -> int | None:
    kind, value = struct.get(identifier, (0, 0))
    if not kind:
        return None
    if kind not in (I16, I32, I64) or value < 0:
        raise CannotCopy(f"its footer is damaged: {what} is not a valid number")
    return int(value)


def text(struct: Struct, identifier: int, what: str) -> bytes | None:
    kind, value = struct.get(identifier, (None, None))
    if kind not in (None, BINARY):
        raise CannotCopy(f"its footer is damaged: {what} is not text")
    return value


def structs(struct: Struct, identifier: int, what: str) -> list[Struct]:
    """Returns a list of structures, which is empty if the field is absent."""
    return items(struct, identifier, STRUCT, what)


def items(struct: Struct, identifier: int, element: int, what: str) -> list[Any]:
    kind, value = struct.get(identifier, (None, None))
    if kind is None:
        return []
    if kind != LIST or not isinstance(value, ThriftList) or (value.items and value.element != element):
        raise CannotCopy(f"its footer is damaged: {what} is not a list")
    return value.items


def substruct(struct: Struct, identifier: int, what: str) -> Struct | None:
    kind, value = struct.get(identifier, (None, None))
    if kind not in (None, STRUCT):
        raise CannotCopy(f"its footer is damaged: {what} is not a structure")
    return value


def changed(struct: Struct, changes: dict[int, tuple[int, Any] | None]) -> Struct:
    """Returns the structure with other values for some fields. None removes a field."""
    kept = {identifier: value for identifier, value in {**struct, **changes}.items() if value is not None}
    return kept if changes.keys() <= struct.keys() else dict(sorted(kept.items()))
