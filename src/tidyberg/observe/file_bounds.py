"""Decodes the bounds of some columns of all data files, for advice about layouts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, PrimitiveType

from tidyberg.manifests.entries import metric_names
from tidyberg.model.file_bounds import ColumnBounds, FileBounds
from tidyberg.model.inventory import Inventory
from tidyberg.observe.key_bounds import read_key_bounds


def read_file_bounds(io: FileIO, inventory: Inventory, columns: Sequence[str]) -> FileBounds:
    """Returns the bounds of the named columns, in the order of the inventory's data files."""
    files, schema = inventory.data_files, inventory.pinned.schema
    fields = {name: schema.find_field(name) for name in columns}
    metrics = read_key_bounds(io, inventory, [field.field_id for field in fields.values()]) if fields else None
    return FileBounds(
        files["path"].to_pylist(),
        files["partition"].to_numpy().astype(np.int64),
        files["size"].to_numpy(),
        files["records"].to_numpy(),
        {name: _column(field, metrics, files["records"].to_pylist()) for name, field in fields.items()},
    )


def _column(field: NestedField, metrics: pa.Table, records: Sequence[int]) -> ColumnBounds:
    kind = field.field_type
    assert isinstance(kind, PrimitiveType)
    lower, upper, nulls = (metrics[name].to_pylist() for name in metric_names(field.field_id)[:3])
    # A value is null or not in every row: columns inside of lists and maps are no columns of filters.
    may_have_values = [count is None or count < rows for count, rows in zip(nulls, records, strict=True)]
    return ColumnBounds(
        [_decode(kind, bound) for bound in lower],
        [_decode(kind, bound) for bound in upper],
        np.array([count is None or count > 0 for count in nulls], np.bool_),
        np.array(may_have_values, np.bool_),
    )


def _decode(kind: IcebergType, bound: bytes | None) -> Any:
    """Returns None for a bound that cannot be decoded: a file without a bound is never skipped."""
    if bound is None:
        return None
    if isinstance(kind, LongType) and len(bound) == 4:
        return int.from_bytes(bound, "little", signed=True)  # written before the column was promoted
    if isinstance(kind, DoubleType) and len(bound) == 4:
        return float(np.frombuffer(bound, "<f4")[0])
    try:
        return from_bytes(kind, bound)  # type: ignore[arg-type]
    except (ValueError, TypeError, ArithmeticError, IndexError):
        return None
