"""Map tasks of a sort: rows reach their ranges, whether they are gathered or sliced."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.tasks import make_task
from tidyberg.execute.kernel.order.gathering import gathered
from tidyberg.execute.kernel.order.ranges import RangeBounds
from tidyberg.execute.kernel.range_sort import cut
from tidyberg.execute.kernel.range_sort.ipc_chunks import from_chunk, to_chunks
from tidyberg.execute.tasks.range_sort import cut_tasks
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import TaskInput

COLUMN = st.one_of(
    st.lists(st.text(min_size=3, max_size=3, alphabet="abc"), min_size=1),
    st.lists(st.text(max_size=3, alphabet="abé"), min_size=1),
    st.lists(st.one_of(st.none(), st.just("abc")), min_size=1),
    st.lists(st.just(""), min_size=1),
)


@given(st.data(), st.sampled_from([pa.string(), pa.binary(), pa.large_string()]))
def test_gathered_values_are_those_at_the_positions(data: st.DataObject, kind: pa.DataType) -> None:
    values = data.draw(COLUMN)
    begin = data.draw(st.integers(0, len(values) - 1))
    end = data.draw(st.integers(begin + 1, len(values)))
    array = pa.array(values, pa.string()).cast(kind).slice(begin, end - begin)
    positions = data.draw(st.lists(st.integers(0, end - begin - 1), max_size=2 * len(values)))
    found = gathered([array], np.array(positions, np.int64), pa.schema([("x", kind)])).column(0)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == [array[position].as_py() for position in positions]


@pytest.mark.parametrize("values", [["x", "abc", "def", "ghi"], ["", "ab", "a", "abc"]], ids=["equal", "unequal"])
def test_strings_after_the_first_of_an_array_are_gathered(values: list[str]) -> None:
    array = pa.array(values).slice(1)
    found = gathered([array], np.array([2, 0, 1]), pa.schema([("x", pa.string())])).column(0)
    assert found.to_pylist() == [values[3], values[1], values[2]]


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_rows_are_sliced_if_batches_are_in_the_order_of_their_ranges(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "_MIN_PIECE_ROWS", 1)
    rng = np.random.default_rng(7)
    batches, ranges = [], []
    for number in range(3):
        some = rng.integers(0, 5, 40 + number).astype(np.int32)
        if order == "sorted":
            some.sort()
        ranges.append(some)
        texts = pa.array([f"text {each % 4}" for each in range(len(some))]).dictionary_encode()
        batches.append(pa.record_batch({"id": rng.integers(0, 1000, len(some)), "range": some, "text": texts}))
    rows = pa.Table.from_batches(batches).unify_dictionaries()
    every = np.concatenate(ranges)
    counts = np.bincount(every, minlength=6)
    starts = cut._ascending_from(every, rows)
    assert (starts is not None) == (order == "sorted")
    expected = {number: part.to_pylist() for number, part in cut._gathered_parts(rows, every, counts)}
    assert set(expected) == set(every.tolist())
    if starts is not None:
        sliced = dict(cut._sliced_parts(rows, every, counts, starts))
        sent = {number: [from_chunk(chunk) for chunk in to_chunks(part)] for number, part in sliced.items()}
        assert {number: pa.concat_tables(parts).to_pylist() for number, parts in sent.items()} == expected


@pytest.mark.parametrize(("ranges", "collected"), [(1, 32), (256, 32), (800, 100), (5_000, 128)])
def test_more_rows_are_cut_at_once_if_there_are_more_ranges(ranges: int, collected: int, tmp_path: Path) -> None:
    task = make_task([], pa.schema([pa.field("x", pa.int64())]), tmp_path)
    bounds = RangeBounds(SortKey((SortField(1),)), ranges, b"", b"", 0)
    assert cut.Cut(0, task, bounds, ranges, 1, {})._collected_bytes(256 * MB) == collected * MB


def test_many_small_pieces_are_gathered() -> None:
    ranges = np.arange(100, dtype=np.int32)
    rows = pa.table({"id": ranges})
    assert cut._ascending_from(ranges, rows) is None
    few = np.repeat(np.arange(2, dtype=np.int32), cut._MIN_PIECE_ROWS)
    assert cut._ascending_from(few, pa.table({"id": few})) is not None


@pytest.mark.parametrize(
    ("files", "cores", "tasks"),
    [(1, 2, 1), (96, 2, 4), (300, 2, 12), (300, 4, 12), (300, 1, 11), (96, 100, 57), (16, 8, 9)],
    ids=[
        "one small file",
        "two per core",
        "eleven of 128 MB",
        "four cores",
        "one core",
        "more cores than work",
        "as small as allowed",
    ],
)
def test_map_tasks_are_as_many_for_each_core(files: int, cores: int, tasks: int, tmp_path: Path) -> None:
    inputs = [TaskInput(f"{number}.parquet", round(4.8 * MB), 1) for number in range(files)]
    task = make_task(inputs, pa.schema([pa.field("x", pa.int64())]), tmp_path)
    assert len(cut_tasks(task, cores)) == tasks
