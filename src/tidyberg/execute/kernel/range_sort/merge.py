"""The reduce tasks of a sort: load one range of rows at a time, sort it, and write the outputs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tidyberg.execute.kernel.attempt import table_schema
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.encode import facts_of_outputs, with_dictionary_strings, written_files
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.execute.kernel.order.gathering import combined, gathered
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.order.ranges import RangeBounds
from tidyberg.execute.kernel.order.segments import SegmentedRanges
from tidyberg.execute.kernel.range_sort.ipc_chunks import from_chunk
from tidyberg.execute.kernel.write.rolling import RollingWriter
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ArrivedChunks, ShuffleAttempt
from tidyberg.model.task import Task, TaskResult


@dataclass(frozen=True)
class MergeRanges:
    """Writes the rows of one partition in order."""

    task: Task  # with the number of this part, and its share of the outputs
    bounds: RangeBounds | SegmentedRanges
    dictionaries: dict[int, bool]  # by field id: whether a dictionary pays in an output; others are undecided
    kept: dict[int, bool]  # by field id: whether chunks hold dictionaries of the column

    def reduce(self, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> TaskResult:
        started, started_ns = time.perf_counter(), time.time_ns()
        memory = min(self.task.memory_bytes, attempt.memory_bytes or self.task.memory_bytes)
        task = replace(self.task, memory_bytes=memory)
        target = table_schema(task)
        schema = with_dictionary_strings(target, self.kept)
        writer = RollingWriter(task, attempt.number, attempt.storage, schema, self.dictionaries)
        check = OrderCheck(schema, self.bounds.key) if self.bounds.key.curve is None else None
        try:
            for batch in self._sorted(chunks, schema, writer):
                if attempt.should_stop():
                    raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
                if check is not None:
                    check.add(batch)
                writer.write(batch)
            outputs = writer.finish()
            if check is not None and check.first_wrong is not None:
                raise KernelFailure(
                    FailureKind.DAMAGED,
                    f"Part {task.part} of group {task.group_id} was not written in order: row {check.first_wrong} is "
                    "less than the row before it. Nothing is kept of it. Please report this error.",
                )
        except BaseException:
            writer.abandon()
            raise
        all_leaves = leaves(target)
        order_id = self.bounds.key.order_id if check is not None else None  # I9: it was checked
        return TaskResult(
            job_id=task.job_id,
            group_id=task.group_id,
            attempt=attempt.number,
            outputs=tuple(replace(file, sort_order_id=order_id) for file in written_files(task, outputs, all_leaves)),
            rows_read=0,  # map tasks have read the files
            rows_deleted=0,
            rows_written=writer.rows_written,
            bytes_read=0,
            bytes_written=sum(output.size for output in outputs),
            seconds=time.perf_counter() - started,
            peak_rss_bytes=peak_rss_bytes(),
            output_facts=facts_of_outputs(outputs, all_leaves),
            started_ns=started_ns,
            requests=attempt.storage.requests,
            part=task.part,
        )

    def _sorted(self, chunks: ArrivedChunks, schema: pa.Schema, writer: RollingWriter) -> Iterator[pa.RecordBatch]:
        sizes = chunks.bytes_by_tag
        rows_seen = bytes_seen = 0
        bytes_in_all = sum(sizes.values())
        for tag in sizes:
            table = pa.concat_tables([in_schema(from_chunk(chunk.data), schema) for chunk in chunks.tagged(tag)])
            table = table.unify_dictionaries()
            rows_seen += table.num_rows
            bytes_seen += sizes[tag]
            writer.announce(table.num_rows, table.nbytes, round(rows_seen * bytes_in_all / max(1, bytes_seen)))
            positions = self.bounds.sorted_positions(table)
            columns = [combined(column) for column in table.columns]
            del table
            for begin in range(0, len(positions), self.task.batch_rows):
                yield gathered(columns, positions[begin : begin + self.task.batch_rows], schema)


def in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns rows whose columns are dictionaries where the schema has them. A map task may have sent plain values."""
    columns = []
    for column, wanted in zip(rows.columns, schema, strict=True):
        if pa.types.is_dictionary(wanted.type) and not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
