"""Finds sorted files that do not overlap. Written one after the other, their rows are in order without being merged.

Only the columns of the key are read. The first file that overlaps another one ends the search.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt, table_schema
from tidyberg.execute.kernel.order.keys import sort_levels
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.order.values import key_schema, key_sources
from tidyberg.execute.kernel.order.word_sort import first_unsorted
from tidyberg.execute.kernel.read.open_files import FETCHED_WHOLE, OpenFile, open_file, open_run
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import Task, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched


def task_in_order(attempt: RewriteAttempt) -> Task | None:
    """Returns a task that copies or encodes the inputs in the order of their keys.

    Returns None if two files overlap or a file is not sorted, because then rows must be compared.
    """
    task, key = attempt.task, attempt.task.sort_key
    assert key is not None
    if task.partitioning is not None or key.curve is not None:
        return None
    schema = key_schema(table_schema(task), key)
    reader = attempt.reader(schema)
    runs = _DisjointRuns(key.fields)
    row_groups = 0
    open_one = partial(_open, attempt.storage)
    with closing(prefetched(open_one, task.inputs)) as files:
        for file in files:
            with file.source, attempt.storage.guard(file.input.path):
                row_groups += file.footer.num_row_groups
                run = _run(file, reader, schema, key, attempt.should_stop)
            if run is None or not runs.add(run):
                return None
    inputs = (*(file for file in task.inputs if not file.records), *runs.files)
    mode = "copy" if task.splices and _can_divide(task, row_groups) else "encode"
    return replace(task, mode=mode, sort_key=None, inputs=inputs)


@dataclass(frozen=True)
class _SortedFile:
    """A sorted file, and the keys of its first and last row. A file without rows has none."""

    file: TaskInput
    first: Sequence[pa.Array] = ()
    last: Sequence[pa.Array] = ()


class _DisjointRuns:
    """Runs in the order of their keys. None of them overlaps another, but two may share one key."""

    def __init__(self, fields: Sequence[SortField]) -> None:
        self._fields = fields
        self._runs: list[_SortedFile] = []

    @property
    def files(self) -> list[TaskInput]:
        return [run.file for run in self._runs]

    def add(self, run: _SortedFile) -> bool:
        """Returns False if the run overlaps another one."""
        if not run.first:
            return True
        low, high = 0, len(self._runs)
        while low < high:
            middle = (low + high) // 2
            if self._may_follow(self._runs[middle], run):
                low = middle + 1
            else:
                high = middle
        if low < len(self._runs) and not self._may_follow(run, self._runs[low]):
            return False
        self._runs.insert(low, run)
        return True

    def _may_follow(self, run: _SortedFile, next_run: _SortedFile) -> bool:
        pair = [pa.concat_arrays(both) for both in zip(run.last, next_run.first, strict=True)]
        return first_unsorted(sort_levels(pair, self._fields), 2) is None


def _run(
    file: OpenFile, reader: Reader, schema: pa.Schema, key: SortKey, should_stop: Callable[[], bool]
) -> _SortedFile | None:
    """Reads all keys of a file. Returns None if they are not sorted."""
    sources, check = key_sources(schema, key), OrderCheck(schema, key)
    first: list[pa.Array] = []
    last: list[pa.Array] = []
    selection = reader.selection(file)
    for batch in reader.decoded(file.source, file.footer, selection, file.row_groups):
        if should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([reader.projected(batch, selection)])
        values = [source.of(rows) for source in sources]
        check.add_values(values)
        if check.first_wrong is not None:
            return None
        first = first or [array.slice(0, 1) for array in values]
        last = [array.slice(len(array) - 1) for array in values]
    return _SortedFile(file.input, first, last)


def _open(storage: Storage, file: TaskInput) -> OpenFile:
    """Of a large file, only the columns of the key are fetched."""
    return open_file(storage, file) if file.size <= FETCHED_WHOLE else open_run(storage, file)


def _can_divide(task: Task, row_groups: int) -> bool:
    """Returns True if outputs of whole row groups are filled about as evenly as outputs of rows [I10]."""
    size = sum(file.size for file in task.inputs)
    return task.outputs == 1 or 2 * size <= task.target_bytes * row_groups
