"""Estimates how much memory the look-up of deleted keys takes, from the keys themselves or from manifests."""

import pyarrow as pa

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.model.task import TaskDelete

BYTES_PER_KEY = 100  # that the look-up takes besides the keys themselves, as measured
_TEXT_BYTES = 24  # the least that is expected of a value without a fixed width
_PLAIN_PER_STORED = 3  # how much larger such values are when they are not compressed


def matcher_bytes(keys: int, stored_bytes: int) -> int:
    """Estimates the memory of a look-up of deleted keys."""
    return keys * BYTES_PER_KEY + stored_bytes


def expected_matcher_bytes(delete: TaskDelete, schema: pa.Schema) -> int:
    """Estimates the memory from the numbers of the manifest, before the delete file is opened."""
    kinds = [leaf.type for leaf in leaves(schema)]
    records = max(1, delete.records or delete.size // _TEXT_BYTES)
    text = max(_TEXT_BYTES, _PLAIN_PER_STORED * delete.size // records)
    width = sum(-(-kind.bit_width // 8) if _has_width(kind) else text for kind in kinds)
    return matcher_bytes(records, records * width)


def _has_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False
