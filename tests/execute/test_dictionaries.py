"""Which columns are worth a dictionary, by the footers of real files."""

import hashlib
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.execute.builders import field
from tidyberg.execute.kernel.dictionaries import judge_footers
from tidyberg.execute.kernel.project import leaves, select

ROWS = 60_000


def keys(rows: int) -> list[str]:
    return [hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest() for n in range(rows)]


COLUMNS = {
    "random keys": (pa.array(keys(ROWS)), False),
    "ids that ascend": (pa.array(range(ROWS), pa.int64()), False),
    "many of 32 bits": (pa.array([n * 7 for n in range(ROWS)], pa.int32()), False),
    "a hundred keys": (pa.array(keys(100)).take(pa.array([int(key, 16) % 100 for key in keys(ROWS)])), True),
    "numbers of few kinds": (pa.array([n % 50 for n in range(ROWS)], pa.int64()), True),
    "mostly null": (pa.array([None if n % 10 else f"kind {n % 7}" for n in range(ROWS)]), True),
}


@pytest.mark.parametrize("limit", [64 * 1024, 1024 * 1024])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_dictionary_that_its_writer_gave_up_is_not_tried_again(name: str, limit: int) -> None:
    values, worth_it = COLUMNS[name]
    schema = pa.schema([field("column", values.type, 1)])
    sink = BytesIO()
    options: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": limit}
    pq.write_table(pa.table([values], schema=schema), sink, **options)
    footer = pq.read_metadata(sink)
    assert judge_footers(leaves(schema), [(footer, select(schema, schema))]) == {1: worth_it}
