"""Decides whether files can be merged in the table's sort order: which order it is, and which files claim it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.transforms import parse_transform
from pyiceberg.types import GeographyType, GeometryType, PrimitiveType, StructType, UnknownType

from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.table import Pinned


def kept_order(pinned: Pinned) -> SortKey | None:
    """Returns the table's sort order, or None if there is none or a column of it was dropped."""
    key = pinned.sort_orders.get(pinned.sort_order_id)
    if pinned.sort_order_id == 0 or key is None:
        return None
    return key if all(_has_order(field, pinned) for field in key.fields) else None


def claims_order(files: pa.Table, key: SortKey | None) -> npt.NDArray[np.bool_]:
    """Returns which files claim the order. A claim may be false; the worker that merges them checks it."""
    if key is None or key.order_id is None:
        return np.zeros(files.num_rows, np.bool_)
    claims: npt.NDArray[np.bool_] = files.column("sort_order_id").fill_null(0).to_numpy() == key.order_id
    return claims


def _has_order(field: SortField, pinned: Pinned) -> bool:
    """Whether the column has one value per row, and the transform applies to it."""
    fields = list(pinned.schema.fields)
    while fields:
        column = fields.pop()
        kind = column.field_type
        if column.field_id == field.source_id:
            transform = parse_transform(field.transform)
            return (
                isinstance(kind, PrimitiveType)
                and not isinstance(kind, UnknownType | GeometryType | GeographyType)
                and str(transform) != "unknown"
                and transform.can_transform(kind)
            )
        if isinstance(kind, StructType):
            fields += kind.fields
    return False
