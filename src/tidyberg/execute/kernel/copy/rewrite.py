"""Copies row groups as bytes under a new footer: reads the footers, checks them, plans, writes, reads back."""

import time
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.attempt import RewriteAttempt, table_schema
from tidyberg.execute.kernel.columns.lineage import LineageFacts
from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import Leaf, Selection, leaves
from tidyberg.execute.kernel.copy.assemble import assemble
from tidyberg.execute.kernel.copy.eligibility import check_task, common_footer
from tidyberg.execute.kernel.copy.read_back import read_back_footers, row_groups
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.execute.kernel.read.source import Source, open_source, storage_reader
from tidyberg.execute.kernel.row_checksum import checksum_rows
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import ChecksumTask, ColumnFacts, TaskResult
from tidyberg.parquet.errors import DamagedFooter
from tidyberg.storage.file_io import remove_outputs
from tidyberg.storage.prefetch import prefetched
from tidyberg.storage.write_assembly import write_assembly


class Copy:
    """Copies row groups as bytes, if that is provably safe."""

    def rewrite(self, attempt: RewriteAttempt) -> TaskResult:
        try:
            return _copy(attempt)
        except DamagedFooter as damage:
            raise KernelFailure(FailureKind.DAMAGED, f"A footer is damaged: {damage}.") from None


def _copy(attempt: RewriteAttempt) -> TaskResult:
    """Raises CannotCopy, before anything is written, if a copy is not provably safe."""
    started, started_ns = time.perf_counter(), time.time_ns()
    task, storage = attempt.task, attempt.storage
    check_task(task)
    sources = list(prefetched(partial(open_source, read_range=storage_reader(storage)), task.inputs))
    planned = assemble(task, attempt.number, sources, common_footer(task, sources))
    moved = write_assembly(planned.assembly, storage, attempt.should_stop)
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    columns = len(leaves(schema))
    try:
        footers = read_back_footers(planned.assembly, sources, columns, storage)
        checksum = _checksum_of_inputs(attempt) if task.checksum else None
    except BaseException:
        remove_outputs([storage.place(file.path) for file in planned.assembly.files], storage)
        raise
    inputs = [source.arrow_footer for source in sources]
    return TaskResult(
        job_id=task.job_id,
        group_id=task.group_id,
        attempt=attempt.number,
        outputs=planned.written,
        rows_read=sum(source.footer.rows for source in sources),
        rows_deleted=0,
        rows_written=sum(output.records for output in planned.written),
        bytes_read=max(0, sum(file.size for file in task.inputs) - moved.bytes_moved),
        bytes_written=sum(output.size for output in planned.written),
        seconds=time.perf_counter() - started,
        peak_rss_bytes=peak_rss_bytes(),
        input_facts=_facts(inputs, leaves(schema)) | (_inherited_facts(sources) if task.lineage else {}),
        output_facts=_facts(footers, leaves(table_schema(task))),
        checksum=checksum,
        started_ns=started_ns,
        mode="copy",
        requests=storage.requests,
        bytes_moved=moved.bytes_moved,
        input_row_groups=row_groups(inputs, columns),
        output_row_groups=row_groups(footers, columns),
    )


def _checksum_of_inputs(attempt: RewriteAttempt) -> str:
    """A copy reads no rows, so full verification reads those of the inputs."""
    task = attempt.task
    reading = ChecksumTask(
        task.job_id, task.group_id, task.inputs, task.arrow_schema, task.batch_rows, lineage=task.lineage
    )
    return checksum_rows(reading, attempt.storage, attempt.should_stop)[1]


def _facts(footers: list[pq.FileMetaData], all_leaves: list[Leaf]) -> dict[int, ColumnFacts]:
    """Collects the facts of files whose columns are those of the table."""
    collector = FactCollector(all_leaves, {}, own=False)
    for footer in footers:
        file_leaves = leaves(footer.schema.to_arrow_schema())
        collector.add(footer, _all_of(file_leaves), file_leaves)
    return collector.facts()


def _inherited_facts(sources: list[Source]) -> dict[int, ColumnFacts]:
    lineage = LineageFacts()
    for source in sources:
        file_leaves = leaves(source.arrow_footer.schema.to_arrow_schema())
        lineage.add(source.arrow_footer, _all_of(file_leaves), file_leaves, source.input)
    return lineage.facts()


def _all_of(file_leaves: list[Leaf]) -> Selection:
    return Selection(source_of={leaf.field_id: at for at, leaf in enumerate(file_leaves) if leaf.field_id is not None})
