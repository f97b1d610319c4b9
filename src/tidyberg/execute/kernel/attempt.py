"""One attempt to rewrite the files of a task, and the interface of all ways of rewriting."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidyberg.execute.kernel.columns.lineage import with_lineage
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import ChecksumTask, Task, TaskResult
from tidyberg.storage.file_io import Storage


@dataclass(frozen=True)
class RewriteAttempt:
    task: Task
    number: int
    storage: Storage
    should_stop: Callable[[], bool]

    def reader(
        self, columns: pa.Schema, *, joins: bool = False, batch_rows: int | None = None, stream_buffer: int = 0
    ) -> Reader:
        """Returns a reader of the task's files that yields these columns."""
        return Reader(
            self.storage,
            columns,
            batch_rows=batch_rows or self.task.batch_rows,
            constants=self.task.constants,
            should_stop=self.should_stop,
            name_mapping=self.task.name_mapping,
            joins=joins,
            cores=self.task.cores,
            stream_buffer=stream_buffer,
        )


class Rewriting(Protocol):
    """A way of rewriting: copy, splice, encode, sort or merge."""

    def rewrite(self, attempt: RewriteAttempt) -> TaskResult:
        """Writes the outputs. Raises CannotCopy, and leaves no files behind, if another way must be used."""


def table_schema(task: Task | ChecksumTask) -> pa.Schema:
    """Returns the Arrow schema of the task's outputs."""
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    return with_lineage(schema) if task.lineage else schema
