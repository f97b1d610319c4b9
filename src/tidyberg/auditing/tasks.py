"""Tasks that read the differing files of a state as a reader of the table would."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.auditing.states import State
from tidyberg.execute.tasks.equality_schemas import equality_schema_bytes, schemas_newest_first
from tidyberg.execute.tasks.evolution import absent_values, name_mapping
from tidyberg.execute.tasks.schemas import arrow_schema_bytes
from tidyberg.model.task import KEY_MEMORY_BYTES, AuditTask, DigestTask, TaskDelete, TaskInput

_TASK_BYTES = 256 * 1024 * 1024
_TASK_FILES = 1000

Members = npt.NDArray[np.int64]  # positions in a state's files


@dataclass(frozen=True)
class Reading:
    """A task and the label of the partition whose files it reads."""

    task: AuditTask
    partition: str


def readings(
    state: State, *, first_number: int, lineage: bool, key_memory_bytes: int = KEY_MEMORY_BYTES
) -> list[Reading]:
    """Tasks are numbered from `first_number`. Each reads files of one partition, because deletes apply by partition."""
    pinned = state.inventory.pinned
    schemas = schemas_newest_first(pinned)
    schema = arrow_schema_bytes(pinned.schema)
    mapping = name_mapping(pinned.properties)
    found: list[Reading] = []
    for members in _chunks(state):
        files = state.files.take(pa.array(members))
        partition = state.inventory.partitions[files["partition"][0].as_py()]
        deletes = [_task_delete(row) for row in state.deletes.rows.take(state.deletes.of_group(members)).to_pylist()]
        task = AuditTask(
            job_id="audit",
            group_id=first_number + len(found),
            inputs=tuple(_inputs(files)),
            arrow_schema=schema,
            constants=absent_values(pinned.specs[partition.spec_id], partition, schemas),
            name_mapping=mapping,
            lineage=lineage,
            deletes=tuple(deletes),
            equality_schemas={
                delete.equality_ids: equality_schema_bytes(delete.equality_ids, schemas, delete.path)
                for delete in deletes
                if delete.kind == "equality"
            },
            key_memory_bytes=key_memory_bytes,
        )
        found.append(Reading(task, partition.label))
    return found


def digest_tasks(files: pa.Table, *, first_number: int, footers_of: frozenset[str]) -> list[DigestTask]:
    chunks = _cut(np.arange(files.num_rows), files["size"].to_numpy())
    inputs = [tuple(_inputs(files.take(pa.array(chunk)))) for chunk in chunks]
    return [
        DigestTask("audit", first_number + number, these, footers_of & {file.path for file in these})
        for number, these in enumerate(inputs)
    ]


def _chunks(state: State) -> Iterator[Members]:
    """Files of one partition that one task reads; a path that is live twice is read by two tasks."""
    partitions = state.files["partition"].to_numpy()[state.differing]
    sizes = state.files["size"].to_numpy()
    paths = state.files["path"].to_pylist()
    for partition in np.unique(partitions):
        members = state.differing[partitions == partition]
        seen: Counter[str] = Counter()
        times = np.empty(len(members), np.int64)
        for number, at in enumerate(members):
            times[number] = seen[paths[at]]
            seen[paths[at]] += 1
        for time in range(int(times.max()) + 1):
            yield from _cut(members[times == time], sizes)


def _cut(members: Members, sizes: npt.NDArray[np.int64]) -> Iterator[Members]:
    start = total = 0
    for end, at in enumerate(members):
        if end > start and (total + sizes[at] > _TASK_BYTES or end - start >= _TASK_FILES):
            yield members[start:end]
            start, total = end, 0
        total += int(sizes[at])
    if start < len(members):
        yield members[start:]


def _inputs(files: pa.Table) -> Iterator[TaskInput]:
    columns: Sequence[str] = ("path", "size", "records", "sequence_number", "first_row_id")
    for row in files.select(columns).to_pylist():
        yield TaskInput(**row)


def _task_delete(row: dict[str, object]) -> TaskDelete:
    names = (
        "path",
        "kind",
        "size",
        "sequence_number",
        "referenced_data_file",
        "content_offset",
        "content_size",
        "records",
    )
    values = {name: row[name] for name in names}
    return TaskDelete(**values, equality_ids=tuple(row["equality_ids"] or ()))  # type: ignore[arg-type]
