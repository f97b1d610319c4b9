"""Compactions whose equality deletes are joined with the rows first. A threshold of one byte joins all of them."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform

from tests.builders.control import chunks, leftovers
from tests.builders.delete_scenarios import (
    Scenario,
    added_column,
    dropped_column,
    mixed,
    null_keys,
    older_sequence_numbers,
    one_key,
    one_key_set_several_times,
    promoted_column,
    renamed_column,
    several_key_sets,
)
from tests.builders.engines import Meddling
from tests.builders.events_table import (
    BY_REGION,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    make_table,
    options,
    paths,
)
from tidyberg.commit import cleanup
from tidyberg.errors import BadInput
from tidyberg.execute.engine import AnyTask, Results, ShuffleResults
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.deletes.join.joining import KeyJoin, KeyJoinReport
from tidyberg.execute.kernel.deletes.join.maps import KeyMap, KeyMapReport
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.shuffle import ArrivedChunks, Chunk, ShuffleAttempt, ShuffleJob
from tidyberg.model.task import Task
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes, delete_equal

EQUALITY: list[Scenario] = [
    one_key,
    several_key_sets,
    one_key_set_several_times,
    null_keys,
    dropped_column,
    renamed_column,
    promoted_column,
    added_column,
    older_sequence_numbers,
    mixed,
]


class Watching(InlineEngine):
    """Remembers what it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[ShuffleJob] = []
        self.tasks: list[Task] = []

    def shuffle(self, jobs: Sequence[ShuffleJob], *args: Any, **kwargs: Any) -> ShuffleResults:
        self.jobs += jobs
        return super().shuffle(jobs, *args, **kwargs)

    def run(self, tasks: Sequence[AnyTask], *args: Any, **kwargs: Any) -> Results:
        self.tasks += [task for task in tasks if isinstance(task, Task)]
        return super().run(tasks, *args, **kwargs)


def joining(strategy: Strategy = Strategy.FULL, **changes: Any) -> PlanOptions:
    return replace(options(strategy), join_delete_size=1, **changes)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("scenario", EQUALITY, ids=lambda scenario: scenario.__name__)
def test_a_compaction_that_joins_keeps_the_rows_and_drops_the_deletes(
    warehouse: Warehouse, scenario: Scenario, spec: PartitionSpec
) -> None:
    table = make_table(warehouse, spec)
    scenario(warehouse, table)
    before = warehouse.rows(table)
    engine = Watching()

    result = compact(warehouse, joining(), engine=engine)

    assert result.outcome == "committed"
    assert engine.jobs
    assert {delete.kind for task in engine.tasks for delete in task.deletes} <= {"joined", "position"}
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []
    assert sum(file.records for file in data_files(warehouse, table)) == len(before)
    assert not leftovers(warehouse, table)


def test_the_memory_of_a_job_counts_that_of_its_joins(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.execute.kernel.deletes.join.joining.peak_rss_bytes", lambda: 2**40)
    several_key_sets(warehouse, make_table(warehouse))
    assert compact(warehouse, joining()).job.worker_memory_bytes == 2**40


@pytest.mark.parametrize("scenario", [several_key_sets, null_keys, one_key_set_several_times])
def test_a_minor_compaction_that_joins_writes_vectors(warehouse: Warehouse, scenario: Scenario) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3)
    first, second, *_ = paths(warehouse, table)
    commit_deletes(table, Vectors({first: [0, 5], second: [9]}))  # a vector does not hide what a join finds
    scenario(warehouse, table)
    before, files = warehouse.rows(table, lineage=True), paths(warehouse, table)
    engine = Watching()

    assert compact(warehouse, joining(Strategy.DELETES_ONLY), engine=engine).outcome == "committed"

    assert engine.jobs
    assert warehouse.rows(table, lineage=True) == before
    assert paths(warehouse, table) == files
    assert all(path.endswith(".puffin") for path in delete_files(warehouse, table))
    assert not leftovers(warehouse, table)


def test_deletes_of_another_partition_are_not_joined_with_these_rows(warehouse: Warehouse) -> None:
    """A delete of the unpartitioned spec applies everywhere, the others in their own partition."""
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    append(warehouse, table, [6, 7], "eu")
    append(warehouse, table, [8, 9], "us")
    newest = paths(warehouse, table)[-1]
    commit_deletes(
        table,
        Positions({first: [0, 1]}),
        EqualTo({"amount": [4]}, first),  # everywhere
        EqualTo({"amount": [3]}, newest),  # us in the new spec
    )
    before = warehouse.rows(table)
    engine = Watching()
    compact(warehouse, joining(), engine=engine)
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []
    assert len(engine.jobs) == 2 * 3  # two passes for each partition


def test_the_groups_of_a_partition_share_one_join_that_outlives_the_first_commit(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    several_key_sets(warehouse, table)
    before = warehouse.rows(table)
    size = max(Path(path.removeprefix("file://")).stat().st_size for path in paths(warehouse, table))
    engine = Watching()
    how = joining(max_group_size=2 * size + 1, target_file_size=2 * size + 1, commit_every=1)
    result = compact(warehouse, how, engine=engine)
    assert len(result.plan.groups) > 1
    assert len(chunks(table)) == len(result.plan.groups)
    assert len(engine.jobs) == 2 * 3  # two passes for each set of columns
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_a_second_round_finds_keys_that_were_deleted_during_the_first(warehouse: Warehouse) -> None:
    """Workers keep the filter of a join by its path. So the joins of all rounds must write different paths."""
    table = make_table(warehouse)
    one_key(warehouse, table)
    rows: list[list[str]] = []

    def delete_more() -> None:
        first = paths(warehouse, table)[0]
        commit_deletes(table, Positions({first: [7]}), EqualTo({"id": [1, 22, 33, 44]}, first))
        rows.append(warehouse.rows(table))

    result = compact(warehouse, joining(), engine=Meddling(delete_more))

    assert any("planned again" in note for note in result.job.notes)
    assert warehouse.rows(table) == rows[0]
    assert delete_files(warehouse, table) == []
    assert not leftovers(warehouse, table)


def test_a_join_reads_keys_of_older_files_only(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    one_key(warehouse, table)
    append(warehouse, table, [6, 7], "eu")
    newer = set(paths(warehouse, table)[-2:])
    engine = Watching()
    compact(warehouse, joining(), engine=engine)
    read = {file.path for job in engine.jobs for task in job.maps for file in task.inputs}
    assert newer.isdisjoint(read)


@pytest.mark.parametrize(("size", "joins"), [(1000, True), (100_000, False)])
def test_deletes_are_joined_above_a_size(warehouse: Warehouse, size: int, joins: bool) -> None:
    table = make_table(warehouse)
    delete_equal(table, paths(warehouse, table)[0], {"id": range(20)})
    before = warehouse.rows(table)
    engine = Watching()
    compact(warehouse, replace(options(), join_delete_size=size), engine=engine)
    assert bool(engine.jobs) == joins
    assert warehouse.rows(table) == before


def test_the_size_must_be_positive() -> None:
    with pytest.raises(BadInput, match="join_delete_size must be at least 1"):
        PlanOptions(join_delete_size=0)


@pytest.mark.parametrize("step", ["chunks", "reduce"])
def test_a_task_of_a_join_that_fails_once_is_repeated(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Positions depend on files only, so a repeated task finds the same. Files of the first attempt are removed."""
    table = make_table(warehouse)
    several_key_sets(warehouse, table)
    before = warehouse.rows(table)
    failed: list[ShuffleAttempt] = []
    chunks_of, reduce_of = KeyMap.chunks, KeyJoin.reduce

    def fail(attempt: ShuffleAttempt) -> None:
        if attempt.number == 0:
            failed.append(attempt)
            raise KernelFailure(FailureKind.STORAGE, "the store did not answer")

    def chunks_then_fail(self: KeyMap, attempt: ShuffleAttempt) -> Generator[Chunk, None, KeyMapReport]:
        report = yield from chunks_of(self, attempt)
        fail(attempt)
        return report

    def reduce_then_fail(self: KeyJoin, arrived: ArrivedChunks, attempt: ShuffleAttempt) -> KeyJoinReport:
        report = reduce_of(self, arrived, attempt)
        fail(attempt)
        return report

    if step == "chunks":
        monkeypatch.setattr(KeyMap, "chunks", chunks_then_fail)
    else:
        monkeypatch.setattr(KeyJoin, "reduce", reduce_then_fail)
    assert compact(warehouse, joining(), verify=VerifyMode.COUNTS).outcome == "committed"
    assert failed
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_files_of_a_join_that_cannot_be_removed_are_left_to_the_next_run(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(warehouse)
    one_key(warehouse, table)
    before = warehouse.rows(table)

    def refuse(*_: object) -> None:
        raise OSError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(cleanup, "delete", refuse)
        result = compact(warehouse, joining())
    assert result.outcome == "committed"
    assert leftovers(warehouse, table)
    compact(warehouse, joining())
    assert not leftovers(warehouse, table)
    assert warehouse.rows(table) == before
