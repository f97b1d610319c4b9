"""The rolling Parquet writer: whole row groups, outputs cut by bytes on disk, metrics on the way."""

import inspect
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.kernel.dictionaries import judge_rows
from tidyberg.execute.kernel.digest import DigestingSink
from tidyberg.execute.kernel.failures import FailureKind, KernelFailure
from tidyberg.execute.kernel.levels import remembered_levels
from tidyberg.execute.kernel.project import Leaf, leaves
from tidyberg.execute.kernel.sizing import OutputSizing, most_group_rows
from tidyberg.execute.kernel.storage import Place, Storage, remove_outputs
from tidyberg.model.task import Task, WriteSettings, output_name


@dataclass(frozen=True)
class Output:
    """A finished file, as its own footer describes it."""

    path: str
    size: int
    digest: str
    footer: pq.FileMetaData
    nan_counts: dict[int, int]
    partition: tuple[Any, ...] | None = None  # of all its rows, where the writer sorts rows into partitions


class _OpenOutput:
    """The file being written."""

    def __init__(self, storage: Storage, place: Place, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self.place = place
        self.nan_counts: dict[int, int] = {}
        self._storage = storage
        self._footer: list[pq.FileMetaData] = []
        self.sink = DigestingSink(storage.open_output(place))
        try:
            with storage.guard(place.location, writing=True):
                self._writer = pq.ParquetWriter(self.sink, schema, metadata_collector=self._footer, **options)
        except BaseException:
            self.sink.abandon()
            storage.delete(place)
            raise

    def write(self, table: pa.Table) -> int:
        """One row group; returns the bytes that the file has on storage now."""
        with self._storage.guard(self.place.location, writing=True):
            self._writer.write_table(table, row_group_size=table.num_rows)
            return self.sink.tell()

    def finish(self, iceberg_schema: str) -> Output:
        with self._storage.guard(self.place.location, writing=True):
            self._writer.add_key_value_metadata({"iceberg.schema": iceberg_schema})
            self._writer.close()
            size = self.sink.tell()
            self.sink.close()
        return Output(self.place.location, size, self.sink.hexdigest(), self._footer[0], self.nan_counts)

    def abandon(self) -> None:
        self._writer.is_open = False  # else Arrow writes a footer to the closed sink when it is collected
        try:
            with self._storage.guard(self.place.location, writing=True):
                self.sink.abandon()
        except KernelFailure:
            return  # what broke the writing is being told already


class RollingWriter:
    """Takes batches in the writer's schema and turns them into outputs of equal size."""

    def __init__(
        self, task: Task, attempt: int, storage: Storage, schema: pa.Schema, dictionaries: Mapping[int, bool]
    ) -> None:
        self.outputs: list[Output] = []
        self.rows_written = 0
        self._task = task
        self._attempt = attempt
        self._storage = storage
        self._schema = schema
        self._leaves = leaves(schema)
        self._float_leaves = [leaf for leaf in self._leaves if pa.types.is_floating(leaf.type) and not leaf.repeated]
        self._has_dictionaries = any(pa.types.is_dictionary(column.type) for column in schema)
        self._dictionaries = dict(dictionaries)
        self._options: dict[str, Any] | None = None
        self._sizing = OutputSizing.of(task)
        self._first_number = 0  # of the outputs that the sizing counts
        self._seen_rows = self._seen_bytes = 0
        self._batches: deque[pa.RecordBatch] = deque()
        self._collected_rows = self._collected_bytes = 0
        self._wanted_rows = 0
        self._current: _OpenOutput | None = None

    def announce(self, rows: int, uncompressed_bytes: int, rows_in_all: int) -> None:
        """Tell how large a file about to be read is, uncompressed, and how many rows the task will write in all."""
        self._seen_rows += rows
        self._seen_bytes += uncompressed_bytes
        if self._sizing.expect(rows_in_all - self.rows_written) or not self._wanted_rows:
            self._wanted_rows = self._sizing.rows_for_next_group(self._rows_per_group())

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._collected_rows += batch.num_rows
        self._collected_bytes += batch.nbytes
        while self._collected_rows >= self._wanted_rows:
            self._flush(self._wanted_rows)
        if self._collected_bytes >= self._task.memory_bytes:
            self._flush(self._collected_rows)

    def start_part(self, rows: int) -> None:
        """The next `rows` rows go to outputs of their own."""
        self.finish()
        self._first_number += self._sizing.files_closed
        self._sizing = self._sizing.for_part(rows)
        self._wanted_rows = self._sizing.rows_for_next_group(self._rows_per_group())

    def finish(self) -> list[Output]:
        if self._collected_rows:
            self._flush(self._collected_rows)
        if self._current is not None:
            self._close_output()
        return self.outputs

    def abandon(self) -> None:
        """Remove what was written; names are this attempt's own, so nobody else can miss them."""
        places = [self._storage.place(output.path) for output in self.outputs]
        if self._current is not None:
            self._current.abandon()
            places.append(self._current.place)
        remove_outputs(places, self._storage)

    def _rows_per_group(self) -> int:
        return most_group_rows(self._task.write, self._seen_rows, self._seen_bytes)

    def _flush(self, rows: int) -> None:
        table = self._take(rows)
        if self._current is None:
            self._current = self._open_output(table)
        size = self._current.write(table)
        self._count_nans(table, self._current.nan_counts)
        self.rows_written += rows
        self._sizing.wrote(rows, size)
        if self._sizing.is_full():
            self._close_output()
        self._wanted_rows = self._sizing.rows_for_next_group(self._rows_per_group())

    def _take(self, rows: int) -> pa.Table:
        taken = []
        missing = rows
        while missing:
            batch = self._batches.popleft()
            if batch.num_rows > missing:
                self._batches.appendleft(batch.slice(missing))
                batch = batch.slice(0, missing)
            taken.append(batch)
            missing -= batch.num_rows
        self._collected_rows -= rows
        self._collected_bytes = sum(batch.nbytes for batch in self._batches)
        table = pa.Table.from_batches(taken, schema=self._schema)
        # Without one dictionary for all chunks Arrow's writer would fall back to plain pages at the second.
        return table.unify_dictionaries() if self._has_dictionaries else table

    def _open_output(self, table: pa.Table) -> _OpenOutput:
        if self._options is None:
            undecided = [leaf for leaf in self._leaves if leaf.field_id not in self._dictionaries]
            if undecided and self._task.write.dictionary:
                self._dictionaries.update(judge_rows(table, undecided))
            options = writer_options(self._task.write, self._leaves, self._dictionaries, table.num_rows)
            rows = sum(file.rows_expected for file in self._task.inputs)
            part = (self._task.job_id, self._task.output_directory)
            levels = remembered_levels(part, table, self._leaves, options, rows)
            self._options = {**options, "compression_level": levels}
        number = self._first_number + self._sizing.files_closed
        name = output_name(self._task.job_id, self._task.group_id, self._attempt, number, self._task.part)
        place = self._storage.place(f"{self._task.output_directory.rstrip('/')}/{name}")
        return _OpenOutput(self._storage, place, self._schema, self._options)

    def _close_output(self) -> None:
        assert self._current is not None
        self.outputs.append(self._current.finish(self._task.iceberg_schema))
        self._current = None
        self._sizing.closed()

    def _count_nans(self, table: pa.Table, counts: dict[int, int]) -> None:
        for leaf in self._float_leaves:
            if leaf.field_id is not None:
                nans = pc.sum(pc.is_nan(leaf.of(table))).as_py() or 0
                counts[leaf.field_id] = counts.get(leaf.field_id, 0) + nans


def writer_options(
    settings: WriteSettings, all_leaves: list[Leaf], dictionaries: Mapping[int, bool], group_rows: int
) -> dict[str, Any]:
    """Arrow's options for the table's write properties."""
    with_dictionary = [
        leaf.path
        for leaf in all_leaves
        if leaf.field_id is not None and (dictionaries.get(leaf.field_id) or pa.types.is_dictionary(leaf.type))
    ]
    probability = dict(settings.bloom_filter_columns)
    bloom_filters = {
        leaf.path: {"ndv": group_rows, "fpp": probability[leaf.field_id]}
        for leaf in all_leaves
        if leaf.field_id in probability and not pa.types.is_boolean(leaf.type)
    }
    if not settings.dictionary and any(pa.types.is_dictionary(leaf.type) for leaf in all_leaves):
        raise KernelFailure(FailureKind.SCHEMA, "Dictionary columns need the dictionary to be on.")
    options = {
        "compression": "NONE" if settings.compression == "uncompressed" else settings.compression.upper(),
        "compression_level": settings.compression_level,
        "use_dictionary": with_dictionary if settings.dictionary and with_dictionary else False,
        "data_page_size": settings.page_bytes,
        "max_rows_per_page": settings.page_rows,
        "dictionary_pagesize_limit": settings.dictionary_bytes,
        "write_page_index": True,
        "store_schema": False,
        "store_decimal_as_integer": True,  # spec: int32 up to 9 digits, int64 up to 18
        "bloom_filter_options": bloom_filters or None,
    }
    return {name: value for name, value in options.items() if name not in unsupported_options()}


@cache
def unsupported_options() -> frozenset[str]:
    """Options of Arrow's newer writers that this executor's does not know; files are right without them."""
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    return frozenset(("bloom_filter_options", "max_rows_per_page")) - known.keys()
