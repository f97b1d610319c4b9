"""Decides which equality deletes are applied by a join, and builds the tasks of each join.

Small deletes travel with the task, and workers read larger ones. A worker needs memory for every key. So deletes that
need too much are joined with the rows first. All groups of a partition share one join for each set of columns.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.join.joining import KeyJoin, KeyJoinReport
from tidyberg.execute.kernel.deletes.join.key_filter import filter_shape
from tidyberg.execute.kernel.deletes.join.key_ranges import united
from tidyberg.execute.kernel.deletes.join.keys import KeyColumns
from tidyberg.execute.kernel.deletes.join.maps import KeyMap
from tidyberg.execute.kernel.deletes.join.scratch_files import ScratchPlace
from tidyberg.execute.kernel.deletes.join.survey import FilterMerge, KeySurvey
from tidyberg.execute.kernel.deletes.key_memory import expected_matcher_bytes
from tidyberg.execute.tasks.division import shares
from tidyberg.model.inventory import Partition
from tidyberg.model.shuffle import ShuffleJob, ShuffleResult
from tidyberg.model.sizes import MB
from tidyberg.model.task import Task, TaskDelete, TaskInput

_PART_MEMORY = 96 * MB  # of the look-up in one reduce task
_MOST_PARTS = 4096
_MOST_SURVEYS = 16  # each sends a filter of up to 64 MB
_DELETE_BYTES, _ROW_FILE_BYTES = 64 * MB, 512 * MB  # of files that one map task reads; of rows it reads only the keys


@dataclass(frozen=True)
class PlannedJoin:
    """The equality deletes of one partition with the same columns, and the data files that they may apply to."""

    place: ScratchPlace
    columns: KeyColumns
    deletes: tuple[TaskDelete, ...]
    rows: tuple[TaskInput, ...]
    groups: frozenset[int]
    memory_bytes: int  # that one look-up of all keys would take

    @property
    def number(self) -> int:
        return self.place.join

    @property
    def latest(self) -> int:
        return max(delete.sequence_number for delete in self.deletes)

    def survey(self, cores: int) -> ShuffleJob:
        """The first pass: ranges of both sides, and a filter of the deleted keys."""
        words, bits = filter_shape(sum(delete.records or 0 for delete in self.deletes))
        deletes = _divided(self._delete_inputs, _DELETE_BYTES)
        count = max(1, min(_MOST_SURVEYS, 2 * cores, len(deletes) + len(self.rows)))
        maps = tuple(
            KeySurvey(
                self.columns,
                tuple(file for share in deletes[number::count] for file in share),
                self._older_rows[number::count],
                words,
                bits,
            )
            for number in range(count)
        )
        return ShuffleJob(self.place.job_id, self.number, maps, (FilterMerge(self.place, words, bits),))

    def join(self, survey: ShuffleResult, cores: int) -> ShuffleJob:
        """The second pass, with what the first one found."""
        width = len(leaves(pa.ipc.read_schema(pa.BufferReader(self.columns.schema))))
        parts = min(_MOST_PARTS, -(-self.memory_bytes // _PART_MEMORY))
        template = KeyMap(
            self.columns,
            parts,
            self.latest,
            (),
            (),
            united([report.deleted for report in survey.reports], width),
            united([report.stored for report in survey.reports], width),
            survey.results[0],
        )
        size = min(_ROW_FILE_BYTES, 1 + sum(file.size for file in self.rows) // max(1, cores))
        maps = [replace(template, deletes=share) for share in _divided(self._delete_inputs, _DELETE_BYTES)]
        maps += [replace(template, rows=share) for share in _divided(self._older_rows, size)]
        reduces = tuple(KeyJoin(self.place, part, _PART_MEMORY) for part in range(parts))
        return ShuffleJob(self.place.job_id, self.number, tuple(maps), reduces)

    def found(self, reports: Iterable[KeyJoinReport]) -> tuple[TaskDelete, ...]:
        """The deletes that take the place of the equality deletes in the tasks."""
        return tuple(
            TaskDelete(file.path, "joined", file.size, self.latest, records=file.records)
            for report in reports
            for file in report.files
        )

    @property
    def _delete_inputs(self) -> tuple[TaskInput, ...]:
        return tuple(
            TaskInput(delete.path, delete.size, delete.records or 0, delete.sequence_number) for delete in self.deletes
        )

    @property
    def _older_rows(self) -> tuple[TaskInput, ...]:
        return tuple(file for file in self.rows if file.sequence_number < self.latest)  # I3


def plan_joins(
    tasks: Sequence[Task], partitions: Mapping[int, Partition], most_bytes: int, *, first_number: int = 0
) -> list[PlannedJoin]:
    """Return the joins for tasks whose equality deletes would take more memory than `most_bytes`.

    Groups of one partition share a join even if their deletes differ. A delete that is not listed for a group is too
    old for all files of it, and the join compares sequence numbers. Joins are numbered from `first_number`. A job must
    not use a number twice, because workers keep what they have read from the files of a join.
    """
    together: dict[tuple[object, tuple[int, ...]], list[Task]] = defaultdict(list)
    for task in tasks:
        if sum(_memory(task, ids) for ids in task.equality_schemas) > most_bytes:
            for ids in task.equality_schemas:
                together[partitions[task.group_id], ids].append(task)
    return [_planned(number, ids, some) for number, ((_, ids), some) in enumerate(together.items(), first_number)]


def with_joined_rows(tasks: Sequence[Task], found: Mapping[int, Sequence[TaskDelete]]) -> list[Task]:
    """Return the tasks with the results of joins, by group, instead of their equality deletes."""
    return [
        replace(
            task,
            deletes=(*(delete for delete in task.deletes if delete.kind != "equality"), *found[task.group_id]),
            equality_schemas={},
        )
        if task.group_id in found
        else task
        for task in tasks
    ]


def _planned(number: int, ids: tuple[int, ...], tasks: Sequence[Task]) -> PlannedJoin:
    first = tasks[0]
    deletes = {
        delete.path: delete
        for task in tasks
        for delete in task.deletes
        if delete.kind == "equality" and delete.equality_ids == ids
    }
    return PlannedJoin(
        ScratchPlace(first.job_id, number, first.output_directory),
        KeyColumns(first.equality_schemas[ids], first.constants, first.name_mapping, first.batch_rows),
        tuple(deletes.values()),
        tuple(file for task in tasks for file in task.inputs),
        frozenset(task.group_id for task in tasks),
        _key_bytes(deletes.values(), first.equality_schemas[ids]),
    )


def _memory(task: Task, ids: tuple[int, ...]) -> int:
    deletes = [delete for delete in task.deletes if delete.kind == "equality" and delete.equality_ids == ids]
    return _key_bytes(deletes, task.equality_schemas[ids])


def _key_bytes(deletes: Iterable[TaskDelete], schema: bytes) -> int:
    columns = pa.ipc.read_schema(pa.BufferReader(schema))
    return sum(expected_matcher_bytes(delete, columns) for delete in deletes)


def _divided(files: Sequence[TaskInput], size: int) -> list[tuple[TaskInput, ...]]:
    """Divide files into shares of about this many bytes. Large files are divided, small ones are put together."""
    return shares(files, -(-sum(file.size for file in files) // size)) if files else []
