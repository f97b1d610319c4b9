"""Proves that merged deletes remove the same rows as before, from the files that were written.

The quick check reads every output back with the decoders of readers, and compares positions with those that the worker
had before it encoded them. The full check reads the data files twice, once with the old deletes and once with the new
ones, and compares the rows that survive.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.errors import VerificationFailed
from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.audit import read_sums
from tidyberg.execute.kernel.deletes.bitmaps import Positions, read_deletion_vector
from tidyberg.execute.kernel.merge_deletes import positions_digest
from tidyberg.failures import KernelFailure
from tidyberg.model.plan import FileGroup
from tidyberg.model.task import AuditResult, AuditTask, Task, TaskDelete, TaskResult, WrittenDelete, WrittenFile
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.verify.counts import raise_problems

_PUFFIN_MAGIC = b"PFA1"
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_UNTOUCHED = "Nothing was committed and the outputs are removed; the table is as it was."


def verify_merged_deletes(group: FileGroup, result: TaskResult, access: StorageAccess) -> None:
    """Raises VerificationFailed unless the outputs hold exactly the positions that the worker found."""
    problems = list(_count_problems(group, result))
    if not problems:
        try:
            storage = Storage(access)
            for output in result.outputs:
                problems += _content_problems(group, output, storage)
        except KernelFailure as failure:
            raise error_of(failure) from failure
    raise_problems(group, problems)


def _count_problems(group: FileGroup, result: TaskResult) -> Iterator[str]:
    deletes = [delete for output in result.outputs for delete in output.deletes]
    rows = {file.path: file.records for file in group.files}
    seen: set[str] = set()
    if result.group_id != group.group_id:
        yield f"the result is that of group {result.group_id}"
    for delete in deletes:
        if delete.data_file not in rows:
            yield f"deletes for {delete.data_file}, which is not a file of the group"
        elif not 0 < delete.records <= rows[delete.data_file]:
            yield f"{delete.records} deletes for {delete.data_file}, which has {rows[delete.data_file]} rows"
        if delete.data_file in seen:  # a file has at most one deletion vector
            yield f"two sets of deletes for {delete.data_file}"
        seen.add(delete.data_file)
    if sum(delete.records for delete in deletes) != result.rows_deleted:
        yield f"{result.rows_deleted} rows are deleted, but {sum(delete.records for delete in deletes)} were written"
    for output in result.outputs:
        if not output.deletes or output.records != sum(delete.records for delete in output.deletes):
            yield f"output {output.path} has {output.records} positions, and its parts have others"


def _content_problems(group: FileGroup, output: WrittenFile, storage: Storage) -> Iterator[str]:
    content = storage.read_whole(storage.place(output.path), output.size).to_pybytes()
    if len(content) != output.size:
        yield f"output {output.path} has {len(content)} bytes where its writer reported {output.size}"
        return
    rows = {file.path: file.records for file in group.files}
    is_puffin = all(delete.content_offset is not None for delete in output.deletes)
    if is_puffin:
        yield from _puffin_problems(output, content)
    for delete in output.deletes:
        found = _vector(output, delete, content) if is_puffin else _positions(output, delete, content)
        if isinstance(found, str):
            yield found
        elif len(found) != delete.records or positions_digest(found) != delete.digest:
            yield f"output {output.path} holds other positions of {delete.data_file} than were written"
        elif not bool(np.all(found[1:] > found[:-1])) or found[0] < 0 or found[-1] >= rows[delete.data_file]:
            yield f"output {output.path} holds positions of {delete.data_file} that are out of order or of range"


def _vector(output: WrittenFile, delete: WrittenDelete, content: bytes) -> Positions:
    assert delete.content_offset is not None
    assert delete.content_size is not None
    blob = content[delete.content_offset : delete.content_offset + delete.content_size]
    return read_deletion_vector(blob, output.path)


def _puffin_problems(output: WrittenFile, content: bytes) -> Iterator[str]:
    """The footer must describe the same vectors as the manifest will."""
    try:
        size = int.from_bytes(content[-12:-8], "little")
        payload = content[-12 - size : -12]
        magics = (content[:4], content[-16 - size : -12 - size], content[-4:])
        blobs = json.loads(payload)["blobs"]
        found = {
            (blob["properties"]["referenced-data-file"], blob["offset"], blob["length"]): (
                blob["type"],
                int(blob["properties"]["cardinality"]),
            )
            for blob in blobs
        }
    except (ValueError, KeyError, TypeError):
        yield f"output {output.path} has no readable Puffin footer"
        return
    expected = {
        (delete.data_file, delete.content_offset, delete.content_size): ("deletion-vector-v1", delete.records)
        for delete in output.deletes
    }
    if set(magics) != {_PUFFIN_MAGIC} or found != expected or len(blobs) != len(expected):
        yield f"the Puffin footer of output {output.path} describes other vectors than were written"


def _positions(output: WrittenFile, delete: WrittenDelete, content: bytes) -> Positions | str:
    table = pq.read_table(pa.BufferReader(content))
    paths = set(table["file_path"].unique().to_pylist())
    bound = delete.data_file.encode()
    if paths != {delete.data_file}:
        return f"output {output.path} names other data files than {delete.data_file}"
    if output.lower_bounds.get(_PATH_ID) != bound or output.upper_bounds.get(_PATH_ID) != bound:
        return f"the bounds of output {output.path} do not name {delete.data_file}"
    found: Positions = table["pos"].to_numpy()
    ends = [int(found[0]).to_bytes(8, "little"), int(found[-1]).to_bytes(8, "little")] if len(found) else []
    if ends != [output.lower_bounds.get(_POSITION_ID), output.upper_bounds.get(_POSITION_ID)]:
        return f"the bounds of output {output.path} are not those of its positions"
    return found


def survivor_tasks(
    tasks: Sequence[Task], results: Sequence[TaskResult], sequence_number: int
) -> tuple[list[AuditTask], list[AuditTask]]:
    """Returns tasks that read the data files of each group with the old deletes, and with the new ones."""
    by_group: Mapping[int, TaskResult] = {result.group_id: result for result in results}
    old = [_audit_task(task, 2 * number, task.deletes) for number, task in enumerate(tasks)]
    new = [
        _audit_task(task, 2 * number + 1, tuple(_new_deletes(by_group[task.group_id], sequence_number)))
        for number, task in enumerate(tasks)
    ]
    return old, new


def verify_survivors(tasks: Sequence[Task], found: Sequence[AuditResult]) -> None:
    """Raises VerificationFailed unless the same rows survive. `found` are the results of `survivor_tasks`."""
    by_number = {result.group_id: result for result in found}
    for number, task in enumerate(tasks):
        old, new = by_number[2 * number], by_number[2 * number + 1]
        if old.rows != new.rows or not np.array_equal(read_sums(old), read_sums(new)):
            raise VerificationFailed(
                f"The merged deletes of group {task.group_id} do not delete the same rows: {old.rows} rows survive the "
                f"old deletes, {new.rows} the new ones.",
                hint=_UNTOUCHED,
            )


def _audit_task(task: Task, number: int, deletes: tuple[TaskDelete, ...]) -> AuditTask:
    return AuditTask(
        job_id=task.job_id,
        group_id=number,
        inputs=task.inputs,
        arrow_schema=task.arrow_schema,
        constants=task.constants,
        name_mapping=task.name_mapping,
        lineage=task.lineage,
        deletes=deletes,
        equality_schemas=task.equality_schemas,
        batch_rows=task.batch_rows,
    )


def _new_deletes(result: TaskResult, sequence_number: int) -> Iterator[TaskDelete]:
    for output in result.outputs:
        for delete in output.deletes:
            yield TaskDelete(
                path=output.path,
                kind="position" if delete.content_offset is None else "dv",
                size=output.size,
                sequence_number=sequence_number,
                referenced_data_file=delete.data_file,
                content_offset=delete.content_offset,
                content_size=delete.content_size,
                records=delete.records,
            )
