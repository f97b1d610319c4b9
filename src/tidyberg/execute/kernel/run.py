"""Runs one task: reads its files, leaves deleted rows out, writes the outputs and reports what came of it."""

import resource
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice

import pyarrow as pa

from tidyberg.execute.kernel.audit import audit_files
from tidyberg.execute.kernel.check.outputs import false_statements, report_by
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.columns.lineage import with_lineage
from tidyberg.execute.kernel.columns.metrics import FactCollector, written_file
from tidyberg.execute.kernel.columns.names import field_id
from tidyberg.execute.kernel.columns.project import Selection, leaves
from tidyberg.execute.kernel.copy.rewrite import copy_files
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows, placed_batches
from tidyberg.execute.kernel.manifests import read_manifests
from tidyberg.execute.kernel.read.damage import refuse_damage
from tidyberg.execute.kernel.read.reader import OpenFile, Reader, open_ahead
from tidyberg.execute.kernel.splice.judge import NOTHING, columns_to_move, may_splice
from tidyberg.execute.kernel.splice.writer import SplicingWriter
from tidyberg.execute.kernel.write.dictionaries import judge_footers
from tidyberg.execute.kernel.write.digest import digest_files
from tidyberg.execute.kernel.write.output import unsupported_options
from tidyberg.execute.kernel.write.partitioned import PartitionedWriter
from tidyberg.execute.kernel.write.rolling import RollingWriter
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import (
    AnyResult,
    AnyTask,
    AuditTask,
    ChecksumResult,
    ChecksumTask,
    DigestTask,
    ManifestTask,
    Task,
    TaskResult,
)
from tidyberg.parquet.fields import CannotCopy, DamagedFooter
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.storage import Storage, remove_outputs

_JUDGED_FILES = 4  # as many as are opened ahead anyway


def _never() -> bool:
    return False


def run_task(
    task: AnyTask,
    attempt: int,
    access: StorageAccess,
    should_stop: Callable[[], bool] = _never,
) -> AnyResult:
    storage = Storage(access)
    if _may_have_ended_another(task, attempt):
        refuse_damage(task.inputs, storage)
    if isinstance(task, AuditTask):
        return audit_files(task, storage, should_stop)
    if isinstance(task, DigestTask):
        return digest_files(task, storage, should_stop)
    if isinstance(task, ManifestTask):
        return read_manifests(task, storage, should_stop)
    if isinstance(task, ChecksumTask):
        return _sum_up(task, storage, should_stop)
    if task.mode == "copy":
        return _copy(task, attempt, storage, should_stop)
    return _rewrite(task, attempt, storage, should_stop)


def _may_have_ended_another(task: AnyTask, attempt: int) -> bool:
    """A process that ran it before may have died of a file."""
    if isinstance(task, Task):
        return attempt > 0 or task.after_death
    return attempt > 0 and isinstance(task, AuditTask | ChecksumTask)


def _copy(task: Task, attempt: int, storage: Storage, should_stop: Callable[[], bool]) -> TaskResult:
    """Moves row groups as bytes where that can be proven safe, else encodes and says why."""
    started, started_ns = time.perf_counter(), time.time_ns()
    try:
        copied = copy_files(task, attempt, storage, should_stop)
    except DamagedFooter as damage:
        raise KernelFailure(FailureKind.DAMAGED, f"A footer is damaged. {damage}.") from None
    except CannotCopy as reason:
        return replace(_rewrite(task, attempt, storage, should_stop), mode_reason=str(reason))
    checksum = None
    if task.checksum:
        try:
            checksum = _sum_of_inputs(task, storage, should_stop)
        except BaseException:
            remove_outputs([storage.place(output.path) for output in copied.outputs], storage)
            raise
    size = sum(file.size for file in task.inputs)
    return TaskResult(
        job_id=task.job_id,
        group_id=task.group_id,
        attempt=attempt,
        outputs=copied.outputs,
        rows_read=copied.rows,
        rows_deleted=0,
        rows_written=sum(output.records for output in copied.outputs),
        bytes_read=max(0, size - copied.moved.bytes_moved),
        bytes_written=sum(output.size for output in copied.outputs),
        seconds=time.perf_counter() - started,
        peak_rss_bytes=peak_rss_bytes(),
        input_facts=copied.input_facts,
        output_facts=copied.output_facts,
        checksum=checksum,
        started_ns=started_ns,
        mode="copy",
        requests=storage.requests,
        bytes_moved=copied.moved.bytes_moved,
        input_row_groups=copied.input_row_groups,
        output_row_groups=copied.output_row_groups,
    )


def _sum_of_inputs(task: Task, storage: Storage, should_stop: Callable[[], bool]) -> str:
    """A copy reads no rows: full verification reads those of the inputs, as the table has them."""
    reading = ChecksumTask(
        task.job_id, task.group_id, task.inputs, task.arrow_schema, task.batch_rows, lineage=task.lineage
    )
    return _sum_up(reading, storage, should_stop).checksum


def _rewrite(task: Task, attempt: int, storage: Storage, should_stop: Callable[[], bool]) -> TaskResult:
    """Moves the pages that need not be decoded where that pays, and encodes all else, on all cores that it may use."""
    ways = [task] if may_splice(task, storage) else []
    ways += [replace(task, splices=False)] if task.cores > 1 else []
    reason = ""
    for way in ways:
        try:
            return replace(_encode(way, attempt, storage, should_stop), splice_reason=reason)
        except CannotCopy as refusal:  # nothing is left of what was written
            reason = reason or (str(refusal) if way.splices else "")
    last = _encode(replace(task, splices=False, cores=1), attempt, storage, should_stop)
    return replace(last, splice_reason=reason)


def _encode(task: Task, attempt: int, storage: Storage, should_stop: Callable[[], bool]) -> TaskResult:
    with closing(open_ahead(storage, task.inputs)) as files:
        return _encode_files(files, task, attempt, storage, should_stop)


def _encode_files(
    files: Iterator[OpenFile], task: Task, attempt: int, storage: Storage, should_stop: Callable[[], bool]
) -> TaskResult:
    started, started_ns = time.perf_counter(), time.time_ns()
    target = _target(task)
    judged = list(islice(files, _JUDGED_FILES))
    plain_reader = _reader(task, storage, target, should_stop)
    footers = [(file.footer, plain_reader.selection(file)) for file in judged]
    dictionaries = judge_footers(leaves(target), footers) if task.write.dictionary else {}
    # Sorting would repeat a dictionary in each of its pieces.
    schema = with_dictionary_strings(target, dictionaries) if task.partitioning is None else target

    def make_reader(columns: pa.Schema) -> Reader:
        return _reader(task, storage, columns, should_stop)

    deleted_rows = DeletedRows(task, storage, should_stop)
    moved = NOTHING
    if task.splices:
        moved = columns_to_move(task, storage, target, dictionaries, judged, make_reader, deleted_rows.may_take_from)
    reader = _reader(task, storage, schema, should_stop, joins=not moved)
    writer: RollingWriter | PartitionedWriter | SplicingWriter
    if moved:
        writer = SplicingWriter(task, attempt, storage, target, schema, moved, dictionaries, make_reader)
    elif task.partitioning is None:
        writer = RollingWriter(task, attempt, storage, schema, dictionaries)
    else:
        writer = PartitionedWriter(task, attempt, storage, schema, dictionaries, should_stop)
    checksum = RowChecksum() if task.checksum else None
    all_leaves = leaves(target)
    surviving = SurvivingRows(task, deleted_rows, reader, all_leaves, should_stop)
    try:
        if isinstance(writer, SplicingWriter):
            surviving.spliced(chain(judged, files), writer)
        else:
            pieces = surviving.pieces(chain(judged, files))
            _write(pieces, writer, checksum)
        outputs = writer.finish()
    except BaseException as failure:
        if not writer.abandon() and isinstance(failure, CannotCopy):
            # I6: the task would go on under the same names, and nobody looks for what is left of one that succeeds.
            raise KernelFailure(FailureKind.STORAGE, "Outputs that were begun could not be removed.") from None
        raise
    output_facts = FactCollector(all_leaves, {}, own=True)
    everything = Selection(
        source_of={leaf.field_id: index for index, leaf in enumerate(all_leaves) if leaf.field_id is not None}
    )
    for output in outputs:
        output_facts.add(output.footer, everything, all_leaves)
    return TaskResult(
        job_id=task.job_id,
        group_id=task.group_id,
        attempt=attempt,
        outputs=tuple(
            replace(
                written_file(o.path, o.size, o.footer, all_leaves, o.nan_counts, task.write.metrics_modes),
                digest=o.digest,
                partition=o.partition,
            )
            for o in outputs
        ),
        rows_read=surviving.rows_read,
        rows_deleted=surviving.rows_deleted,
        rows_written=writer.rows_written,
        bytes_read=sum(file.bytes_taken for file in task.inputs),
        bytes_written=sum(output.size for output in outputs),
        seconds=time.perf_counter() - started,
        peak_rss_bytes=peak_rss_bytes(),
        input_facts=surviving.facts(),
        output_facts=output_facts.facts(),
        checksum=checksum.hexdigest() if checksum is not None else None,
        warnings=_warnings(task),
        started_ns=started_ns,
        requests=storage.requests,
        part=task.part,
        rows_taken=surviving.rows_taken,
        bytes_spliced=writer.bytes_moved if isinstance(writer, SplicingWriter) else 0,
        files_joined=surviving.files_joined,
        spliced_files=tuple(writer.files_moved) if isinstance(writer, SplicingWriter) else (),
    )


def _write(
    pieces: Generator[Announcement | pa.RecordBatch, None, None],
    writer: RollingWriter | PartitionedWriter,
    checksum: RowChecksum | None,
) -> None:
    with closing(pieces):
        for piece in pieces:
            if isinstance(piece, Announcement):
                writer.announce(piece.rows, piece.uncompressed_bytes, piece.rows_in_all)
                continue
            if checksum is not None:
                checksum.update(piece)
            writer.write(piece)


def _warnings(task: Task) -> tuple[str, ...]:
    if task.write.bloom_filter_columns and "bloom_filter_options" in unsupported_options():
        return (f"Bloom filters were left out: pyarrow {pa.__version__} cannot write them.",)
    return ()


def _reader(
    task: Task | ChecksumTask,
    storage: Storage,
    schema: pa.Schema,
    should_stop: Callable[[], bool],
    *,
    joins: bool = False,
) -> Reader:
    constants, mapping, cores = (
        ({}, {}, 1) if isinstance(task, ChecksumTask) else (task.constants, task.name_mapping, task.cores)
    )
    return Reader(
        storage,
        schema,
        batch_rows=task.batch_rows,
        constants=constants,
        should_stop=should_stop,
        name_mapping=mapping,
        joins=joins,
        cores=cores,
    )


def _sum_up(task: ChecksumTask, storage: Storage, should_stop: Callable[[], bool]) -> ChecksumResult:
    reader = _reader(task, storage, _target(task), should_stop)
    checksum = RowChecksum()
    rows = 0
    for file in open_ahead(storage, task.inputs):
        for _, batch in placed_batches(task, reader, file, reader.selection(file)):
            checksum.update(batch)
            rows += batch.num_rows
    problems = false_statements(task.described, task.sources, partial(report_by, storage, should_stop))
    return ChecksumResult(task.job_id, task.group_id, rows, checksum.hexdigest(), tuple(map(str, problems)))


def _target(task: Task | ChecksumTask) -> pa.Schema:
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    return with_lineage(schema) if task.lineage else schema


def with_dictionary_strings(schema: pa.Schema, dictionaries: dict[int, bool]) -> pa.Schema:
    """Top-level strings that keep their dictionary from page to page instead of being spelled out."""
    columns = []
    for column in schema:
        identifier = field_id(column)
        if identifier is not None and dictionaries.get(identifier) and pa.types.is_string(column.type):
            column = column.with_type(pa.dictionary(pa.int32(), column.type))
        columns.append(column)
    return pa.schema(columns, metadata=schema.metadata)


def peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
