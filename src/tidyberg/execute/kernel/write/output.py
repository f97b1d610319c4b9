"""Writes an output with Arrow: options from the table's properties, the open file, and the finished one."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.write.digest import DigestingSink
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, WriteSettings, output_name
from tidyberg.parquet.codecs import writer_option
from tidyberg.parquet.nan_bounds import ending_without_bounds, with_nans
from tidyberg.storage.file_io import Place, Storage, remove_outputs

_MIN_BATCH_ROWS = 1024
_BATCHES_PER_PAGE = 4


@dataclass(frozen=True)
class FinishedOutput:
    """A finished file with its footer."""

    path: str
    size: int
    digest: str
    footer: pq.FileMetaData
    nan_counts: dict[int, int]
    partition: tuple[Any, ...] | None = None  # set if the writer divides rows by partition


class ArrowOutput:
    """A file that Arrow is writing."""

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
        """Writes one row group. Returns the size of the file so far."""
        with self._storage.guard(self.place.location, writing=True):
            self._writer.write_table(table, row_group_size=table.num_rows)
            return self.sink.tell()

    def finish(self, iceberg_schema: str) -> FinishedOutput:
        with self._storage.guard(self.place.location, writing=True):
            self._writer.add_key_value_metadata({"iceberg.schema": iceberg_schema})
            hidden = with_nans(self.nan_counts)
            self.sink.hold()
            self._writer.close()
            changes = hidden or _may_have_partial_bounds(self._footer[0])
            self.sink.release(lambda ending: ending_without_bounds(ending, hidden) if changes else ending)
            size = self.sink.tell()
            self.sink.close()
        return FinishedOutput(self.place.location, size, self.sink.hexdigest(), self._footer[0], self.nan_counts)

    def abandon(self) -> bool:
        """Gives the file up. Returns True if storage accepted that."""
        self._writer.is_open = False  # otherwise Arrow writes a footer to the closed sink at garbage collection
        return abandon_sink(self.sink, self._storage, self.place)


class OpenOutput(Protocol):
    """A file that is being written, by any writer."""

    place: Place

    def abandon(self) -> bool: ...


def remove_written(finished: Iterable[FinishedOutput], current: OpenOutput | None, storage: Storage) -> bool:
    """Removes the finished outputs and the open one of an attempt. Returns True if none is left."""
    places = [storage.place(output.path) for output in finished]
    is_closed = current is None or current.abandon()
    if current is not None:
        places.append(current.place)
    return remove_outputs(places, storage) and is_closed


def _may_have_partial_bounds(footer: pq.FileMetaData) -> bool:
    """Whether row groups have different kinds of statistics of a column. Reading the footer again takes longer."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return any(len({_kinds(group.column(leaf)) for group in groups}) > 1 for leaf in range(footer.num_columns))


def _kinds(chunk: pq.ColumnChunkMetaData) -> tuple[bool, ...]:
    found = chunk.statistics
    return () if found is None else (found.has_min_max, found.has_null_count, found.has_distinct_count)


def abandon_sink(sink: DigestingSink, storage: Storage, place: Place) -> bool:
    """Gives an output stream up. Returns True if storage accepted that."""
    try:
        with storage.guard(place.location, writing=True):
            sink.abandon()
    except KernelFailure:
        return False  # the caller already raises the original failure
    return True


def output_path(task: Task, attempt: int, number: int) -> str:
    if number >= task.max_outputs:
        raise KernelFailure(
            FailureKind.LIMIT,
            f"Group {task.group_id} needs more than {task.max_outputs:,} files; the plan expected {task.outputs:,}.",
        )
    name = output_name(task.job_id, task.group_id, attempt, number, task.part)
    return f"{task.output_directory.rstrip('/')}/{name}"


def writer_options(
    settings: WriteSettings, all_leaves: list[Leaf], dictionaries: Mapping[int, bool], rows: pa.Table
) -> dict[str, Any]:
    """Returns Arrow's options for the table's write properties. `rows` is the first row group."""
    with_dictionary = [
        leaf.path
        for leaf in all_leaves
        if leaf.field_id is not None and (dictionaries.get(leaf.field_id) or pa.types.is_dictionary(leaf.type))
    ]
    probability = dict(settings.bloom_filter_columns)
    bloom_filters = {
        leaf.path: {"ndv": max(1, rows.num_rows), "fpp": probability[leaf.field_id]}
        for leaf in all_leaves
        if leaf.field_id in probability and not pa.types.is_boolean(leaf.type)
    }
    if not settings.dictionary and any(pa.types.is_dictionary(leaf.type) for leaf in all_leaves):
        raise KernelFailure(
            FailureKind.SCHEMA, "A dictionary column cannot be written: the task has dictionaries turned off."
        )
    options = {
        "compression": writer_option(settings.compression),
        "compression_level": settings.compression_level,
        "use_dictionary": with_dictionary if settings.dictionary and with_dictionary else False,
        "data_page_size": settings.page_bytes,
        "max_rows_per_page": settings.page_rows,
        "dictionary_pagesize_limit": settings.dictionary_bytes,
        "write_batch_size": write_batch_rows(settings, rows),
        "write_page_index": True,
        "store_schema": False,
        "store_decimal_as_integer": True,  # spec: int32 up to 9 digits, int64 up to 18
        "bloom_filter_options": bloom_filters or None,
    }
    return {name: value for name, value in options.items() if name not in unsupported_options()}


def write_batch_rows(settings: WriteSettings, rows: pa.Table) -> int:
    """Returns how many rows Arrow encodes before it checks whether the page is full.

    Arrow computes the statistics of a dictionary column for each such batch. With its default of 1,024 rows that takes
    longer than encoding. Larger batches are safe if even the widest column has several batches per page.
    """
    widest = max((chunk.nbytes / len(chunk) for column in rows.columns for chunk in column.chunks if chunk), default=1)
    return max(_MIN_BATCH_ROWS, min(settings.page_rows, int(settings.page_bytes / _BATCHES_PER_PAGE / widest)))


@cache
def unsupported_options() -> frozenset[str]:
    """Returns options that the executor's version of Arrow lacks. Files are correct without them."""
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    return frozenset(("bloom_filter_options", "max_rows_per_page")) - known.keys()
