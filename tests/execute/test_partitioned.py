"""Rows are written to their partitions: one per output, without loss, with bounded memory and open files."""

import dataclasses
import math
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.tasks import NUMBERS, field, make_task, number_files, read_rows, run, write_file
from tidyberg.execute.kernel.write.partitioned import partition_leaves, split_by_partition
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskPartitionField, output_name


@pytest.mark.parametrize("memory", [2_000, 256 * 1024 * 1024], ids=["spilled", "in-memory"])
def test_every_output_holds_the_rows_of_one_partition(tmp_path: Path, memory: int) -> None:
    inputs = number_files(tmp_path / "in", 4, 500)
    task = make_task(
        inputs,
        NUMBERS,
        tmp_path / "out",
        partitioning=(TaskPartitionField(1, "truncate[300]"),),
        memory_bytes=memory,
        batch_rows=128,
        target=10_000_000,
    )
    result = run(task)
    assert [output.partition for output in result.outputs] == [(start,) for start in range(0, 2000, 300)]
    for output in result.outputs:
        assert output.partition is not None
        ids = pq.read_table(output.path)["id"].to_pylist()
        assert ids == list(range(output.partition[0], min(2000, output.partition[0] + 300))), "in their order"
    assert result.rows_read == result.rows_written == 2000
    names = [Path(output.path).name for output in result.outputs]
    assert names == [output_name("job", 0, 0, number) for number in range(7)], "I6: without a gap"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names


def test_a_large_partition_is_cut_by_size_and_others_are_not(tmp_path: Path) -> None:
    schema = pa.schema([field("part", pa.string(), 1), field("noise", pa.int64(), 2)])
    noise = np.random.default_rng(1).integers(0, 2**62, 60_000)
    table = pa.table({"part": ["big"] * 59_000 + ["small"] * 1_000, "noise": noise}, schema=schema)
    inputs = [write_file(tmp_path / "in.parquet", table)]
    task = make_task(
        inputs, schema, tmp_path / "out", target=160_000, partitioning=(TaskPartitionField(1, "identity"),)
    )
    result = run(task)
    assert [output.partition for output in result.outputs].count(("big",)) == 3
    assert [output.partition for output in result.outputs].count(("small",)) == 1
    assert len({output.path for output in result.outputs}) == 4
    assert sorted(row["noise"] for row in read_rows([o.path for o in result.outputs])) == sorted(noise.tolist())


def test_an_unpartitioned_spec_is_one_partition(tmp_path: Path) -> None:
    task = make_task(number_files(tmp_path / "in", 2, 10), NUMBERS, tmp_path / "out", partitioning=())
    assert [output.partition for output in run(task).outputs] == [()]


@pytest.mark.parametrize("memory", [2_000, 256 * 1024 * 1024], ids=["spilled", "in-memory"])
def test_a_task_that_is_stopped_leaves_nothing(tmp_path: Path, memory: int) -> None:
    inputs = number_files(tmp_path / "in", 4, 500)
    columns = (TaskPartitionField(1, "bucket[50]"),)
    task = make_task(inputs, NUMBERS, tmp_path / "out", partitioning=columns, memory_bytes=memory, batch_rows=128)
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return len(list((tmp_path / "out").glob("*"))) >= 3

    with pytest.raises(KernelFailure) as failure:
        run(task, should_stop=should_stop)
    assert failure.value.kind is FailureKind.STOPPED
    assert list((tmp_path / "out").iterdir()) == []
    assert asked


def test_a_partition_column_that_is_not_there_is_a_failure_by_name(tmp_path: Path) -> None:
    task = make_task(number_files(tmp_path / "in", 1, 5), NUMBERS, tmp_path / "out")
    with pytest.raises(KernelFailure, match="uses field 77"):
        run(dataclasses.replace(task, partitioning=(TaskPartitionField(77, "identity"),)))


VALUES = pa.schema(
    [
        field("number", pa.float64(), 1),
        field("text", pa.string(), 2),
        field("place", pa.struct([field("city", pa.string(), 4)]), 3),
        field("key", pa.uuid(), 5),
    ]
)
_KEYS = [uuid4() for _ in range(3)]
_ROW = st.fixed_dictionaries(
    {
        "number": st.sampled_from([None, math.nan, 0.0, -0.0, 1.5]),
        "text": st.sampled_from([None, "", "a", "äb", "äbc"]),
        "place": st.sampled_from([None, {"city": None}, {"city": "x"}]),
        "key": st.sampled_from([None, *(key.bytes for key in _KEYS)]),
    }
)


@settings(max_examples=60)
@given(rows=st.lists(_ROW, min_size=1, max_size=30))
def test_rows_fall_into_the_partitions_that_plain_python_finds(rows: list[dict[str, Any]]) -> None:
    table = pa.table(
        [
            pa.array([row[column.name] for row in rows], getattr(column.type, "storage_type", column.type)).cast(
                column.type
            )
            for column in VALUES
        ],
        schema=VALUES,
    )
    columns = (
        TaskPartitionField(1, "identity"), TaskPartitionField(2, "truncate[2]"), TaskPartitionField(4, "identity"),
        TaskPartitionField(5, "identity"), TaskPartitionField(5, "void"),
    )  # fmt: skip
    found = {
        repr(values): piece.num_rows for values, piece in split_by_partition(table, partition_leaves(VALUES, columns))
    }
    keys = {key.bytes: key for key in _KEYS}
    expected: dict[str, int] = {}
    for row in rows:
        text, place = row["text"], row["place"]
        values = (
            row["number"], None if text is None else text[:2], place["city"] if place else None,
            keys.get(row["key"]), None,
        )  # fmt: skip
        expected[repr(values)] = expected.get(repr(values), 0) + 1
    assert found == expected
