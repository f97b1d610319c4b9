"""The compression level of a column: the table's, unless the fastest gives as little."""

import hashlib
from typing import Any

import pyarrow as pa
import pytest

from tidyberg.execute.kernel.levels import judge_levels
from tidyberg.execute.kernel.project import leaves

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


def test_only_columns_that_gain_nothing_are_compressed_faster(table: pa.Table) -> None:
    levels = judge_levels(table, leaves(table.schema), OPTIONS, 10 * ROWS)
    assert isinstance(levels, dict)
    assert set(levels) == {"key", "text", "nested.id"}
    assert levels["key"] == 1
    assert levels["text"] == 3


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
    assert judge_levels(table, leaves(table.schema), chosen, rows) == chosen["compression_level"]
