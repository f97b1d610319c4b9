"""Writes rows to their partitions: collects them, sorts them by partition, and writes one partition after another.

Only one output is open at a time, whatever the number of partitions. Outputs are numbered without gaps, so that
recovery finds all of them. Rows that do not fit into the task's memory wait in a temporary file on the worker's disk.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.execute.kernel.columns.transforms import apply_transform
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.execute.kernel.write.rolling import RollingWriter
from tidyberg.execute.kernel.write.spill import SpillFile
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, TaskPartitionField
from tidyberg.storage.file_io import Storage

Values = tuple[Any, ...]


@dataclass
class _PartitionRows:
    """The rows of one partition so far: in memory, or as batch numbers in the spill file."""

    values: Values
    rows: int = 0
    tables: list[pa.Table] = field(default_factory=list)
    spilled: list[int] = field(default_factory=list)


class PartitionedWriter:
    """Takes batches like a `RollingWriter`. Every output has rows of one partition only."""

    def __init__(
        self,
        task: Task,
        attempt: int,
        storage: Storage,
        schema: pa.Schema,
        dictionaries: Mapping[int, bool],
        should_stop: Callable[[], bool],
    ) -> None:
        assert task.partitioning is not None
        self._writer = RollingWriter(task, attempt, storage, schema, dictionaries)
        self._columns = partition_leaves(schema, task.partitioning)
        self._schema = schema
        self._should_stop = should_stop
        self._limit = task.memory_bytes // 2  # sorting needs the rows twice
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._parts: dict[str, _PartitionRows] = {}
        self._spill: SpillFile | None = None

    @property
    def rows_written(self) -> int:
        return self._writer.rows_written

    def announce(self, rows: int, uncompressed_bytes: int, rows_in_all: int) -> None:
        self._writer.announce(rows, uncompressed_bytes, rows_in_all)

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._limit:
            if self._spill is None:
                self._spill = SpillFile(self._schema)
            self._sort_collected()

    def finish(self) -> list[FinishedOutput]:
        self._sort_collected()
        outputs: list[FinishedOutput] = []
        for part in self._parts.values():
            if self._should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            self._writer.start_part(part.rows)
            for batch in self._rows_of(part):
                self._writer.write(batch)
            written = self._writer.finish()
            outputs += [replace(output, partition=part.values) for output in written[len(outputs) :]]
            part.tables.clear()
        self._close_spill()
        return outputs

    def abandon(self) -> bool:
        self._close_spill()
        return self._writer.abandon()

    def _sort_collected(self) -> None:
        table = pa.Table.from_batches(self._batches, schema=self._schema)
        self._batches, self._bytes = [], 0
        for values, rows in split_by_partition(table, self._columns):
            part = self._parts.setdefault(repr(values), _PartitionRows(values))
            part.rows += rows.num_rows
            if self._spill is None:
                part.tables.append(rows)
            else:
                part.spilled += self._spill.write(rows)

    def _rows_of(self, part: _PartitionRows) -> Iterator[pa.RecordBatch]:
        for table in part.tables:
            yield from table.to_batches()
        for position in part.spilled:
            assert self._spill is not None
            yield self._spill.read(position)

    def _close_spill(self) -> None:
        if self._spill is not None:
            self._spill.close()


def partition_leaves(schema: pa.Schema, partitioning: tuple[TaskPartitionField, ...]) -> list[tuple[Leaf, str]]:
    """Returns the source column and the transform of every partition field. The column may be inside a struct."""
    by_id = {leaf.field_id: leaf for leaf in leaves(schema) if not leaf.repeated}
    missing = [column.source_id for column in partitioning if column.source_id not in by_id]
    if missing:
        raise KernelFailure(
            FailureKind.SCHEMA, f"The partition spec uses field {missing[0]}, which is no column of the table."
        )
    return [(by_id[column.source_id], column.transform) for column in partitioning]


def split_by_partition(table: pa.Table, columns: list[tuple[Leaf, str]]) -> Iterator[tuple[Values, pa.Table]]:
    """Yields the rows of each partition, in order. Partitions come in the order of their first row."""
    if table.num_rows == 0:
        return
    results = [apply_transform(transform, _combined(leaf.of(table))) for leaf, transform in columns]
    codes = np.zeros(table.num_rows, np.int64)
    for result in results:
        encoded = _comparable(result).dictionary_encode(null_encoding="encode")
        combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(combined, return_inverse=True)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    order: npt.NDArray[np.intp] = np.argsort(codes, kind="stable")
    starts = np.cumsum(counts) - counts
    ordered = table if len(first) == 1 else table.take(pa.array(order))
    for number in np.argsort(first):
        example = int(first[number])
        values = tuple(
            _value(result[example].as_py(), leaf.type, transform)
            for result, (leaf, transform) in zip(results, columns, strict=True)
        )
        yield values, ordered.slice(int(starts[number]), int(counts[number]))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _comparable(result: pa.Array) -> pa.Array:
    """Compares floats by their bits: -0.0 and 0.0 are two partitions, all NaNs are one."""
    if not pa.types.is_floating(result.type):
        return result
    bits = pa.int32() if result.type.bit_width == 32 else pa.int64()
    return pc.if_else(pc.is_nan(result), pa.scalar(float("nan"), result.type), result).view(bits)


def _value(value: Any, source: pa.DataType, transform: str) -> Any:
    """Returns the value in its form in a partition tuple."""
    is_uuid = isinstance(source, pa.BaseExtensionType) and transform == "identity"
    return UUID(bytes=value) if is_uuid and value is not None else value
