"""Decides whether a task is worth splicing, and which columns of it are moved, from its first files."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidyberg.execute.kernel.columns.lineage import LINEAGE_FIELDS
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.read.reader import FETCHED_WHOLE, OpenFile, Reader
from tidyberg.execute.kernel.splice.inputs import SplicedInput, is_whole
from tidyberg.execute.kernel.write.chunk_parts import CODECS, FEWEST_VALUES
from tidyberg.execute.kernel.write.dictionaries import TELLING_ROWS, judge_rows
from tidyberg.execute.kernel.write.table_columns import TableColumns
from tidyberg.model.task import Task, TaskInput
from tidyberg.parquet.errors import CannotCopy
from tidyberg.storage.file_io import Storage

_WORTHWHILE_SHARE = 0.3  # of the bytes: below, what is saved does not pay for row groups that are less even
_MOST_LOSING = 0.5  # of the rows, in files that lose some to deletes: these files are written anew, with small pages
_SMALL_SHARE = 8  # at most one file in so many may have but a small page of each column
_FILES_PER_OUTPUT = 8  # at least, or outputs come out too unequal: a file is not divided
_MOST_GROUP_ROWS = 32 * 1024 * 1024  # Arrow makes two row groups of twice as many
NOTHING: frozenset[int] = frozenset()

MakeReader = Callable[[pa.Schema], Reader]


def may_splice(task: Task, storage: Storage) -> bool:
    """What can be told without looking at any file."""
    settings = task.write
    if not task.splices or task.partitioning is not None or not task.inputs:
        return False
    # Full verification sums up the rows on their way, and bloom filters need the values.
    if task.checksum or settings.bloom_filter_columns:
        return False
    if settings.compression not in CODECS or settings.row_group_rows > _MOST_GROUP_ROWS:
        return False
    # Over fewer rows writers have not had the chance to see what a dictionary is worth, and their pages are small.
    if sum(file.records for file in task.inputs) < TELLING_ROWS * len(task.inputs):
        return False
    if _SMALL_SHARE * sum(file.records < FEWEST_VALUES for file in task.inputs) > len(task.inputs):
        return False
    largest = max(file.size for file in task.inputs)
    if largest > settings.row_group_bytes // 2 or max(file.records for file in task.inputs) > settings.row_group_rows:
        return False
    if task.outputs > 1 and largest * _FILES_PER_OUTPUT > task.target_bytes:
        return False
    # Columns of a larger file would be asked for one by one.
    return all(file.size <= FETCHED_WHOLE or storage.place(file.path).is_local for file in task.inputs)


def columns_to_move(
    task: Task,
    storage: Storage,
    target: pa.Schema,
    dictionaries: dict[int, bool],
    files: Sequence[OpenFile],
    make_reader: MakeReader,
    may_lose_rows: Callable[[TaskInput], bool],
) -> frozenset[int]:
    """Columns whose pages can be moved and that are not worth a dictionary; none where that would not pay."""
    in_all = sum(file.rows_expected for file in task.inputs)
    if sum(file.rows_expected for file in task.inputs if may_lose_rows(file)) > _MOST_LOSING * in_all:
        return NOTHING
    table = TableColumns(target)
    # Of files that several tasks share, each takes some rows, not pages.
    inputs = [SplicedInput(file, storage) for file in files if file.footer.num_rows and is_whole(file)]
    if not inputs or any(file.uncompressed_bytes > task.write.row_group_bytes for file in files):
        return NOTHING
    # Where lineage is null it stands for what a row inherits from its file: it is always written anew [I8].
    own = len(target) - (len(LINEAGE_FIELDS) if task.lineage else 0)
    bytes_of = {position: _bytes_to_move(task, table, position, inputs) for position in range(own)}
    candidates = [position for position, size in bytes_of.items() if size]
    if not candidates:
        return NOTHING
    worth_it = dict(dictionaries)
    if task.write.dictionary:
        # Footers tell little of few rows, and nothing where a writer did not try: the rows know better.
        worth_it |= _worth_a_dictionary(target, candidates, inputs[0].file, make_reader)
    chosen = [
        position
        for position in candidates
        if not any(worth_it.get(leaf.field_id or 0) for leaf in table.leaves_of(position).values())
    ]
    stored = sum(opened.file.input.size for opened in inputs)
    pays = sum(bytes_of[position] for position in chosen) >= _WORTHWHILE_SHARE * stored
    return frozenset(chosen) if pays else NOTHING


def _bytes_to_move(task: Task, table: TableColumns, position: int, inputs: Sequence[SplicedInput]) -> int:
    """Of one column in these files; zero where one of them does not allow it."""
    try:
        found = [part for file in inputs for leaf in file.parts(table, position, task.write) for part in leaf]
    except CannotCopy:
        return 0
    return sum(part.size for part in found)


def _worth_a_dictionary(
    target: pa.Schema, candidates: list[int], file: OpenFile, make_reader: MakeReader
) -> dict[int, bool]:
    """By the first rows, as the columns that are encoded are judged: not every writer tries dictionaries."""
    schema = pa.schema([target.field(position) for position in candidates])
    reader = make_reader(schema)
    first = next(reader.look_through(file, reader.selection(file)), None)
    return judge_rows(pa.Table.from_batches([first], schema=schema), leaves(schema)) if first is not None else {}
