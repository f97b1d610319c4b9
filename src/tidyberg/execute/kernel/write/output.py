"""An output as Arrow writes it: options for the table's properties, the file being written, what is told of it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.write.digest import DigestingSink
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, WriteSettings, output_name
from tidyberg.parquet.nan_bounds import ending_without_bounds, with_nans
from tidyberg.storage.file_io import Place, Storage

_FEWEST_AT_ONCE = 1024
_PIECES_PER_PAGE = 4


@dataclass(frozen=True)
class Output:
    """A finished file, as its own footer describes it."""

    path: str
    size: int
    digest: str
    footer: pq.FileMetaData
    nan_counts: dict[int, int]
    partition: tuple[Any, ...] | None = None  # of all its rows, where the writer sorts rows into partitions


class ArrowOutput:
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
            if hidden := with_nans(self.nan_counts):
                self.sink.hold()
                self._writer.close()
                self.sink.release(lambda ending: ending_without_bounds(ending, hidden))
            else:
                self._writer.close()
            size = self.sink.tell()
            self.sink.close()
        return Output(self.place.location, size, self.sink.hexdigest(), self._footer[0], self.nan_counts)

    def abandon(self) -> bool:
        """Whether storage took note of it."""
        self._writer.is_open = False  # else Arrow writes a footer to the closed sink when it is collected
        return abandon_sink(self.sink, self._storage, self.place)


def abandon_sink(sink: DigestingSink, storage: Storage, place: Place) -> bool:
    """Whether storage took note of it."""
    try:
        with storage.guard(place.location, writing=True):
            sink.abandon()
    except KernelFailure:
        return False  # what broke the writing is being told already
    return True


def output_path(task: Task, attempt: int, number: int) -> str:
    if number >= task.max_outputs:
        raise KernelFailure(
            FailureKind.LIMIT,
            f"Group {task.group_id} came to more than {task.max_outputs:,} files; its plan foresaw {task.outputs:,}.",
        )
    name = output_name(task.job_id, task.group_id, attempt, number, task.part)
    return f"{task.output_directory.rstrip('/')}/{name}"


def writer_options(
    settings: WriteSettings, all_leaves: list[Leaf], dictionaries: Mapping[int, bool], rows: pa.Table
) -> dict[str, Any]:
    """Arrow's options for the table's write properties; `rows` are those of the first row group."""
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
        raise KernelFailure(FailureKind.SCHEMA, "Dictionary columns need the dictionary to be on.")
    options = {
        "compression": "NONE" if settings.compression == "uncompressed" else settings.compression.upper(),
        "compression_level": settings.compression_level,
        "use_dictionary": with_dictionary if settings.dictionary and with_dictionary else False,
        "data_page_size": settings.page_bytes,
        "max_rows_per_page": settings.page_rows,
        "dictionary_pagesize_limit": settings.dictionary_bytes,
        "write_batch_size": rows_at_once(settings, rows),
        "write_page_index": True,
        "store_schema": False,
        "store_decimal_as_integer": True,  # spec: int32 up to 9 digits, int64 up to 18
        "bloom_filter_options": bloom_filters or None,
    }
    return {name: value for name, value in options.items() if name not in unsupported_options()}


def rows_at_once(settings: WriteSettings, rows: pa.Table) -> int:
    """How many rows Arrow encodes before it looks whether the page is full.

    Statistics of columns with a dictionary are made anew for each such piece: with Arrow's own 1,024 rows those take
    longer than the column. More are safe where even the widest column has several pieces to a page.
    """
    widest = max((chunk.nbytes / len(chunk) for column in rows.columns for chunk in column.chunks if chunk), default=1)
    return max(_FEWEST_AT_ONCE, min(settings.page_rows, int(settings.page_bytes / _PIECES_PER_PAGE / widest)))


@cache
def unsupported_options() -> frozenset[str]:
    """Options of Arrow's newer writers that this executor's does not know; files are right without them."""
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    return frozenset(("bloom_filter_options", "max_rows_per_page")) - known.keys()
