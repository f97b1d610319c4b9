"""Computes statistics per partition: sizes, deletes, and when and how often it was written."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.table import Pinned

_NEVER, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
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


@dataclass(frozen=True)
class _Written:
    """Says which snapshots wrote to which partitions. An entry stands for one file or for many."""

    partition: Ints
    snapshot: Ints


def partition_statistics(
    inventory: Inventory, *, small_file_threshold: int, hot_window_seconds: float, now_ms: int
) -> tuple[PartitionStatistics, ...]:
    """Returns statistics in the order of the inventory's partitions. A file below the threshold is small."""
    partitions = len(inventory.partitions)
    data = _Rows.of(inventory.data_files)
    rest = {
        name: inventory.counted_files[name].to_numpy().astype(np.int64) for name in inventory.counted_files.column_names
    }

    def over_files(function: np.ufunc, values: Ints, counted: str, start: int) -> Ints:
        found = _reduce(function, data.partition, values, np.full(partitions, start, np.int64))
        return _reduce(function, rest["partition"], rest[counted], found)

    oldest = over_files(np.minimum, data.sequence, "oldest", _MOST)
    deletes = _deletes(inventory.delete_files, oldest)
    written = _Written(
        np.concatenate((data.partition, deletes.partition, rest["partition"])),
        np.concatenate((data.snapshot, deletes.snapshot, rest["snapshot_id"])),
    )
    writes, compactions = _times(written, inventory.pinned, partitions)
    recent = _recent_commits(written, inventory.pinned, partitions, now_ms - int(hot_window_seconds * 1000))
    files = over_files(np.add, np.ones(len(data.size), np.int64), "files", 0)
    small = over_files(np.add, (data.size < small_file_threshold).astype(np.int64), "below_threshold", 0)
    delete_files = np.bincount(deletes.partition, minlength=partitions)
    size = over_files(np.add, data.size, "bytes", 0)
    records = over_files(np.add, data.records, "records", 0)
    deleted = _reduce(np.add, deletes.partition, deletes.records, np.zeros(partitions, np.int64))
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
            last_write_ms=_time(writes[number]),
            last_compaction_ms=_time(compactions[number]),
            recent_commits=int(recent[number]),
        )
        for number in range(partitions)
    )


def _reduce(function: np.ufunc, partition: Ints, values: Ints, result: Ints) -> Ints:
    function.at(result, partition, values)
    return result


def _deletes(files: pa.Table, oldest: Ints) -> _Rows:
    """A delete counts for its own partition. A global one counts for each partition with an older file."""
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


def _times(written: _Written, pinned: Pinned, partitions: int) -> tuple[Ints, Ints]:
    """Last write and last compaction. Files of expired snapshots say nothing about either."""
    snapshots, at = np.unique(written.snapshot, return_inverse=True)
    writes = np.full(len(snapshots), _NEVER, np.int64)
    compactions = writes.copy()
    for number, snapshot_id in enumerate(snapshots.tolist()):
        info = pinned.snapshots.get(snapshot_id)
        if info is not None:
            (compactions if info.is_compaction else writes)[number] = info.timestamp_ms
    return (
        _reduce(np.maximum, written.partition, writes[at], np.full(partitions, _NEVER)),
        _reduce(np.maximum, written.partition, compactions[at], np.full(partitions, _NEVER)),
    )


def _recent_commits(written: _Written, pinned: Pinned, partitions: int, since_ms: int) -> Ints:
    recent = np.array(
        [
            info.snapshot_id
            for info in pinned.snapshots.values()
            if not info.is_compaction and info.timestamp_ms > since_ms
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
