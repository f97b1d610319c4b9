"""Finds the distinct partitions of many manifests, and the position of each file's partition among them."""

import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from tidyberg.manifests.entries import ManifestEntries, PartitionColumn, joined
from tidyberg.manifests.partition_tuples import distinct, tuple_names
from tidyberg.model.inventory import Partition

_DECIMALS = decimal.Context(prec=40)
# For the label of a partition whose source column was dropped: only these differ from plain text.
_LOGICAL_TYPES: Mapping[str, IcebergType] = {
    "date": DateType(),
    "time-micros": TimeType(),
    "timestamp-micros": TimestampType(),
    "timestamptz-micros": TimestamptzType(),
}


class PartitionIndex:
    """Numbers each (spec, partition tuple) by first appearance. `put_in_order` renumbers them."""

    def __init__(self, specs: Mapping[int, PartitionSpec], schema: Schema) -> None:
        self._specs = specs
        self._schema = schema
        # Keys are text: as in Iceberg, -0.0 differs from 0.0, and NaN equals itself.
        self._positions: dict[tuple[int, str], int] = {}
        self.partitions: list[Partition] = []

    def positions(self, spec_ids: Sequence[int], manifests: Sequence[ManifestEntries]) -> npt.NDArray[np.int32]:
        """The partition of every entry, for one manifest after the other."""
        starts = np.cumsum([0, *(len(manifest.span) for manifest in manifests)])
        found = np.zeros(int(starts[-1]), np.int32)
        alike: dict[tuple[int, tuple[PartitionColumn, ...]], list[int]] = {}
        for number, (spec_id, manifest) in enumerate(zip(spec_ids, manifests, strict=True)):
            alike.setdefault((spec_id, manifest.partition_columns), []).append(number)
        for (spec_id, columns), numbers in alike.items():
            table = joined([manifests[number] for number in numbers], tuple_names(columns))
            rows = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
            if len(rows):
                found[rows] = self._distinct(spec_id, columns, table, len(rows))
        return found

    def put_in_order(self) -> npt.NDArray[np.int32]:
        """Sorts partitions by spec and values, so that the result does not depend on reading order [I11].

        Returns the new position of each.
        """
        keys = list(self._positions)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self.partitions = [self.partitions[position] for position in order]
        self._positions = {keys[position]: number for number, position in enumerate(order)}
        new = np.empty(len(order), np.int32)
        new[order] = np.arange(len(order))
        return new

    def _distinct(
        self, spec_id: int, columns: tuple[PartitionColumn, ...], table: pa.Table, rows: int
    ) -> npt.NDArray[np.int32]:
        first, inverse = distinct(table, rows)
        examples = table.take(pa.array(first)) if table.num_columns else None
        spec = self._specs[spec_id]
        order = _field_order(spec, columns)
        positions = np.empty(len(first), np.int32)
        raw_columns = [column.to_pylist() for column in examples.columns] if examples else []
        for number in np.argsort(first):
            raw = [_internal_value(column, values[number]) for column, values in zip(columns, raw_columns, strict=True)]
            values = tuple(raw[at] if at is not None else None for at in order)
            positions[number] = self._position(spec, values, columns, order)
        return positions[inverse]

    def _position(
        self,
        spec: PartitionSpec,
        values: tuple[Any, ...],
        columns: tuple[PartitionColumn, ...],
        order: Sequence[int | None],
    ) -> int:
        key = (spec.spec_id, repr(values))
        if key not in self._positions:
            self._positions[key] = len(self.partitions)
            stated = [columns[at] if at is not None else None for at in order]
            path = "/".join(
                f"{quote_plus(field.name, safe='')}={quote_plus(self._text(field, value, column), safe='')}"
                for field, value, column in zip(spec.fields, values, stated, strict=True)
            )
            self.partitions.append(Partition(spec.spec_id, values, path))
        return self._positions[key]

    def _text(self, field: PartitionField, value: Any, column: PartitionColumn | None) -> str:
        """The value as in PyIceberg's paths. If the source column was dropped, the manifest gives its type."""
        source = self._schema._lazy_id_to_field.get(field.source_id)
        logical = column.logical if column and column.logical else ""
        if source is None:
            kind = _LOGICAL_TYPES.get(logical, StringType())
        else:
            kind = field.transform.result_type(source.field_type)
        return field.transform.to_human_string(kind, value)


def _field_order(spec: PartitionSpec, columns: tuple[PartitionColumn, ...]) -> list[int | None]:
    """The place of each spec field in the manifest: by id, or by position if ids were not kept (v1)."""
    by_id = {column.field_id: at for at, column in enumerate(columns)}
    if all(field.field_id in by_id for field in spec.fields):
        return [by_id[field.field_id] for field in spec.fields]
    return [at if at < len(columns) else None for at in range(len(spec.fields))]


def _internal_value(column: PartitionColumn, value: Any) -> Any:
    if value is None:
        return None
    if column.logical == "decimal":
        return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-column.scale, _DECIMALS)
    if column.logical == "uuid":
        return UUID(value) if isinstance(value, str) else UUID(bytes=value)
    return math.nan if isinstance(value, float) and math.isnan(value) else value
