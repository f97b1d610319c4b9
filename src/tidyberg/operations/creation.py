"""CREATE_TABLE: turns the schema of a request into an Iceberg schema and partition spec, and creates the table."""

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import catalog_secrets
from tidyberg.errors import BadInput, TableExists
from tidyberg.model.sizes import MB
from tidyberg.model.table import TableRef
from tidyberg.operations.requests import CreateTableOperation, FieldOfSchema
from tidyberg.settings.operations import IcebergWrite

_TYPES: Mapping[str, IcebergType] = {
    "string": StringType(),
    "integer": IntegerType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "uuid": UUIDType(),
    "binary": BinaryType(),
}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_TRANSFORM = re.compile(r"([a-z]+)\(\s*(?:([0-9]{1,6})\s*,\s*)?([^(),\s]+)\s*\)")
_PLAIN_TRANSFORMS: Mapping[str, Transform[Any, Any]] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
}
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]*")
_MOST_LEVELS = 8


def create_table(
    catalog: Catalog, table: TableRef, request: CreateTableOperation, write: IcebergWrite
) -> dict[str, Any]:
    schema = iceberg_schema(request.table_schema.fields)
    spec = partition_spec(schema, request.partition_by or ())
    properties = {
        "write.target-file-size-bytes": str(int(write.target_file_size_mb * MB)),
        "write.parquet.compression-codec": write.compression_codec,
        "write.parquet.row-group-limit": str(write.parquet_row_group_size),
        # Each write makes a metadata file. Without these, all of them stay for ever.
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
    }
    with catalog_errors(table.catalog, what=request.table, secrets=catalog_secrets(catalog)):
        _create_namespace(catalog, table)
        try:
            catalog.create_table(table.identifier, schema, partition_spec=spec, properties=properties)
        except TableAlreadyExistsError:
            if request.if_not_exists:
                return _answer(request, created=False)
            raise TableExists(
                f"There is a table {request.table!r} in namespace {request.namespace!r} already.",
                hint="Set if_not_exists to true if that is fine.",
            ) from None
    return _answer(request, created=True)


def _answer(request: CreateTableOperation, *, created: bool) -> dict[str, Any]:
    return {"success": True, "created": created, "namespace": request.namespace, "table": request.table}


def _create_namespace(catalog: Catalog, table: TableRef) -> None:
    if catalog.namespace_exists(table.namespace):
        return
    try:
        catalog.create_namespace(table.namespace)
    except NamespaceAlreadyExistsError:
        return
    except Exception:
        # Another request may have created it at the same moment. Databases report that in different ways.
        if not catalog.namespace_exists(table.namespace):
            raise


def iceberg_schema(fields: Mapping[str, FieldOfSchema]) -> Schema:
    """Returns the schema. Its columns keep the order of the request."""
    return Schema(*_fields(fields, count(1), "", 1))


def _fields(fields: Mapping[str, FieldOfSchema], ids: Iterator[int], above: str, level: int) -> Iterator[NestedField]:
    seen: set[str] = set()
    for name, field in fields.items():
        place = f"{above}{name}"
        if not _COLUMN.fullmatch(name):
            raise BadInput(
                f"{place[:100]!r} is not a column name.",
                hint="Use ASCII letters, digits, '_', '-' and spaces, and begin with a letter or '_'.",
            )
        if name.lower() in seen:
            raise BadInput(
                f"{place!r} differs from another column only in its case.", hint="SQL cannot tell them apart."
            )
        seen.add(name.lower())
        identifier = next(ids)
        yield NestedField(identifier, name, _type(field, ids, place, level), required=field.required, doc=field.doc)


def _type(field: FieldOfSchema, ids: Iterator[int], place: str, level: int) -> IcebergType:
    if level > _MOST_LEVELS:
        raise BadInput(f"{place[:100]!r} is nested more than {_MOST_LEVELS} levels deep.")
    name = field.type.strip().lower()
    if name == "list" and field.element is not None and field.fields is None:
        identifier = next(ids)
        element = _type(field.element, ids, f"{place}.element", level + 1)
        return ListType(identifier, element, element_required=field.element.required)
    if name == "struct" and field.fields and field.element is None:
        return StructType(*_fields(field.fields, ids, f"{place}.", level + 1))
    if field.element is not None or field.fields is not None or name in ("list", "struct"):
        raise BadInput(
            f"{place!r} is of type {field.type!r}, which does not fit its other keys.",
            hint="A list has `element`, a struct has `fields`, and other types have neither.",
        )
    if decimal := _DECIMAL.fullmatch(name):
        precision, scale = int(decimal[1]), int(decimal[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise BadInput(f"{place!r}: decimal({precision},{scale}) has a precision of 1 to 38, and a smaller scale.")
        return DecimalType(precision, scale)
    if name not in _TYPES:
        known = f"Known: {', '.join(_TYPES)}, decimal(p,s), list, struct."
        raise BadInput(f"{place!r} is of type {field.type!r}, which is not known.", hint=known)
    return _TYPES[name]


def partition_spec(schema: Schema, columns: "list[str] | tuple[str, ...]") -> PartitionSpec:
    fields: list[PartitionField] = []
    for number, text in enumerate(columns):
        name, transform = _transform(text.strip())
        try:
            column = schema.find_field(name)
        except ValueError:
            raise BadInput(f"partition_by: there is no column {name[:100]!r}.") from None
        if not column.field_type.is_primitive or not transform.can_transform(column.field_type):
            raise BadInput(f"partition_by: {text!r} cannot be applied to a column of type {column.field_type}.")
        label = name if isinstance(transform, IdentityTransform) else f"{name}_{str(transform).partition('[')[0]}"
        if label in {field.name for field in fields} or (label != name and label in schema.column_names):
            raise BadInput(f"partition_by: {label!r} is the name of two fields.", hint="Give each column once.")
        fields.append(PartitionField(column.field_id, PARTITION_FIELD_ID_START + number, transform, label))
    return PartitionSpec(*fields)


def _transform(text: str) -> tuple[str, Transform[Any, Any]]:
    called = _TRANSFORM.fullmatch(text)
    if called is None:
        return text, IdentityTransform()
    function, width, column = called.groups()
    if function in _PLAIN_TRANSFORMS and width is None:
        return column, _PLAIN_TRANSFORMS[function]
    if function in ("bucket", "truncate") and width is not None and int(width) > 0:
        return column, BucketTransform(int(width)) if function == "bucket" else TruncateTransform(int(width))
    raise BadInput(
        f"partition_by: {text[:100]!r} is not a partition.",
        hint="Write a column, or year(c), month(c), day(c), hour(c), bucket(n, c), truncate(n, c).",
    )
