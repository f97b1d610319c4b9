"""Reads a sample of rows: a few row groups of the chosen files, and only the columns that filters name.

Deleted rows are read too. They are few, and where they are does not change which layout is best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.columns.project import Selection
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.read.row_ranges import row_group_starts
from tidyberg.execute.tasks.equality_schemas import schemas_newest_first
from tidyberg.execute.tasks.evolution import absent_values, name_mapping
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.failures import KernelFailure
from tidyberg.model.inventory import Inventory
from tidyberg.model.task import TaskInput
from tidyberg.model.workload import SampleFacts
from tidyberg.planning.workload.recommend import RowSample
from tidyberg.planning.workload.sampling import SAMPLE_BYTES, FileShare
from tidyberg.storage.access import storage_access
from tidyberg.storage.file_io import Storage

_ROW_GROUPS = 4  # of one file
_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class SampleReader:
    io: FileIO
    inventory: Inventory
    columns: Sequence[str]
    should_stop: Callable[[], bool] = lambda: False
    most_bytes: int = SAMPLE_BYTES

    def read(self, shares: Sequence[FileShare]) -> RowSample:
        """Reads until the bytes are spent. The first file is read whatever it takes."""
        storage = Storage(storage_access(self.io))
        tables: list[pa.Table] = []
        origins: list[np.ndarray] = []
        spent = 0
        files = self.inventory.data_files
        for share in shares:
            row = files.slice(share.file, 1).to_pylist()[0]
            if row["format"] != "PARQUET" or row["encrypted"] or (spent >= self.most_bytes and tables):
                continue
            try:
                taken, cost = self._of_file(storage, row, share.rows)
            except KernelFailure as failure:
                raise error_of(failure) from failure
            spent += cost
            tables.append(taken)
            origins.append(np.full(taken.num_rows, share.file, np.int64))
        rows = pa.concat_tables(tables) if tables else self._empty()
        numbers = np.concatenate(origins) if origins else np.zeros(0, np.int64)
        partitions = files["partition"].to_numpy()
        facts = SampleFacts(rows.num_rows, spent, len(np.unique(partitions[numbers])), len(np.unique(partitions)))
        return RowSample(rows, numbers, facts)

    def _of_file(self, storage: Storage, row: dict[str, object], wanted: int) -> tuple[pa.Table, int]:
        task_input = TaskInput(str(row["path"]), int(str(row["size"])), int(str(row["records"])))
        source = storage.open_input(storage.place(task_input.path), task_input.size)
        with source:
            with storage.guard(task_input.path):
                footer = pq.read_metadata(source)
            file = OpenFile(task_input, source, footer, None)
            reader = self._reader(storage, int(str(row["partition"])))
            selection = reader.selection(file)
            chosen = _spread(footer)
            each = max(1, wanted // max(1, len(chosen)))
            starts = [*row_group_starts(footer), footer.num_rows]
            pieces = []
            for number in chosen:
                part = replace(file, rows_taken=(starts[number], starts[number + 1]))
                table = pa.Table.from_batches(list(reader.scan(part, selection)), self._schema())
                step = max(1, table.num_rows // each)
                pieces.append(table.take(pa.array(np.arange(step // 2, table.num_rows, step)[:each])))
        return self._named(pa.concat_tables(pieces)), _cost(footer, selection, chosen)

    def _schema(self) -> pa.Schema:
        return arrow_schema(self.inventory.pinned.schema.select(*self.columns))

    def _reader(self, storage: Storage, partition: int) -> Reader:
        pinned, one = self.inventory.pinned, self.inventory.partitions[partition]
        return Reader(
            storage,
            self._schema(),
            batch_rows=_BATCH_ROWS,
            constants=absent_values(pinned.specs[one.spec_id], one, schemas_newest_first(pinned)),
            name_mapping=name_mapping(pinned.properties),
            should_stop=self.should_stop,
        )

    def _named(self, table: pa.Table) -> pa.Table:
        """Returns the columns by their full names. Fields of structs become columns."""
        return pa.table({name: _leaf(table, name) for name in self.columns})

    def _empty(self) -> pa.Table:
        return self._named(pa.Table.from_batches([], self._schema()))  # `empty_table` cannot make a uuid in a struct


def _leaf(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A name of a column may contain dots itself, so the longest name that the schema has is taken first."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (head := ".".join(parts[:length])) in table.column_names:
            column, rest = table[head], parts[length:]
            return pc.struct_field(column, rest) if rest else column
    raise AssertionError(f"column {name} was selected")


def _spread(footer: pq.FileMetaData) -> list[int]:
    """Returns row groups at even distances: rows of one file may be in the order of their arrival."""
    filled = [number for number in range(footer.num_row_groups) if footer.row_group(number).num_rows]
    count = min(_ROW_GROUPS, len(filled))
    return [filled[int((number + 0.5) * len(filled) / count)] for number in range(count)]


def _cost(footer: pq.FileMetaData, selection: Selection, chosen: Sequence[int]) -> int:
    return sum(
        footer.row_group(group).column(one).total_compressed_size for group in chosen for one in selection.columns
    )
