"""The splicing writer: moves the pages of some columns, encodes the others, and rolls outputs by size."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.lineage import LINEAGE_FIELDS, fill_lineage
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.deleted_rows import Positions, without_rows
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.splice.eligibility import MakeReader
from tidyberg.execute.kernel.splice.inputs import SplicedInput
from tidyberg.execute.kernel.write.compression_levels import with_compression_levels
from tidyberg.execute.kernel.write.dictionaries import dictionaries_from_rows
from tidyberg.execute.kernel.write.encoders import ColumnEncoders, EncodedColumns
from tidyberg.execute.kernel.write.floats import FloatFacts, counts_nans
from tidyberg.execute.kernel.write.output import FinishedOutput, output_path, remove_written, writer_options
from tidyberg.execute.kernel.write.paged_output import PagedOutput, in_memory
from tidyberg.execute.kernel.write.sizing import OutputSizing, max_row_group_rows
from tidyberg.execute.kernel.write.source_chunks import SourceChunk, source_chunks
from tidyberg.execute.kernel.write.table_columns import TableColumns, by_field_id, columns, matching_column
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task
from tidyberg.parquet.codecs import CODEC_IDS
from tidyberg.parquet.errors import CannotCopy
from tidyberg.storage.file_io import Storage


class SplicingWriter:
    """Takes open files one after another and writes outputs of equal size."""

    def __init__(
        self,
        task: Task,
        attempt: int,
        storage: Storage,
        target: pa.Schema,
        schema: pa.Schema,
        moved: Collection[int],
        dictionaries: Mapping[int, bool],
        make_reader: MakeReader,
    ) -> None:
        """`schema` is `target`, the table's schema, with dictionary strings. `moved` holds column positions in both."""
        self.outputs: list[FinishedOutput] = []
        self.rows_written = self.bytes_moved = 0
        self.files_moved: list[str] = []  # inputs whose pages were moved
        self._task = task
        self._attempt = attempt
        self._storage = storage
        self._target = target
        self._table = TableColumns(target)
        self._make_reader = make_reader
        self._moved = sorted(moved)
        self._encoded = [position for position in range(len(target)) if position not in moved]
        self._encoded_schema = pa.schema([schema.field(position) for position in self._encoded])
        # Pages of floats are moved too, but NaN must be counted. So floats are read with the columns to encode,
        # in front of the lineage columns.
        floats = [p for p in self._moved if any(map(counts_nans, self._table.leaves_of(p).values()))]
        own = len(self._encoded) - (len(LINEAGE_FIELDS) if task.lineage else 0)
        read = [*self._encoded[:own], *floats, *self._encoded[own:]]
        self._kept = [place for place, position in enumerate(read) if position not in moved]
        self._reader = make_reader(pa.schema([schema.field(position) for position in read])) if read else None
        self._counted = {
            number: replace(leaf, steps=(read.index(position), *leaf.steps[1:]))
            for position in floats
            for number, leaf in self._table.leaves_of(position).items()
            if counts_nans(leaf)
        }
        self._dictionaries = dict(dictionaries)
        self._encoders = ColumnEncoders(task.cores)
        self._options: dict[str, Any] | None = None
        self._sizing = OutputSizing.of(task)
        self._files_taken = self._seen_rows = self._seen_bytes = 0
        self._current: PagedOutput | None = None
        self._start_row_group()

    def add(self, file: OpenFile, deleted: Positions, rows_in_all: int, *, is_movable: bool) -> None:
        """Adds the task's rows of a file, except the deleted ones, and closes the file.

        Files come in the order of the task's inputs. `rows_in_all` is how many rows the task will write. `is_movable`
        says that no delete applies to the file, so its pages may be moved.
        """
        if file.uncompressed_bytes > self._task.write.row_group_bytes:
            raise CannotCopy(f"{file.input.path} is larger than a row group, and a splice does not divide files")
        rows = file.end_row - file.first_row - len(deleted)
        with file.source:
            if rows:
                self._take(file, deleted, is_movable)
        self._sizing.expect(rows_in_all - self.rows_written)
        self._rows += rows
        self._files_taken += 1
        self._seen_rows += file.footer.num_rows
        self._seen_bytes += file.uncompressed_bytes
        if self._rows and (self._is_complete() or self._held >= self._task.memory_bytes):
            self._flush()

    def finish(self) -> list[FinishedOutput]:
        if self._rows:
            self._flush()
        if self._current is not None:
            self._close_output()
        self._encoders.close()
        return self.outputs

    def abandon(self) -> bool:
        """Removes the files of this attempt. Returns True if none is left."""
        self._encoders.close()
        return remove_written(self.outputs, self._current, self._storage)

    def _start_row_group(self) -> None:
        self._rows = self._held = 0
        self._batches: list[pa.RecordBatch] = []
        self._chunks: dict[int, list[SourceChunk]] = {}
        self._floats = {number: FloatFacts() for number in self._counted}

    def _is_complete(self) -> bool:
        """A file is not divided, so a row group ends as near as possible to the wanted number of rows."""
        following = self._task.inputs[self._files_taken : self._files_taken + 1]
        most = max_row_group_rows(self._task.write, self._seen_rows, self._seen_bytes)
        wanted = self._sizing.rows_for_next_group(most)
        return any(self._rows + file.rows_expected / 2 > wanted for file in following)

    def _take(self, file: OpenFile, deleted: Positions, is_movable: bool) -> None:
        # I1: pages contain all rows of the file, deleted ones too.
        found = self._pages_of(SplicedInput(file, self._storage)) if is_movable else {}
        if moved := sum(chunk.size for leaf in found.values() for chunks in leaf for chunk in chunks):
            self.bytes_moved += moved
            self.files_moved.append(file.input.path)
        encoded_again = [position for position in self._moved if position not in found]
        if encoded_again:
            found |= self._encoded_plain(file, encoded_again, deleted)
        wanted = file.end_row - file.first_row - len(deleted)
        for position in self._moved:
            for number, chunks in zip(self._table.columns[position].leaf_numbers, found[position], strict=True):
                rows = sum(chunk.rows for chunk in chunks)
                if rows != wanted:
                    raise CannotCopy(f"a column of {file.input.path} has {rows} rows, but {wanted} were expected")
                self._chunks.setdefault(number, []).extend(chunks)
                self._held += sum(chunk.size for chunk in chunks)
        self._read(file, deleted)

    def _pages_of(self, opened: SplicedInput) -> dict[int, list[list[SourceChunk]]]:
        """Returns the chunks that can be moved, by column."""
        found = {}
        for position in self._moved:
            with suppress(CannotCopy):
                found[position] = opened.chunks(self._table, position, self._task.write)
        return found

    def _encoded_plain(
        self, file: OpenFile, positions: list[int], deleted: Positions
    ) -> dict[int, list[list[SourceChunk]]]:
        """Encodes these columns with Arrow, because the file's own pages cannot be moved."""
        schema = pa.schema([self._target.field(position) for position in positions])
        table = pa.Table.from_batches(self._surviving_batches(file, deleted, self._make_reader(schema)), schema=schema)
        options = writer_options(self._task.write, leaves(schema), {}, table)
        made = in_memory(table, with_compression_levels(options, self._task, table, leaves(schema)))
        made_columns = by_field_id(columns(made.footer.schema))
        return {
            position: source_chunks(
                made,
                matching_column(made_columns, self._table.columns[position]),
                list(self._table.leaves_of(position).values()),
                made.bytes_at,
                self._task.write,
                own=True,
            )
            for position in positions
        }

    def _read(self, file: OpenFile, deleted: Positions) -> None:
        if self._reader is None:
            return
        for left in self._surviving_batches(file, deleted, self._reader, lineage=self._task.lineage):
            for number, leaf in self._counted.items():
                self._floats[number] = self._floats[number].with_values(leaf.of(pa.Table.from_batches([left])))
            kept = left.select(self._kept)
            self._batches.append(kept)
            self._held += kept.nbytes

    def _surviving_batches(
        self, file: OpenFile, deleted: Positions, reader: Reader, *, lineage: bool = False
    ) -> Iterator[pa.RecordBatch]:
        first = file.first_row
        for batch in reader.scan(file, reader.selection(file)):
            yield without_rows(fill_lineage(batch, file.input, first) if lineage else batch, first, deleted)
            first += batch.num_rows

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._batches, schema=self._encoded_schema) if self._encoded else None
        encoded = {} if table is None else self._encode(table)
        if self._current is None:
            self._current = self._open_output()
        size = self._current.write(self._rows, self._chunks, encoded, self._floats)
        self._count_nans(table, self._current.nan_counts)
        self.rows_written += self._rows
        self._sizing.wrote(self._rows, size)
        if self._sizing.is_full():
            self._close_output()
        self._start_row_group()

    def _encode(self, table: pa.Table) -> EncodedColumns:
        """Encodes the columns that are not moved; returns them by leaf number."""
        if table.num_rows != self._rows:
            raise KernelFailure(
                FailureKind.DAMAGED, f"A row group has {table.num_rows} encoded rows, but {self._rows} moved rows."
            )
        if self._options is None:
            self._options = self._decide_options(table)
        # Arrow's writer falls back to plain pages at the second dictionary, so all chunks get one.
        numbers = [self._table.columns[position].leaf_numbers for position in self._encoded]
        return self._encoders.begin(table.unify_dictionaries(), self._options, numbers).result()

    def _decide_options(self, table: pa.Table) -> dict[str, Any]:
        encoded_leaves = leaves(self._encoded_schema)
        undecided = [leaf for leaf in encoded_leaves if leaf.field_id not in self._dictionaries]
        if undecided and self._task.write.dictionary:
            self._dictionaries.update(dictionaries_from_rows(table, undecided))
        options = writer_options(self._task.write, encoded_leaves, self._dictionaries, table)
        return with_compression_levels(options, self._task, table, encoded_leaves)

    def _count_nans(self, table: pa.Table | None, counts: dict[int, int]) -> None:
        found = {self._table.leaves[number].field_id: facts.nans for number, facts in self._floats.items()}
        for leaf in leaves(self._encoded_schema):
            if table is not None and counts_nans(leaf):
                found[leaf.field_id] = pc.sum(pc.is_nan(leaf.of(table))).as_py() or 0
        for identifier, nans in found.items():
            if identifier is not None:
                counts[identifier] = counts.get(identifier, 0) + nans

    def _open_output(self) -> PagedOutput:
        place = self._storage.place(output_path(self._task, self._attempt, self._sizing.files_closed))
        codec = CODEC_IDS[self._task.write.compression]
        return PagedOutput(self._storage, place, self._target, self._table.leaves, codec)

    def _close_output(self) -> None:
        assert self._current is not None
        self.outputs.append(self._current.finish(self._task.iceberg_schema))
        self._current = None
        self._sizing.closed()
