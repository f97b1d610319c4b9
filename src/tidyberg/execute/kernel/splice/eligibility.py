"""Decides whether splicing pays for a task, and whose pages it moves, from the first files."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidyberg.execute.kernel.columns.lineage import LINEAGE_FIELDS
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.read.open_files import FETCHED_WHOLE, OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.splice.inputs import SplicedInput, is_whole
from tidyberg.execute.kernel.write.dictionaries import MIN_DICTIONARY_ROWS, dictionaries_from_rows
from tidyberg.execute.kernel.write.source_chunks import MIN_PAGE_VALUES
from tidyberg.execute.kernel.write.table_columns import TableColumns
from tidyberg.model.task import Task, TaskInput
from tidyberg.parquet.codecs import CODEC_IDS
from tidyberg.parquet.errors import CannotCopy
from tidyberg.storage.file_io import Storage

_MIN_MOVED_SHARE = 0.3  # of the bytes: below this, the time saved is not worth less even row groups
_MAX_DELETED_SHARE = 0.5  # of the rows, in files with deletes: those are encoded again, with small pages
_FILES_PER_SMALL_FILE = 8  # at most one file in this many may have only small pages
_FILES_PER_OUTPUT = 8  # at least: a file is not divided, so with fewer files outputs would differ too much in size
_MAX_GROUP_ROWS = 32 * 1024 * 1024  # Arrow divides a row group of twice as many rows
NO_COLUMNS: frozenset[int] = frozenset()

MakeReader = Callable[[pa.Schema], Reader]


def may_splice(task: Task, storage: Storage) -> bool:
    """Whether the task may be spliced, decided before any file is read."""
    settings = task.write
    if not task.splices or task.partitioning is not None or not task.inputs:
        return False
    # Full verification needs the rows for its checksum, and bloom filters need the values.
    if task.checksum or settings.bloom_filter_columns:
        return False
    if settings.compression not in CODEC_IDS or settings.row_group_rows > _MAX_GROUP_ROWS:
        return False
    # With fewer rows a writer cannot know whether a dictionary pays, and its pages are small.
    if sum(file.records for file in task.inputs) < MIN_DICTIONARY_ROWS * len(task.inputs):
        return False
    if _FILES_PER_SMALL_FILE * sum(file.records < MIN_PAGE_VALUES for file in task.inputs) > len(task.inputs):
        return False
    largest = max(file.size for file in task.inputs)
    if largest > settings.row_group_bytes // 2 or max(file.records for file in task.inputs) > settings.row_group_rows:
        return False
    if task.outputs > 1 and largest * _FILES_PER_OUTPUT > task.target_bytes:
        return False
    # Each column of a larger remote file would need its own request.
    return all(file.size <= FETCHED_WHOLE or storage.place(file.path).is_local for file in task.inputs)


def columns_to_move(
    task: Task,
    storage: Storage,
    target: pa.Schema,
    dictionaries: dict[int, bool],
    files: Sequence[OpenFile],
    make_reader: MakeReader,
    may_delete_from: Callable[[TaskInput], bool],
) -> frozenset[int]:
    """Returns the columns whose pages can be moved and that need no dictionary; none if moving them does not pay."""
    all_rows = sum(file.rows_expected for file in task.inputs)
    if sum(file.rows_expected for file in task.inputs if may_delete_from(file)) > _MAX_DELETED_SHARE * all_rows:
        return NO_COLUMNS
    table = TableColumns(target)
    # A file that several tasks share is divided by rows, not by pages.
    inputs = [SplicedInput(file, storage) for file in files if file.footer.num_rows and is_whole(file)]
    if not inputs or any(file.uncompressed_bytes > task.write.row_group_bytes for file in files):
        return NO_COLUMNS
    # A null in the lineage columns means that the row inherits from its file, so they are always encoded [I8].
    own = len(target) - (len(LINEAGE_FIELDS) if task.lineage else 0)
    bytes_of = {position: _bytes_to_move(task, table, position, inputs) for position in range(own)}
    candidates = [position for position, size in bytes_of.items() if size]
    if not candidates:
        return NO_COLUMNS
    with_dictionary = dict(dictionaries)
    if task.write.dictionary:
        # A footer says little about few rows, and nothing if the writer never tries dictionaries.
        with_dictionary |= _dictionaries_from_first_rows(target, candidates, inputs[0].file, make_reader)
    chosen = [
        position
        for position in candidates
        if not any(with_dictionary.get(leaf.field_id or 0) for leaf in table.leaves_of(position).values())
    ]
    stored = sum(opened.file.input.size for opened in inputs)
    pays = sum(bytes_of[position] for position in chosen) >= _MIN_MOVED_SHARE * stored
    return frozenset(chosen) if pays else NO_COLUMNS


def _bytes_to_move(task: Task, table: TableColumns, position: int, inputs: Sequence[SplicedInput]) -> int:
    """Returns the bytes of one column in these files; zero if one of them cannot be moved."""
    try:
        found = [chunk for file in inputs for leaf in file.chunks(table, position, task.write) for chunk in leaf]
    except CannotCopy:
        return 0
    return sum(chunk.size for chunk in found)


def _dictionaries_from_first_rows(
    target: pa.Schema, candidates: list[int], file: OpenFile, make_reader: MakeReader
) -> dict[int, bool]:
    """Samples the first rows, as the writer does for encoded columns."""
    schema = pa.schema([target.field(position) for position in candidates])
    reader = make_reader(schema)
    first = next(reader.scan(file, reader.selection(file)), None)
    return (
        dictionaries_from_rows(pa.Table.from_batches([first], schema=schema), leaves(schema))
        if first is not None
        else {}
    )
