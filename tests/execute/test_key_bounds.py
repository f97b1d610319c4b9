"""Files that no key of an equality delete can match are not read; all others are."""

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import field
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.deletes.key_bounds import cannot_match
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import TaskInput
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage

NOON = dt.datetime(2026, 1, 1, 12)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "stored", "deleted", "is_skipped"),
    [
        (pa.int64(), [5, 9], [1, 4], True),
        (pa.int64(), [5, 9], [10, 2**40], True),
        (pa.int64(), [5, 9], [1, 5], False),
        (pa.int64(), [5, 9], [9, 12], False),
        (pa.int64(), [5, 9], [1, 12], False),
        (pa.int32(), [-5, 9], [-7, -6], True),
        (pa.int64(), [5, None], [1, None], False),
        (pa.int64(), [5, 9], [1, None], True),
        (pa.int64(), [5, 9], [None], True),
        (pa.int64(), [5, None], [None], False),
        (pa.int64(), [5, None], [1], True),
        (pa.int64(), [None, None], [1], False),
        (pa.string(), ["b", "c"], ["a", "aé"], True),
        (pa.string(), ["b", "c"], ["é"], True),
        (pa.string(), ["b", "c"], ["a", "bb"], False),
        (pa.date32(), [dt.date(2026, 1, 2)], [dt.date(2026, 1, 1)], True),
        (pa.timestamp("us"), [NOON], [NOON], False),
        (pa.timestamp("us"), [NOON], [NOON + dt.timedelta(microseconds=1)], True),
        (pa.float64(), [1.0], [2.0], False),
        (pa.bool_(), [True], [False], False),
    ],
)
def test_a_file_is_skipped_only_if_its_bounds_exclude_every_key(
    kind: pa.DataType, stored: list[Any], deleted: list[Any], is_skipped: bool
) -> None:
    schema = pa.schema([field("key", kind, 1)])
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array(stored, kind)], schema=schema), sink)
    source = pa.BufferReader(sink.getvalue())
    footer = pq.read_metadata(source)
    file = OpenFile(TaskInput("file", len(sink.getvalue()), len(stored)), source, footer, None)
    reader = Reader(
        Storage(StorageAccess()), schema, batch_rows=100, constants={}, should_stop=lambda: False, name_mapping=None
    )
    keys = EqualityDeletes([[pa.chunked_array([pa.array(deleted, kind)])]], [7])
    assert cannot_match(file, reader, schema, {}, keys) is is_skipped
