"""Finds what must not be rewritten: tables whose content cannot be preserved, and files that cannot be read."""

from collections import Counter
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import index_by_id
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

from tidyberg.model.plan import Skip
from tidyberg.model.table import Pinned

SUPPORTED_FORMAT_VERSIONS = (1, 2, 3)
ENCRYPTION_KEY = "encryption.key-id"  # this table property makes Iceberg's writers encrypt
# The names of the row lineage columns in v3 data files.
_LINEAGE_NAMES = frozenset({"_row_id", "_last_updated_sequence_number"})


def unsupported_table(pinned: Pinned) -> Skip | None:
    """Returns why no file of this table can be rewritten, or None."""
    if pinned.format_version not in SUPPORTED_FORMAT_VERSIONS:
        return Skip("format-version", f"format v{pinned.format_version} tables are not supported")
    if ENCRYPTION_KEY in pinned.properties:
        return Skip("encrypted", f"encrypted tables are not supported ({ENCRYPTION_KEY} is set)")
    for column in index_by_id(pinned.schema).values():
        if isinstance(column.field_type, GeometryType | GeographyType):
            kind = "geometry" if isinstance(column.field_type, GeometryType) else "geography"
            return Skip("column-type", f"column {column.name} is of type {kind}, which is not supported")
        if _has_nothing_to_store(column.field_type):
            return Skip("column-type", f"column {column.name} of type {column.field_type} cannot be stored in Parquet")
    taken = _LINEAGE_NAMES & {column.name for column in pinned.schema.fields}
    if taken and pinned.format_version >= 3:
        return Skip("column-name", f"column {min(taken)} has a name that format v3 keeps for row lineage")
    return None


def _has_nothing_to_store(kind: IcebergType) -> bool:
    """Returns True for a list, map or struct of unknown columns only. No file stores these, so it would be empty."""
    inside: tuple[IcebergType, ...] = ()
    if isinstance(kind, ListType):
        inside = (kind.element_type,)
    elif isinstance(kind, MapType):
        inside = (kind.value_type,)
    elif isinstance(kind, StructType):
        inside = tuple(field.field_type for field in kind.fields)
    return bool(inside) and all(isinstance(each, UnknownType) for each in inside)


class Hazard(IntEnum):
    """The reasons to leave a file out, in the order in which they are listed."""

    NONE = 0
    DELETE_FORMAT = 1
    DELETE_KEYS = 2
    FORMAT = 3
    ENCRYPTED = 4
    DELETE_COLUMNS = 5

    @property
    def code(self) -> str:
        return self.name.lower().replace("_", "-")


_EXPLANATIONS = {
    Hazard.DELETE_FORMAT: "with deletes not in Parquet",
    Hazard.DELETE_KEYS: "with equality deletes by columns of optional structs, on which readers differ",
    Hazard.FORMAT: "not in Parquet",
    Hazard.ENCRYPTED: "encrypted",
    Hazard.DELETE_COLUMNS: "with equality deletes by columns that no schema of the table has",
}


def columns_of_optional_structs(pinned: Pinned) -> frozenset[int]:
    """Returns the ids of fields inside optional structs, in any schema of the table.

    Readers disagree on such a field if its struct is null. In SQL the field then equals a null key. Iceberg's Java
    library treats a null struct and a null inside a struct as different keys.
    """
    found: set[int] = set()
    for schema in (pinned.schema, *pinned.schemas.values()):
        for column in schema.fields:
            _add_columns_below(column, False, found)
    return frozenset(found)


def columns_for_keys(pinned: Pinned) -> frozenset[int]:
    """Returns the ids of fields that equality deletes can compare, in any schema of the table.

    A deleted column is no longer known once all schemas with it were removed, as some tools do when snapshots expire.
    """
    found: set[int] = set()
    for schema in (pinned.schema, *pinned.schemas.values()):
        for column in schema.fields:
            _add_leaves(column, found)
    return frozenset(found)


def _add_leaves(column: NestedField, found: set[int]) -> None:
    if isinstance(column.field_type, StructType):
        for inner in column.field_type.fields:
            _add_leaves(inner, found)
    elif isinstance(column.field_type, PrimitiveType) and not isinstance(column.field_type, UnknownType):
        found.add(column.field_id)


def _add_columns_below(column: NestedField, is_below_optional: bool, found: set[int]) -> None:
    if is_below_optional:
        found.add(column.field_id)
    if isinstance(column.field_type, StructType):
        for inner in column.field_type.fields:
            _add_columns_below(inner, is_below_optional or not column.required, found)


def hazards_of(
    data_files: pa.Table,
    unreadable_deletes: npt.NDArray[np.bool_],
    disputed_deletes: npt.NDArray[np.bool_],
    unknown_keys: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int8]:
    """Returns one Hazard per file. The masks mark files with unreadable deletes, disputed ones and unknown columns."""
    hazards = np.where(disputed_deletes, Hazard.DELETE_KEYS, Hazard.NONE).astype(np.int8)
    hazards[unknown_keys] = Hazard.DELETE_COLUMNS
    hazards[unreadable_deletes] = Hazard.DELETE_FORMAT
    formats = data_files.column("format").cast(pa.string())
    hazards[pc.not_equal(formats, "PARQUET").to_numpy()] = Hazard.FORMAT
    hazards[data_files.column("encrypted").to_numpy()] = Hazard.ENCRYPTED
    return hazards


def explain(hazards: npt.NDArray[np.int8]) -> str:
    """Says how many files are left out and why."""
    counts = Counter(hazard for hazard in hazards.tolist() if hazard)
    return ", ".join(
        f"{count:,} {'file' if count == 1 else 'files'} {_EXPLANATIONS[Hazard(hazard)]}"
        for hazard, count in sorted(counts.items())
    )
