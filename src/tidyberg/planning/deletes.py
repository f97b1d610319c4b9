"""Finds the delete files that apply to each data file, for all files at once and for one group.

Scope and sequence follow the specification. A position delete or DV applies if data.seq <= delete.seq, to the file that
it references or to its partition. An equality delete applies if data.seq < delete.seq, to its partition, or to all
partitions if its spec is unpartitioned.

There is one more rule for position deletes that reference no single file. Such a delete file cannot list a data file
that was added to the table later. File sequence numbers decide this: they say when an entry was first committed. The
outputs of a compaction carry the data sequence number of the snapshot that it started from. By the specification's
rule alone, a delete file that stays for the sake of other files would apply to them, and they would be rewritten again
and again [I10]. The rule compares the file sequence number of the delete file and not its data sequence number: a
rewritten delete file keeps the latter, and may list files that were added in between.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_NONE: Ints = np.array([], dtype=np.int64)
_ORDER = [("path", "ascending"), ("content_offset", "ascending"), ("content_size", "ascending")]


class DeleteIndex:
    """The delete files in the order of path and offset [I11], and the `files` that they apply to.

    `files` must be sorted by partition and, within a partition, by sequence number.
    """

    def __init__(self, files: pa.Table, delete_files: pa.Table) -> None:
        keys = delete_files.select([name for name, _ in _ORDER])
        self.rows = delete_files.take(pc.sort_indices(keys, sort_keys=_ORDER))
        self.sizes: Ints = self.rows.column("size").to_numpy()
        self._files = _SequenceNumbers(files)
        self._deletes = _SequenceNumbers(self.rows)
        self._records = files.column("records").to_numpy()
        self._delete_records = self.rows.column("records").to_numpy()
        kind = self.rows.column("kind").cast(pa.string())
        is_equality = _mask(pc.equal(kind, "equality"))
        is_global = is_equality & _mask(pc.equal(self.rows.column("scope").cast(pa.string()), "global"))
        referenced = self.rows.column("referenced_data_file")
        self._is_vector = _mask(pc.equal(kind, "dv"))
        self.names_file: Mask = ~is_equality & _mask(pc.is_valid(referenced))
        self._keyed = np.flatnonzero(is_equality)
        self._everywhere = self._ordered(is_global)
        self._equality = self._ordered(is_equality & ~is_global)
        self._equality_partition = self._deletes.partition[self._equality]
        self._positions = self._ordered(~is_equality & ~self.names_file)
        self._positions_partition = self._deletes.partition[self._positions]
        self._named_files, self._naming_deletes = self._pairs(files.column("path"), referenced)

    def unreadable(self) -> Mask:
        """Returns the delete files that cannot be read: DVs that are not Puffin, and others that are not Parquet."""
        readable = np.where(self._is_vector, "PUFFIN", "PARQUET")
        formats = np.array(self.rows.column("format").cast(pa.string()).to_pylist(), dtype=np.str_)
        unreadable: Mask = formats != readable
        return unreadable

    def keyed_by(self, columns: Collection[int]) -> Mask:
        """Returns the equality delete files that compare one of these columns."""
        ids = self.rows.column("equality_ids")
        if not columns or ids.null_count == len(ids):
            return np.zeros(len(ids), dtype=np.bool_)
        return np.array([not set(each or ()).isdisjoint(columns) for each in ids.to_pylist()], dtype=np.bool_)

    def keyed_by_others_than(self, columns: Collection[int]) -> Mask:
        """Returns the equality delete files that compare some other column, or do not say which."""
        found = np.zeros(self.rows.num_rows, dtype=np.bool_)
        ids = self.rows.column("equality_ids").take(pa.array(self._keyed)).to_pylist()
        found[self._keyed] = [not each or not set(each) <= set(columns) for each in ids]
        return found

    def touched(self, among: Mask | None = None) -> Mask:
        """Returns the data files that some delete file applies to. `among` restricts the delete files."""
        among = np.ones(self.rows.num_rows, dtype=np.bool_) if among is None else among
        touched = np.zeros(len(self._records), dtype=np.bool_)
        if not among.any():
            return touched
        touched[self._named_files[among[self._naming_deletes]]] = True
        files, deletes = self._files, self._deletes
        everywhere = self._everywhere[among[self._everywhere]]
        touched |= files.sequence < deletes.sequence[everywhere].max(initial=-1)
        equality = self._equality[among[self._equality]]
        latest = np.full(1 + max(files.partition.max(initial=0), deletes.partition.max()), -1, dtype=np.int64)
        np.maximum.at(latest, deletes.partition[equality], deletes.sequence[equality])
        touched |= files.sequence < latest[files.partition]
        return touched | self._touched_by_positions(self._positions[among[self._positions]])

    def rows_known_deleted(self) -> Ints:
        """Returns for each data file the rows removed by deletes that reference it. A DV replaces all other deletes."""
        files, deletes = self._named_files, self._naming_deletes
        by_vector = self._is_vector[deletes]
        known: Ints = np.zeros(len(self._records), dtype=np.int64)
        np.add.at(known, files[~by_vector], self._delete_records[deletes[~by_vector]])
        known[files[by_vector]] = self._delete_records[deletes[by_vector]]
        np.minimum(known, self._records, out=known)
        return known

    def named_pairs(self) -> tuple[Ints, Ints]:
        """Returns pairs of a data file and a delete file that references it and applies to it."""
        return self._named_files, self._naming_deletes

    def touched_by_unknown_rows(self) -> Mask:
        """Returns the data files with deletes that may remove any number of rows, as far as the inventory knows."""
        return self.touched(~self.names_file)

    def of_group(self, members: Ints) -> Ints:
        """Returns the delete files that apply to some of these files of one partition, in ascending order."""
        if self.rows.num_rows == 0:
            return _NONE
        partition = self._files.partition[members[0]]
        sequence = self._files.sequence[members]
        oldest = sequence[0]
        everywhere = self._everywhere
        equality = self._equality[slice(*np.searchsorted(self._equality_partition, (partition, partition + 1)))]
        positions = self._positions[slice(*np.searchsorted(self._positions_partition, (partition, partition + 1)))]
        # Among the files that are not too new for a delete, the one that was added first decides.
        longest = np.minimum.accumulate(self._files.file_sequence[members])
        reached = np.searchsorted(sequence, self._deletes.sequence[positions], side="right")
        applies = (reached > 0) & (longest[reached - 1] <= self._deletes.file_sequence[positions])
        first = np.searchsorted(self._named_files, members, side="left")
        naming = np.searchsorted(self._named_files, members, side="right") - first
        before = np.cumsum(naming) - naming
        named = np.repeat(first - before, naming) + np.arange(naming.sum())
        return np.sort(  # a delete is of one kind and references at most one file, so none occurs twice
            np.concatenate(
                [
                    everywhere[oldest < self._deletes.sequence[everywhere]],
                    equality[oldest < self._deletes.sequence[equality]],
                    positions[applies],
                    self._naming_deletes[named],
                ]
            )
        )

    def _ordered(self, chosen: Mask) -> Ints:
        rows = np.flatnonzero(chosen)
        return rows[np.lexsort((self._deletes.sequence[rows], self._deletes.partition[rows]))]

    def _pairs(self, paths: pa.ChunkedArray, referenced: pa.ChunkedArray) -> tuple[Ints, Ints]:
        """Returns data files and the deletes that reference them, sorted by data file."""
        rows = np.flatnonzero(self.names_file)
        found = pc.index_in(referenced.take(pa.array(rows)), value_set=paths.combine_chunks())
        files = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        files, rows = files[files >= 0], rows[files >= 0]
        applies = self._files.sequence[files] <= self._deletes.sequence[rows]
        files, rows = files[applies], rows[applies]
        order = np.lexsort((rows, files))
        return files[order], rows[order]

    def _touched_by_positions(self, rows: Ints) -> Mask:
        """Returns the files whose partition has a delete with both sequence numbers at least as high as theirs."""
        files, deletes = self._files, self._deletes
        if len(rows) == 0:
            return np.zeros(len(files.partition), dtype=np.bool_)
        partition = deletes.partition[rows]
        numbers = np.unique(deletes.sequence[rows])
        key = partition * (len(numbers) + 1) + np.searchsorted(numbers, deletes.sequence[rows])
        wanted = files.partition * (len(numbers) + 1) + np.searchsorted(numbers, files.sequence)
        at = np.searchsorted(key, wanted)
        # The highest file sequence number from each delete to the end of its partition. Read backwards, the keys of
        # each partition start above those of the partition before, so one running maximum works for all of them.
        added, rank = np.unique(deletes.file_sequence[rows], return_inverse=True)
        base = (partition[-1] - partition) * len(added)
        highest = added[np.maximum.accumulate((base + rank)[::-1])[::-1] - base]
        inside = np.minimum(at, len(rows) - 1)
        found = (at < len(rows)) & (partition[inside] == files.partition)
        touched: Mask = found & (files.file_sequence <= highest[inside])
        return touched


class _SequenceNumbers:
    """The partition and the sequence numbers of each file."""

    def __init__(self, files: pa.Table) -> None:
        self.partition: Ints = files.column("partition").to_numpy().astype(np.int64)
        self.sequence: Ints = files.column("sequence_number").to_numpy()
        self.file_sequence: Ints = files.column("file_sequence_number").to_numpy()


def _mask(values: pa.ChunkedArray) -> Mask:
    mask: Mask = values.to_numpy().astype(np.bool_)
    return mask
