"""Decodes all surviving rows and encodes them again. This always works; the other ways are faster."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt, table_schema
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.columns.field_ids import field_id
from tidyberg.execute.kernel.columns.metrics import FactCollector, written_file
from tidyberg.execute.kernel.columns.project import Leaf, Selection, leaves
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.execute.kernel.read.open_files import OpenFile, open_prefetched
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.write.dictionaries import dictionaries_from_footers
from tidyberg.execute.kernel.write.output import FinishedOutput, unsupported_options
from tidyberg.execute.kernel.write.partitioned import PartitionedWriter
from tidyberg.execute.kernel.write.rolling import RollingWriter
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import ColumnFacts, Task, TaskResult, WrittenFile
from tidyberg.parquet.errors import CannotCopy

_SAMPLED_FILES = 4  # as many as are opened ahead anyway


@dataclass(frozen=True)
class FirstFiles:
    """The first files of a task, opened, and what they suggest about the others."""

    attempt: RewriteAttempt
    files: list[OpenFile]
    target: pa.Schema  # the table's schema
    schema: pa.Schema  # the same, with dictionary strings
    dictionaries: dict[int, bool]  # by field id: whether a dictionary pays
    deleted_rows: DeletedRows


class TaskWriter(Protocol):
    """Writes the outputs of a task."""

    joins: bool  # whether small files may be read together

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]: ...

    def abandon(self) -> bool:
        """Removes the outputs. Returns True if none is left."""

    def describe(self, result: TaskResult) -> TaskResult:
        """Returns the result with the fields that only the writer knows."""


class RowWriter:
    """Writes surviving rows batch by batch."""

    joins = True

    def __init__(self, first: FirstFiles) -> None:
        attempt, task = first.attempt, first.attempt.task
        self._writer: RollingWriter | PartitionedWriter
        if task.partitioning is None:
            self._writer = RollingWriter(task, attempt.number, attempt.storage, first.schema, first.dictionaries)
        else:
            self._writer = PartitionedWriter(
                task, attempt.number, attempt.storage, first.schema, first.dictionaries, attempt.should_stop
            )
        self._checksum = RowChecksum() if task.checksum else None

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        with closing(surviving.pieces(files)) as pieces:
            for piece in pieces:
                if isinstance(piece, Announcement):
                    self.announce(piece)
                else:
                    self.write_rows(piece)
        return self.finish()

    def announce(self, announcement: Announcement) -> None:
        self._writer.announce(announcement.rows, announcement.uncompressed_bytes, announcement.rows_in_all)

    def write_rows(self, batch: pa.RecordBatch) -> None:
        if self._checksum is not None:
            self._checksum.update(batch)
        self._writer.write(batch)

    def finish(self) -> list[FinishedOutput]:
        return self._writer.finish()

    def abandon(self) -> bool:
        return self._writer.abandon()

    def describe(self, result: TaskResult) -> TaskResult:
        checksum = self._checksum.hexdigest() if self._checksum is not None else None
        return replace(result, rows_written=self._writer.rows_written, checksum=checksum)


class Encode:
    """Encodes rows. `cores` limits the cores of the task: encoding on one core works where several cannot."""

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores

    def rewrite(self, attempt: RewriteAttempt) -> TaskResult:
        if self._cores is not None:
            attempt = replace(attempt, task=replace(attempt.task, cores=self._cores))
        with closing(self.open_files(attempt)) as files:
            return self._rewrite(files, attempt)

    def open_files(self, attempt: RewriteAttempt) -> Generator[OpenFile, None, None]:
        return open_prefetched(attempt.storage, attempt.task.inputs)

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        return RowWriter(first)

    def open_reader(self, first: FirstFiles, writer: TaskWriter, /) -> Reader:
        return first.attempt.reader(first.schema, joins=writer.joins)

    def _rewrite(self, files: Iterator[OpenFile], attempt: RewriteAttempt) -> TaskResult:
        started, started_ns = time.perf_counter(), time.time_ns()
        task = attempt.task
        first = _open_first(files, attempt)
        writer = self.open_writer(first)
        all_leaves = leaves(first.target)
        reader = self.open_reader(first, writer)
        surviving = SurvivingRows(task, first.deleted_rows, reader, all_leaves, attempt.should_stop)
        try:
            outputs = writer.write(chain(first.files, files), surviving)
        except BaseException as failure:
            if not writer.abandon() and isinstance(failure, CannotCopy):
                # I6: another way would reuse these names, and recovery does not look at tasks that succeed.
                raise KernelFailure(
                    FailureKind.STORAGE, "Unfinished outputs could not be removed from storage."
                ) from None
            raise
        result = TaskResult(
            job_id=task.job_id,
            group_id=task.group_id,
            attempt=attempt.number,
            outputs=written_files(task, outputs, all_leaves),
            rows_read=surviving.rows_read,
            rows_deleted=surviving.rows_deleted,
            rows_written=0,
            bytes_read=sum(file.bytes_taken for file in task.inputs),
            bytes_written=sum(output.size for output in outputs),
            seconds=time.perf_counter() - started,
            peak_rss_bytes=peak_rss_bytes(),
            input_facts=surviving.facts(),
            output_facts=facts_of_outputs(outputs, all_leaves),
            warnings=_warnings(task),
            started_ns=started_ns,
            requests=attempt.storage.requests,
            part=task.part,
            rows_taken=surviving.rows_taken,
            files_joined=surviving.files_joined,
        )
        return writer.describe(result)


def written_files(task: Task, outputs: Sequence[FinishedOutput], all_leaves: list[Leaf]) -> tuple[WrittenFile, ...]:
    """Returns what manifests will say of the outputs."""
    return tuple(
        replace(
            written_file(o.path, o.size, o.footer, all_leaves, o.nan_counts, task.write.metrics_modes),
            digest=o.digest,
            partition=o.partition,
        )
        for o in outputs
    )


def facts_of_outputs(outputs: Sequence[FinishedOutput], all_leaves: list[Leaf]) -> dict[int, ColumnFacts]:
    """Returns the statistics of the outputs' footers, which verification compares with those of the inputs."""
    facts = FactCollector(all_leaves, {}, own=True)
    everything = Selection(
        source_of={leaf.field_id: index for index, leaf in enumerate(all_leaves) if leaf.field_id is not None}
    )
    for output in outputs:
        facts.add(output.footer, everything, all_leaves)
    return facts.facts()


def _open_first(files: Iterator[OpenFile], attempt: RewriteAttempt) -> FirstFiles:
    task, target = attempt.task, table_schema(attempt.task)
    first = list(islice(files, _SAMPLED_FILES))
    reader = attempt.reader(target)
    footers = [(file.footer, reader.selection(file)) for file in first]
    dictionaries = dictionaries_from_footers(leaves(target), footers) if task.write.dictionary else {}
    # Sorting rows, by partition or by key, would repeat the dictionary in every piece.
    keeps_order = task.partitioning is None and task.sort_key is None
    schema = with_dictionary_strings(target, dictionaries) if keeps_order else target
    deleted_rows = DeletedRows(task, attempt.storage, attempt.should_stop)
    return FirstFiles(attempt, first, target, schema, dictionaries, deleted_rows)


def with_dictionary_strings(schema: pa.Schema, dictionaries: dict[int, bool]) -> pa.Schema:
    """Makes top-level strings dictionaries in Arrow, so that reading and writing do not expand them."""
    columns = []
    for column in schema:
        identifier = field_id(column)
        if identifier is not None and dictionaries.get(identifier) and pa.types.is_string(column.type):
            column = column.with_type(pa.dictionary(pa.int32(), column.type))
        columns.append(column)
    return pa.schema(columns, metadata=schema.metadata)


def _warnings(task: Task) -> tuple[str, ...]:
    if task.write.bloom_filter_columns and "bloom_filter_options" in unsupported_options():
        return (f"The outputs have no bloom filters: pyarrow {pa.__version__} cannot write them.",)
    return ()
