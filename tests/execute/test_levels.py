"""The compression level of a column: the table's, unless a faster one makes the file no larger."""

import hashlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.write.compression_levels import cached_levels, choose_levels, measure_levels

ROWS = 60_000
OPTIONS: dict[str, Any] = {
    "compression": "ZSTD",
    "compression_level": 3,
    "use_dictionary": False,
    "store_schema": False,
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(
        {
            "key": [hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest() for n in range(ROWS)],
            "text": [f"the quick brown fox number {n % 977} jumps over {n % 89} lazy dogs" for n in range(ROWS)],
            "nested": [{"id": n} for n in range(ROWS)],
        }
    )


def test_columns_of_random_keys_are_compressed_faster(table: pa.Table) -> None:
    levels = measure_levels(table, leaves(table.schema), OPTIONS, 10 * ROWS)
    assert isinstance(levels, dict)
    assert set(levels) == {"key", "text", "nested.id"}
    assert levels["key"] == 1


def test_where_nothing_was_saved_a_column_that_would_grow_keeps_the_tables_level(table: pa.Table) -> None:
    texts = table.select(["text"])
    assert measure_levels(texts, leaves(texts.schema), OPTIONS, 10 * ROWS) == {"text": 3}


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, ROWS),  # too few rows to be worth trying
        ({"compression": "GZIP"}, 10 * ROWS),
        ({"compression_level": 1}, 10 * ROWS),
        ({"compression_level": None}, 10 * ROWS),
    ],
)
def test_otherwise_the_level_is_the_tables_own(table: pa.Table, options: dict[str, Any], rows: int) -> None:
    chosen = {**OPTIONS, **options}
    assert measure_levels(table, leaves(table.schema), chosen, rows) == chosen["compression_level"]


def test_ids_and_times_are_smallest_at_the_fastest_level() -> None:
    ids = [int.from_bytes(hashlib.md5(str(n).encode(), usedforsecurity=False).digest()[:3]) for n in range(ROWS)]
    table = pa.table({"user_id": ids})
    assert measure_levels(table, leaves(table.schema), OPTIONS, 10 * ROWS) == {"user_id": -2}


SIZE = st.integers(1, 10**6)


@given(st.lists(st.tuples(SIZE, SIZE, SIZE), max_size=12))
def test_faster_levels_never_make_the_file_larger(columns: list[tuple[int, int, int]]) -> None:
    chosen = choose_levels([[column[level] for column in columns] for level in range(3)])
    assert sum(column[level] for column, level in zip(columns, chosen, strict=True)) <= sum(c[-1] for c in columns)
    for column, level in zip(columns, chosen, strict=True):
        assert column[level] <= 1.1 * min(column)
        assert all(column[faster] > column[level] for faster in range(level)), "a faster one is as good"


def test_what_random_keys_save_is_spent_on_columns_that_grow_least() -> None:
    at_levels = [[900, 310, 330, 340], [1_000, 300, 300, 300]]
    assert choose_levels(at_levels) == [0, 0, 0, 1]


def test_a_column_that_may_not_grow_to_the_fastest_level_may_to_the_second() -> None:
    at_levels = [[5_000, 400], [900, 310], [1_000, 300]]
    assert choose_levels(at_levels) == [1, 1]


def test_later_tasks_of_a_job_in_a_partition_follow_the_first(table: pa.Table) -> None:
    all_leaves = leaves(table.schema)
    part = ("a job of this test", "a partition")
    few = cached_levels(part, table, all_leaves, OPTIONS, ROWS)
    assert few == 3, "too few rows to try: nothing to follow"
    first = cached_levels(part, table, all_leaves, OPTIONS, 10 * ROWS)
    assert isinstance(first, dict)
    assert first["key"] == 1

    empty = table.slice(0, 0)
    assert cached_levels(part, empty, all_leaves, OPTIONS, 10 * ROWS) == first
    elsewhere = ("a job of this test", "another partition")
    assert cached_levels(
        elsewhere, table.select(["text"]), leaves(table.select(["text"]).schema), OPTIONS, 10 * ROWS
    ) == {"text": 3}
