"""Shuffles are refused before they start if they cannot fit, and never if they would have fitted."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.builders.shuffles import numbered_job
from tests.builders.sorted_plans import shuffle_small_groups
from tests.builders.tasks import STORAGE, field, make_task, write_file
from tests.execute.shuffle_checks import shuffled
from tidyberg.control.sorted_groups import SortedGroups
from tidyberg.errors import StorageError
from tidyberg.execute.engine import AnyTask, CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.tasks.scratch_need import fixed_bytes, scratch_need
from tidyberg.model.options import PlanOptions
from tidyberg.model.shuffle import ScratchNeed, ShuffleJob
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import SampleResult, TaskDelete, TaskInput

BY_ID = SortKey((SortField(1),))
WIDE = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("flag", pa.bool_(), 2),
        field("amount", pa.decimal128(20, 2), 3),
        field("text", pa.string(), 4),
        field("kind", pa.string(), 5),
        field("place", pa.struct([field("x", pa.float64(), 7), field("name", pa.string(), 8)]), 6),
        field("numbers", pa.list_(field("element", pa.int32(), 10)), 9),
    ]
)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


class Recording(InlineEngine):
    """Remembers the shuffles that it was asked for, what they have sent, and all tasks."""

    def __init__(self) -> None:
        super().__init__(2)
        self.jobs: list[ShuffleJob] = []
        self.tasks: list[AnyTask] = []
        self.bytes_sent = 0

    def run(self, tasks: Sequence[AnyTask], *args: Any, **kwargs: Any) -> Any:
        self.tasks += tasks
        return super().run(tasks, *args, **kwargs)

    def shuffle(self, jobs: Sequence[ShuffleJob], *args: Any, **kwargs: Any) -> Any:
        self.jobs += jobs
        for result in super().shuffle(jobs, *args, **kwargs):
            self.bytes_sent += sum(report.bytes_sent for report in result.reports)
            yield result


def free_space(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 40, (1 << 40) - free, free))


def test_a_shuffle_that_cannot_fit_is_refused_before_its_first_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    free_space(monkeypatch, 4_999)
    engine = Recording()
    fits, other = numbered_job(), replace(numbered_job(group_id=8), scratch=ScratchNeed(5_000, 9_000))
    with pytest.raises(StorageError) as raised:
        shuffled(engine, fits, other)
    message = str(raised.value)
    for words in (f"disk of {tmp_path} has only", "(4,999 bytes) free", "(5,000 bytes)", "TMPDIR", "spark.local.dir"):
        assert words in message
    assert not engine.tasks
    assert not list(tmp_path.iterdir())


def test_a_shuffle_that_may_just_fit_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for what is likely, nor for the sum of shuffles that can run one after the other."""
    free_space(monkeypatch, 5_000)
    jobs = [replace(numbered_job(group_id=group), scratch=ScratchNeed(5_000, 9_000)) for group in (7, 8)]
    assert set(shuffled(InlineEngine(), *jobs)) == {7, 8}


def _rows(count: int, text: str | None) -> pa.Table:
    return pa.table(
        [
            pa.array(range(count), pa.int64()),
            pa.array([None] * count, pa.bool_()),
            pa.array([Decimal(n) for n in range(count)], pa.decimal128(20, 2)),
            pa.array([None if text is None else f"{text} {n}" for n in range(count)], pa.string()),
            pa.array([f"kind {n % 3}" for n in range(count)], pa.string()),
            pa.array([{"x": 0.5, "name": None} if n % 2 else None for n in range(count)], WIDE.field("place").type),
            pa.array([[n] if n % 5 == 0 else [] for n in range(count)], WIDE.field("numbers").type),
        ],
        schema=WIDE,
    )


@pytest.mark.parametrize("text", [None, "short", "a text that takes most of the row " * 8])
def test_the_least_need_is_below_what_a_sort_sends_but_not_far(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffle_small_groups(monkeypatch, 1 << 20)
    files = [write_file(tmp_path / f"in-{n}.parquet", _rows(20_000, text)) for n in range(3)]
    task = make_task(files, WIDE, tmp_path / "out", outputs=3, mode="sort", sort_key=BY_ID, parts=3)
    engine = Recording()
    groups = SortedGroups([task], Schema(NestedField(1, "id", LongType())), PlanOptions())
    list(groups.run(engine, STORAGE, CancelToken()))
    (need,) = [job.scratch for job in engine.jobs]
    assert need is not None
    assert 0.45 * engine.bytes_sent < need.least <= engine.bytes_sent
    assert 0.8 * engine.bytes_sent < need.likely < 1.25 * engine.bytes_sent


def test_rows_that_deletes_may_remove_are_not_needed() -> None:
    schema = pa.schema([field("id", pa.int64(), 1)])
    task = make_task([TaskInput("a", 10, 1_000), TaskInput("b", 10, 500)], schema, Path("out"), sort_key=BY_ID)
    samples = [SampleResult("job", 0, b"", 8.0, {}, frozenset()), SampleResult("job", 0, b"", 20.0, {}, frozenset())]
    assert scratch_need(task, samples) == ScratchNeed(1_500 * 8, 1_500 * 20)
    positions = TaskDelete("p", "position", 10, 1, records=300)
    vector = TaskDelete("v", "dv", 10, 1, records=200)
    assert scratch_need(replace(task, deletes=(positions, vector)), samples).least == 1_000 * 8
    assert scratch_need(replace(task, deletes=(positions,) * 6), samples).least == 0
    for unknown in (TaskDelete("e", "equality", 10, 1, records=1), TaskDelete("j", "joined", 10, 1)):
        assert scratch_need(replace(task, deletes=(unknown,)), samples).least == 0


def test_values_of_any_type_take_at_least_their_fixed_bytes() -> None:
    for kind, least in (
        (pa.bool_(), 0.125),
        (pa.date32(), 4),
        (pa.timestamp("us", "UTC"), 8),
        (pa.binary(16), 16),
        (pa.null(), 0),
        (pa.uuid(), 16),
        (pa.map_(pa.string(), pa.int64()), 4),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), 12),
    ):
        assert fixed_bytes(kind) == least
        rows = pa.table([pa.nulls(8_000, kind)], names=["a"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        assert sink.tell() >= 8_000 * least
