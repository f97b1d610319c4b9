"""Reads NaN counts of data files from manifests. Parquet footers lack them, so a copied file needs them from here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.types import DoubleType, FloatType, NestedField, StructType

from tidyberg.avro.container import AvroError, decoding
from tidyberg.avro.records import AvroFile
from tidyberg.manifests.entries import DELETED, FIELD_IDS
from tidyberg.model.inventory import Inventory
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.task import NanFacts
from tidyberg.observe.reading import fetch_manifests
from tidyberg.storage.table_files import damaged, read_bytes

_STATUS, _PATH, _LOWER, _UPPER = (FIELD_IDS[name] for name in ("status", "path", "lower_bounds", "upper_bounds"))
_NANS = 137
_MOST_BOUNDED = 64  # columns per file, so that a task carries less than 2 KB per file
_WANTED = frozenset((_STATUS, _PATH, _NANS, _LOWER, _UPPER))


def read_nans(io: FileIO, inventory: Inventory, paths: Sequence[str]) -> dict[str, tuple[NanFacts, ...]]:
    """Returns the facts by path. Columns without a NaN count in the manifest are left out."""
    columns = frozenset(_float_columns(inventory.pinned.schema.fields))
    if not columns or not paths:
        return {}
    wanted = frozenset(paths)
    manifests = _manifests_of(inventory, paths)
    read = partial(read_bytes, io)
    found: dict[str, tuple[NanFacts, ...]] = {}
    for info, raw in zip(manifests, fetch_manifests(read, manifests), strict=True):
        try:
            with decoding():
                found |= _facts(raw, wanted, columns)
        except AvroError as error:
            raise damaged(info.path, f"as a manifest, {error}") from error
    return found


def _float_columns(fields: Iterable[NestedField]) -> Iterator[int]:
    """Float columns outside of lists and maps, which have no metrics."""
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _float_columns(field.field_type.fields)
        elif isinstance(field.field_type, FloatType | DoubleType):
            yield field.field_id


def _manifests_of(inventory: Inventory, paths: Sequence[str]) -> list[ManifestInfo]:
    files = inventory.data_files
    theirs = files.filter(pc.is_in(files["path"], value_set=pa.array(paths, pa.string())))
    return [inventory.manifests[number] for number in sorted(pc.unique(theirs["manifest"]).to_pylist())]


def _facts(raw: bytes, wanted: frozenset[str], columns: frozenset[int]) -> dict[str, tuple[NanFacts, ...]]:
    found = {}
    for entry in AvroFile.parse(raw).records(_WANTED):
        path = entry.get(_PATH)
        if entry.get(_STATUS) != DELETED and path in wanted:
            counts, lower, upper = (_by_column(entry.get(field), field) for field in (_NANS, _LOWER, _UPPER))
            found[path] = tuple(_nan_facts(counts, lower, upper, columns))
    return found


def _by_column(pairs: Sequence[Mapping[int, Any]] | None, field: int) -> dict[int, Any]:
    """A map of column metrics, which a manifest's own schema may lack. The ids of key and value follow the field's."""
    return {pair[field + 1]: pair[field + 2] for pair in pairs or ()}


def _nan_facts(
    counts: dict[int, int], lower: dict[int, bytes], upper: dict[int, bytes], columns: frozenset[int]
) -> Iterator[NanFacts]:
    bounded = 0
    for column in sorted(columns & counts.keys()):
        if counts[column] > 0 and bounded < _MOST_BOUNDED:
            bounded += 1
            yield NanFacts(column, counts[column], lower.get(column), upper.get(column))
        elif counts[column] >= 0:
            yield NanFacts(column, counts[column])
