"""Row lineage of format v3: the id of a row and when it last changed. Both survive when rows move to another file [I8].

The spec's rules: a stored value counts if it is not null. Otherwise the row inherits. Its id is the file's first row
id plus its position in the file, counting deleted rows. Its last update is the file's data sequence number. In a table
that was upgraded to v3 and not committed to since, rows have no ids yet. They stay null until a commit assigns them.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import FIELD_ID
from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID, Leaf, Selection, leaves
from tidyberg.execute.kernel.columns.single_values import encode
from tidyberg.model.task import ColumnFacts, TaskInput

ROW_ID_NAME = "_row_id"
LAST_UPDATED_NAME = "_last_updated_sequence_number"
LINEAGE_FIELDS = (
    pa.field(ROW_ID_NAME, pa.int64(), metadata={FIELD_ID: str(ROW_ID)}),
    pa.field(LAST_UPDATED_NAME, pa.int64(), metadata={FIELD_ID: str(LAST_UPDATED)}),
)


def with_lineage(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with the lineage columns at the end, where Iceberg's own writers put them."""
    return pa.schema([*schema, *LINEAGE_FIELDS], metadata=schema.metadata)


def fill_lineage(batch: pa.RecordBatch, file: TaskInput, first: int) -> pa.RecordBatch:
    """Writes inherited lineage into a batch that begins at row `first` of its file."""
    stored_ids, stored_updates = batch.columns[-2:]
    if stored_ids.null_count and file.first_row_id is not None:
        start = file.first_row_id + first
        inherited = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        stored_ids = pc.coalesce(stored_ids, inherited)
    if stored_updates.null_count:
        stored_updates = pc.fill_null(stored_updates, file.sequence_number)
    return pa.RecordBatch.from_arrays([*batch.columns[:-2], stored_ids, stored_updates], schema=batch.schema)


def fill_joined_lineage(batches: Iterable[pa.RecordBatch], files: Sequence[TaskInput]) -> Iterator[pa.RecordBatch]:
    """Like `fill_lineage`, for batches with all rows of several files in order. Each row inherits from its own file."""
    counts = np.array([file.records for file in files])
    without_ids = np.array([file.first_row_id is None for file in files])
    starts = np.array([file.first_row_id or 0 for file in files]) - (np.cumsum(counts) - counts)
    inherited_ids = pa.array(
        np.repeat(starts, counts) + np.arange(counts.sum()),
        pa.int64(),
        mask=np.repeat(without_ids, counts) if without_ids.any() else None,
    )
    inherited_updates = pa.array(np.repeat([file.sequence_number for file in files], counts), pa.int64())
    first = 0
    for batch in batches:
        inherited = (column.slice(first, batch.num_rows) for column in (inherited_ids, inherited_updates))
        filled = [pc.coalesce(*columns) for columns in zip(batch.columns[-2:], inherited, strict=True)]
        yield pa.RecordBatch.from_arrays([*batch.columns[:-2], *filled], schema=batch.schema)
        first += batch.num_rows


class LineageFacts:
    """Computes what the lineage columns of a task's rows must be, from the inputs' footers and inherited values.

    Inherited bounds cover all rows of a file, because a footer does not say which rows are null.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[ColumnFacts]] = {ROW_ID: [], LAST_UPDATED: []}

    def add(
        self,
        footer: pq.FileMetaData,
        selection: Selection,
        file_leaves: list[Leaf],
        file: TaskInput,
        row_groups: Sequence[int] | None = None,
    ) -> None:
        stored = FactCollector(leaves(pa.schema(LINEAGE_FIELDS)), {}, own=False)
        stored.add(footer, selection, file_leaves, row_groups)
        last = footer.num_rows - 1
        ids = None if file.first_row_id is None else (file.first_row_id, file.first_row_id + last)
        inherited = {ROW_ID: ids, LAST_UPDATED: (file.sequence_number, file.sequence_number)}
        for identifier, facts in stored.facts().items():
            if facts.values:
                self._parts[identifier].append(_with_inherited(facts, inherited[identifier]))

    def facts(self) -> dict[int, ColumnFacts]:
        return {identifier: _together(parts) for identifier, parts in self._parts.items()}


def _with_inherited(stored: ColumnFacts, inherited: tuple[int, int] | None) -> ColumnFacts:
    if stored.nulls == 0 or inherited is None:
        return stored
    lower, upper = (encode(bound, pa.int64()) for bound in inherited)
    if stored.nulls == stored.values:
        return ColumnFacts(stored.values, 0, lower, upper)
    if stored.lower is None or stored.upper is None:
        return ColumnFacts(stored.values, 0, None, None)
    return ColumnFacts(stored.values, 0, min(stored.lower, lower, key=_number), max(stored.upper, upper, key=_number))


def _together(parts: list[ColumnFacts]) -> ColumnFacts:
    nulls = [part.nulls for part in parts]
    bounded = [part for part in parts if part.nulls != part.values]
    lowers = [part.lower for part in bounded]
    uppers = [part.upper for part in bounded]
    return ColumnFacts(
        values=sum(part.values for part in parts),
        nulls=None if None in nulls else sum(count for count in nulls if count is not None),
        lower=None if None in lowers else min(filter(None, lowers), key=_number, default=None),
        upper=None if None in uppers else max(filter(None, uppers), key=_number, default=None),
    )


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
