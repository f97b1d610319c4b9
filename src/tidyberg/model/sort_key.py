"""The key by which a rewrite orders rows. It is shipped, so it needs only the standard library."""

from dataclasses import dataclass
from enum import StrEnum


class Curve(StrEnum):
    """A space-filling curve. It orders rows by several columns at once, none of which comes first."""

    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class SortField:
    """One field of a sort order, with the defaults of Iceberg: ascending, nulls first."""

    source_id: int  # the field id of a column, which may be nested in structs
    transform: str = "identity"  # as in a partition spec: identity, bucket[16], truncate[4], day, ...
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class SortKey:
    """A sort order, or a curve over the fields, which are then plain columns."""

    fields: tuple[SortField, ...]
    curve: Curve | None = None
    order_id: int | None = None  # the sort order of the table that outputs may claim; never set for a curve


def sort_key_text(key: SortKey) -> str:
    """Returns the same text for the same order. Columns are field ids, so that renaming one changes nothing."""
    if key.curve is not None:
        return f"{key.curve.value}({','.join(str(field.source_id) for field in key.fields)})"
    return ",".join(
        f"{field.transform}({field.source_id}) {'desc' if field.descending else 'asc'} "
        f"nulls {'last' if field.nulls_last else 'first'}"
        for field in key.fields
    )
