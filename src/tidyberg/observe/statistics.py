"""What each partition looks like: sizes, deletes, and when and how often it was written."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.table import Pinned

_REPLACE = "replace"
_NEVER = np.iinfo(np.int64).min
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Rows:
    """Files of one kind: which partition each counts for, and what it adds to it."""

    partition: Ints
    size: Ints
    records: Ints
    sequence: Ints
    snapshot: Ints

    @classmethod
    def of(cls, files: pa.Table) -> "_Rows":
        names = ("partition", "size", "records", "sequence_number", "snapshot_id")
        return cls(*(files[name].to_numpy().astype(np.int64) for name in names))

    def take(self, rows: Ints, partition: Ints) -> "_Rows":
        return _Rows(partition, self.size[rows], self.records[rows], self.sequence[rows], self.snapshot[rows])


def partition_statistics(
    inventory: Inventory, *, small_file_threshold: int, hot_window_seconds: float, now_ms: int
) -> tuple[PartitionStatistics, ...]:
    """One for each of the inventory's partitions, in their order. A file below the threshold is small."""
    partitions = len(inventory.partitions)
    data = _Rows.of(inventory.data_files)
    oldest = _reduce(np.minimum, data.partition, data.sequence, partitions, np.iinfo(np.int64).max)
    deletes = _deletes(inventory.delete_files, oldest)
    written = _Rows(*(np.concatenate(pair) for pair in zip(_fields(data), _fields(deletes), strict=True)))
    writes, compactions = _times(written, inventory.pinned, partitions)
    recent = _recent_commits(written, inventory.pinned, partitions, now_ms - int(hot_window_seconds * 1000))
    files = np.bincount(data.partition, minlength=partitions)
    small = np.bincount(data.partition[data.size < small_file_threshold], minlength=partitions)
    delete_files = np.bincount(deletes.partition, minlength=partitions)
    size = _reduce(np.add, data.partition, data.size, partitions, 0)
    records = _reduce(np.add, data.partition, data.records, partitions, 0)
    deleted = _reduce(np.add, deletes.partition, deletes.records, partitions, 0)
    smallest = _reduce(np.minimum, data.partition, data.size, partitions, np.iinfo(np.int64).max)
    largest = _reduce(np.maximum, data.partition, data.size, partitions, 0)
    return tuple(
        PartitionStatistics(
            partition=number,
            files=int(files[number]),
            small_files=int(small[number]),
            bytes=int(size[number]),
            records=int(records[number]),
            delete_files=int(delete_files[number]),
            deleted_rows=int(deleted[number]),
            fragment_ratio=int(delete_files[number]) / max(int(files[number]), 1),
            smallest_file=int(smallest[number]) if files[number] else 0,
            largest_file=int(largest[number]),
            last_write_ms=_time(writes[number]),
            last_compaction_ms=_time(compactions[number]),
            recent_commits=int(recent[number]),
        )
        for number in range(partitions)
    )


def _fields(rows: _Rows) -> tuple[Ints, ...]:
    return rows.partition, rows.size, rows.records, rows.sequence, rows.snapshot


def _reduce(function: np.ufunc, partition: Ints, values: Ints, partitions: int, start: int) -> Ints:
    result = np.full(partitions, start, np.int64)
    function.at(result, partition, values)
    return result


def _deletes(files: pa.Table, oldest: Ints) -> _Rows:
    """A delete counts for its own partition; a global one for each that has a file older than it."""
    is_global = pc.equal(files["scope"].cast(pa.string()), "global").to_numpy().astype(bool)
    every = _Rows.of(files)
    own = np.flatnonzero(~is_global)
    pairs = [(own, every.partition[own])]
    for row in np.flatnonzero(is_global):
        # Equality deletes apply to data files of a lower sequence number.
        reached = np.flatnonzero(oldest < every.sequence[row])
        pairs.append((np.full(len(reached), row), reached))
    rows, partition = (np.concatenate(parts).astype(np.int64) for parts in zip(*pairs, strict=True))
    return every.take(rows, partition)


def _times(written: _Rows, pinned: Pinned, partitions: int) -> tuple[Ints, Ints]:
    """Last write and last compaction; files of expired snapshots tell neither."""
    snapshots, at = np.unique(written.snapshot, return_inverse=True)
    writes = np.full(len(snapshots), _NEVER, np.int64)
    compactions = writes.copy()
    for number, snapshot_id in enumerate(snapshots.tolist()):
        info = pinned.snapshots.get(snapshot_id)
        if info is not None:
            (compactions if info.operation == _REPLACE else writes)[number] = info.timestamp_ms
    return (
        _reduce(np.maximum, written.partition, writes[at], partitions, _NEVER),
        _reduce(np.maximum, written.partition, compactions[at], partitions, _NEVER),
    )


def _recent_commits(written: _Rows, pinned: Pinned, partitions: int, since_ms: int) -> Ints:
    recent = np.array(
        [
            info.snapshot_id
            for info in pinned.snapshots.values()
            if info.operation != _REPLACE and info.timestamp_ms > since_ms
        ],
        np.int64,
    )
    rows = np.isin(written.snapshot, recent)
    snapshots, at = np.unique(written.snapshot[rows], return_inverse=True)
    commits = max(len(snapshots), 1)
    pairs = np.unique(written.partition[rows] * commits + at)
    return np.bincount(pairs // commits, minlength=partitions)


def _time(milliseconds: np.int64) -> int | None:
    return None if milliseconds == _NEVER else int(milliseconds)
