"""Footers of real files decide which columns get a dictionary."""

import hashlib
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import field
from tidyberg.execute.kernel.columns.project import leaves, select
from tidyberg.execute.kernel.write.dictionaries import dictionaries_from_footers

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
def test_a_dictionary_that_the_inputs_writer_gave_up_is_not_tried_again(name: str, limit: int) -> None:
    values, worth_it = COLUMNS[name]
    schema = pa.schema([field("column", values.type, 1)])
    sink = BytesIO()
    options: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": limit}
    pq.write_table(pa.table([values], schema=schema), sink, **options)
    footer = pq.read_metadata(sink)
    assert dictionaries_from_footers(leaves(schema), [(footer, select(schema, schema))]) == {1: worth_it}


def footer_of(values: list[float | None], schema: pa.Schema, **options: Any) -> pq.FileMetaData:
    sink = BytesIO()
    pq.write_table(pa.table([pa.array(values, pa.float64())], schema=schema), sink, **options)
    return pq.read_metadata(sink)


@pytest.mark.parametrize(
    ("plain", "verdicts"),
    [(None, {}), ([0.0, -0.0], {1: False}), ([None, None], {}), ([], {})],
    ids=["all have one", "one has none", "one has no values", "one has no rows"],
)
def test_floats_of_plain_pages_get_no_dictionary(plain: list[float | None] | None, verdicts: dict[int, bool]) -> None:
    """Spark's dictionary filters sort -0.0 below 0.0, so it would lose rows that it found in plain pages."""
    schema = pa.schema([field("column", pa.float64(), 1)])
    footers = [footer_of([0.5, -0.0], schema)]
    if plain is not None:
        footers.append(footer_of(plain, schema, use_dictionary=False))
    assert (
        dictionaries_from_footers(leaves(schema), [(footer, select(schema, schema)) for footer in footers]) == verdicts
    )
