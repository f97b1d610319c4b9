"""Says which bounds of a column a table keeps in its manifests, by its properties."""

from collections.abc import Iterator, Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType

_METRICS = "write.metadata.metrics."
_DEFAULT = "truncate(16)"
_INFERRED = 100  # without a default mode, Iceberg keeps metrics of the first 100 columns


def metrics_mode(name: str, field_id: int, schema: Schema, properties: Mapping[str, str]) -> str:
    """Returns none, counts, full or truncate(N). A property that is not valid fails later, in the writer."""
    own = properties.get(f"{_METRICS}column.{name}")
    default = properties.get(f"{_METRICS}default")
    if own is not None or default is not None:
        return (own or default or "").strip().lower()
    limit = properties.get(f"{_METRICS}max-inferred-column-defaults", "").strip()
    inferred = int(limit) if limit.isdigit() else _INFERRED
    leaves = [leaf for column in schema.fields for leaf in _leaves(column)]
    return _DEFAULT if field_id in leaves[:inferred] else "none"


def _leaves(column: NestedField) -> Iterator[int]:
    kind = column.field_type
    inside: tuple[NestedField, ...] = ()
    if isinstance(kind, StructType):
        inside = kind.fields
    elif isinstance(kind, ListType):
        inside = (kind.element_field,)
    elif isinstance(kind, MapType):
        inside = (kind.key_field, kind.value_field)
    else:
        yield column.field_id
    for each in inside:
        yield from _leaves(each)


def cut_length(mode: str) -> int | None:
    """Returns the characters or bytes that bounds keep, or None if they keep all."""
    digits = mode.removeprefix("truncate(").removesuffix(")")
    return int(digits) if mode.startswith("truncate(") and digits.isdigit() else None
