"""Reads the bounds of some columns of all data files from manifests."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, LongType, PrimitiveType

from tidyberg.avro.container import AvroError, decoding
from tidyberg.avro.records import AvroFile
from tidyberg.manifests.entries import DELETED, FIELD_IDS
from tidyberg.model.file_bounds import ColumnBounds, FileBounds
from tidyberg.model.inventory import Inventory
from tidyberg.observe.reading import fetch_manifests
from tidyberg.storage.table_files import damaged, read_bytes

_STATUS, _PATH, _LOWER, _UPPER = (FIELD_IDS[name] for name in ("status", "path", "lower_bounds", "upper_bounds"))
_VALUES, _NULLS = 109, 110  # counts of values and of nulls, by the specification
_WANTED = frozenset((_STATUS, _PATH, _LOWER, _UPPER, _VALUES, _NULLS))

_Metrics = dict[int, Any]


def read_file_bounds(io: FileIO, inventory: Inventory, columns: Sequence[str]) -> FileBounds:
    """Returns the bounds of the named columns, in the order of the inventory's data files."""
    files = inventory.data_files
    paths = files["path"].to_pylist()
    numbers = {path: number for number, path in enumerate(paths)}
    found: list[tuple[_Metrics, ...]] = [({}, {}, {}, {})] * len(paths)
    used = [inventory.manifests[number] for number in sorted(set(files["manifest"].to_pylist()))] if columns else []
    for info, raw in zip(used, fetch_manifests(partial(read_bytes, io), used), strict=True):
        try:
            with decoding():
                for entry in AvroFile.parse(raw).records(_WANTED):
                    number = numbers.get(str(entry.get(_PATH)))
                    if entry.get(_STATUS) != DELETED and number is not None:
                        found[number] = tuple(
                            _by_column(entry.get(one), one) for one in (_LOWER, _UPPER, _VALUES, _NULLS)
                        )
        except AvroError as error:
            raise damaged(info.path, f"as a manifest, {error}") from error
    schema, records = inventory.pinned.schema, files["records"].to_pylist()
    return FileBounds(
        paths,
        files["partition"].to_numpy().astype(np.int64),
        files["size"].to_numpy(),
        files["records"].to_numpy(),
        {name: _column(schema, name, found, records) for name in columns},
    )


def _column(schema: Schema, name: str, found: Sequence[tuple[_Metrics, ...]], records: Sequence[int]) -> ColumnBounds:
    field = schema.find_field(name)
    assert isinstance(field.field_type, PrimitiveType)
    lows, highs, nulls, values = [], [], [], []
    for (lower, upper, value_counts, null_counts), rows in zip(found, records, strict=True):
        lows.append(_decode(field.field_type, lower.get(field.field_id)))
        highs.append(_decode(field.field_type, upper.get(field.field_id)))
        null_count = null_counts.get(field.field_id)
        nulls.append(null_count is None or null_count > 0)
        values.append(null_count is None or null_count < value_counts.get(field.field_id, rows))
    return ColumnBounds(lows, highs, np.array(nulls, np.bool_), np.array(values, np.bool_))


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


def _by_column(pairs: Sequence[Mapping[int, Any]] | None, field: int) -> _Metrics:
    """A map of column metrics. The ids of its keys and values are 109: 119, 120; 110: 121, 122; 125: 126, 127; …"""
    key, value = _PAIRS[field]
    return {pair[key]: pair[value] for pair in pairs or ()}


_PAIRS = {_LOWER: (126, 127), _UPPER: (129, 130), _VALUES: (119, 120), _NULLS: (121, 122)}
