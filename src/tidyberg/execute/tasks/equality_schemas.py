"""Builds the Arrow schema of the columns that equality deletes compare, including dropped columns."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType, UnknownType

from tidyberg.errors import Unsupported
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.model.table import Pinned


def schemas_newest_first(pinned: Pinned) -> list[Schema]:
    """Return the table's schemas, newest first. The current one comes first, even if it is an older one."""
    older = sorted(pinned.schemas.values(), key=lambda schema: schema.schema_id, reverse=True)
    return [pinned.schema, *(schema for schema in older if schema.schema_id != pinned.schema.schema_id)]


def equality_schema_bytes(equality_ids: Sequence[int], schemas: Sequence[Schema], path: str) -> bytes:
    """Return a schema with one column per id, in order. A nested column keeps the structs around it."""
    if not equality_ids:
        raise Unsupported(f"The equality delete file {path} does not say which columns it compares.")
    columns = [column for field_id in equality_ids for column in arrow_schema(_only(field_id, schemas, path))]
    return bytes(pa.schema(columns).serialize())


def _only(field_id: int, schemas: Sequence[Schema], path: str) -> Schema:
    for schema in schemas:
        trail = _trail(field_id, schema.fields)
        if trail:
            break
    else:
        raise Unsupported(
            f"The equality delete file {path} compares field {field_id}, which no schema of the table has "
            "outside of lists and maps.",
            hint="Remove that delete file with the engine that wrote it, or leave its partitions out.",
        )
    *structs, leaf = trail
    if not isinstance(leaf.field_type, PrimitiveType) or isinstance(leaf.field_type, UnknownType):
        raise Unsupported(f"The equality delete file {path} compares {leaf.name}, which is a {leaf.field_type}.")
    # The column is optional: older data files and delete files without it have null there.
    column = leaf.model_copy(update={"required": False})
    for struct in reversed(structs):
        column = NestedField(struct.field_id, struct.name, StructType(column), required=False)
    return Schema(column)


def _trail(field_id: int, fields: Iterable[NestedField]) -> list[NestedField]:
    """Return the fields from the top to an id, or none if the id is absent or inside a list or map."""
    for field in fields:
        if field.field_id == field_id:
            return [field]
        if isinstance(field.field_type, StructType):
            below = _trail(field_id, field.field_type.fields)
            if below:
                return [field, *below]
    return []
