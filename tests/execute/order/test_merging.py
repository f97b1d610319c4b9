"""Sorted runs are merged as streams, and a run that is not sorted is found out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.sort_models import ORDERED, model_key, rows_of, sort_fields, table_of
from tests.builders.tasks import field
from tidyberg.execute.kernel.order.merging import NotInOrder, merged_runs
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.model.sort_key import SortField, SortKey

KINDS = st.sampled_from(sorted(ORDERED)).map(ORDERED.__getitem__)
SCHEMA = pa.schema([field("id", pa.int64(), 1), field("run", pa.int64(), 2)])
KEY = SortKey((SortField(1),))


def batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    return iter(table.combine_chunks().to_batches(max_chunksize=rows))


@settings(max_examples=150)
@given(data=st.data())
def test_merged_runs_equal_the_sorted_rows_of_all_runs(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=3))
    fields = data.draw(sort_fields(kinds))
    key = model_key(kinds, fields)
    runs = [sorted(rows, key=key) for rows in data.draw(st.lists(rows_of(kinds, 12), min_size=1, max_size=5))]
    tables = [table_of(rows, kinds) for rows in runs]
    size = data.draw(st.integers(1, 6))
    merged = list(
        merged_runs([batches(one, size) for one in tables], tables[0].schema, SortKey(fields), rows_per_run=size)
    )
    found = pa.concat_tables([tables[0].schema.empty_table(), *merged])
    # Rows with equal keys may come in any order.
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, pa.concat_tables(tables).to_pylist()))
    check = OrderCheck(found.schema, SortKey(fields))
    for batch in found.to_batches(max_chunksize=3):
        check.add(batch)
    assert check.first_wrong is None


def run_of(ids: Any, number: int) -> pa.Table:
    return pa.table([np.asarray(ids), np.full(len(ids), number)], schema=SCHEMA)


@pytest.mark.parametrize("overlap", ["all", "none", "one-value"])
def test_few_rows_of_each_run_are_in_memory(overlap: str) -> None:
    rng = np.random.default_rng(1)
    read = [0] * 20
    emitted = 0
    runs = []

    def counted(number: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in batches(table, 100):
            read[number] += batch.num_rows
            yield batch

    for number in range(20):
        ids = {
            "all": np.sort(rng.integers(0, 10**6, 5000)),
            "none": np.sort(rng.integers(number * 1000, (number + 1) * 1000, 5000)),
            "one-value": np.full(5000, 7),
        }[overlap]
        runs.append(counted(number, run_of(ids, number)))
    parts = []
    for table in merged_runs(runs, SCHEMA, KEY, rows_per_run=100):
        parts.append(table)
        assert sum(read) - emitted <= 20 * 200, "at most two batches of each run wait"
        emitted += table.num_rows
    found = pa.concat_tables(parts)["id"].to_numpy()
    assert len(found) == 100_000
    assert (np.diff(found) >= 0).all()


def test_a_run_that_is_not_sorted_is_named() -> None:
    wrong = run_of([1, 2, 3, 4, 9, 8], 1)
    with pytest.raises(NotInOrder) as found:
        list(merged_runs([batches(run_of([1, 5], 0), 2), batches(wrong, 2)], SCHEMA, KEY, rows_per_run=2))
    assert (found.value.run, found.value.row) == (1, 5)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_check_finds_the_first_wrong_row_in_and_between_batches(size: int) -> None:
    check = OrderCheck(SCHEMA, KEY)
    for batch in batches(run_of([1, 2, 3, 2, 9, 8], 0), size):
        check.add(batch)
    assert check.first_wrong == 3


def test_empty_batches_and_runs_do_no_harm() -> None:
    empty = run_of([], 0).to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]
    runs = [iter([*empty, *batches(run_of([2], 0), 1)]), iter(empty), batches(run_of([1], 2), 1)]
    merged = pa.concat_tables(list(merged_runs(runs, SCHEMA, KEY, rows_per_run=4)))
    assert merged["id"].to_pylist() == [1, 2]
    assert list(merged_runs([], SCHEMA, KEY, rows_per_run=4)) == []
