"""Inventories whose files have bounds of key columns and claim sort orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.types import IcebergType, PrimitiveType

from tests.builders.scenes import SCHEMA, File, Scene
from tidyberg.model.inventory import DATA_FILES, Inventory
from tidyberg.model.plan import SORT_KEY, Plan, Rewrite, Skip
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import SortField, SortKey, sort_key_text
from tidyberg.planning.document import plan_from_json, plan_to_json

BY_ID = SortKey((SortField(1),), order_id=1)
TARGET = 64 * MB


@dataclass(frozen=True)
class Span:
    """The bounds of one column in one file. None: the manifest has none."""

    low: Any = None
    high: Any = None
    nulls: int | None = 0
    nans: int | None = None


def bounds_table(columns: Mapping[int, Sequence[Span]], kinds: Mapping[int, IcebergType] | None = None) -> pa.Table:
    found: dict[str, pa.Array] = {}
    for field_id, spans in columns.items():
        kind = kinds[field_id] if kinds else SCHEMA.find_type(field_id)
        found[f"lower_{field_id}"] = pa.array([_bytes(kind, span.low) for span in spans], pa.binary())
        found[f"upper_{field_id}"] = pa.array([_bytes(kind, span.high) for span in spans], pa.binary())
        found[f"nulls_{field_id}"] = pa.array([span.nulls for span in spans], pa.int64())
        found[f"nans_{field_id}"] = pa.array([span.nans for span in spans], pa.int64())
    return pa.table(found)


def _bytes(kind: IcebergType, value: Any) -> bytes | None:
    assert isinstance(kind, PrimitiveType)
    return value if value is None or isinstance(value, bytes) else to_bytes(kind, value)


def laid_out(
    ids: Sequence[tuple[int, int] | None],
    *,
    files: Sequence[File] | None = None,
    claims: Sequence[int | None] | None = None,
    order: SortKey | None = None,
    more: Mapping[int, Sequence[Span]] | None = None,
    sorted_by: Mapping[int, SortKey] | None = None,
    **scene: Any,
) -> Inventory:
    """Returns an unpartitioned table whose files have these lowest and highest ids.

    `claims` are the sort orders of the files, `order` the table's own, and `sorted_by` the keys in the summaries of
    snapshots.
    """
    files = files or [File(size=TARGET) for _ in ids]
    inventory = Scene(files, **({"partitioned": False} | scene)).inventory()
    spans = [Span() if each is None else Span(*each) for each in ids]
    column = DATA_FILES.get_field_index("sort_order_id")
    claimed = pa.array(claims or [None] * len(ids), pa.int32())
    pinned = inventory.pinned
    history = {
        number: replace(info, summary={**info.summary, SORT_KEY: sort_key_text(sorted_by[number])})
        if sorted_by and number in sorted_by
        else info
        for number, info in pinned.snapshots.items()
    }
    if order is not None:
        pinned = replace(pinned, sort_order_id=order.order_id or 0, sort_orders={order.order_id or 0: order})
    return replace(
        inventory,
        pinned=replace(pinned, snapshots=history),
        data_files=inventory.data_files.set_column(column, DATA_FILES.field("sort_order_id"), claimed),
        key_bounds=bounds_table({1: spans, **(more or {})}),
    )


def taken(plan: Plan) -> list[int]:
    """Returns the numbers of the files that the plan rewrites."""
    assert plan_from_json(plan_to_json(plan)) == plan
    return sorted(int(file.path[1:7]) for group in plan.groups for file in group.files)


def skip(plan: Plan) -> Skip:
    """Returns why the only partition is skipped."""
    (partition,) = plan.partitions
    assert isinstance(partition.verdict, Skip), partition.verdict
    return partition.verdict


def rewrite(plan: Plan) -> Rewrite:
    (partition,) = plan.partitions
    assert isinstance(partition.verdict, Rewrite), partition.verdict
    return partition.verdict
