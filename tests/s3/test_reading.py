"""Reads large files of a store with one request for the footer and one for the rest, for any number of row groups."""

import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.s3_warehouse import noise
from tidyberg.execute.kernel.read import open_files
from tidyberg.execute.kernel.read import reader as read
from tidyberg.execute.kernel.read.open_files import open_file
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Share, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.reading import S3InputFile
from tidyberg.storage.s3.store import S3Object, S3Store


def with_ids(table: pa.Table) -> pa.Table:
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(table.schema, start=1)
    ]
    return table.cast(pa.schema(fields))


def stored(store: S3Store, bucket: str, table: pa.Table, rows: int) -> TaskInput:
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=rows, write_page_index=True)
    store.put(S3Object(bucket, "in.parquet"), content.getvalue())
    return TaskInput(f"s3://{bucket}/in.parquet", len(content.getvalue()), table.num_rows)


def rows_of(storage: Storage, file: TaskInput, schema: pa.Schema) -> pa.Table:
    reader = Reader(storage, schema, batch_rows=10_000, constants={}, should_stop=lambda: False)
    opened = open_file(storage, file)
    return pa.Table.from_batches(list(reader.batches(opened, reader.selection(opened))), schema)


def test_a_large_file_costs_two_requests(storage: Storage, store: S3Store, bucket: str) -> None:
    table = with_ids(noise(900_000, 0))
    file = stored(store, bucket, table, rows=100_000)
    assert file.size > open_files.FETCHED_WHOLE
    assert rows_of(storage, file, table.schema) == table
    assert storage.requests == {"get": 2}


def test_a_share_of_a_large_file_costs_two_requests_as_well(storage: Storage, store: S3Store, bucket: str) -> None:
    table = with_ids(noise(900_000, 0))
    file = stored(store, bucket, table, rows=100_000)
    cuts = [0, file.size // 4, file.size // 2, file.size]
    shares = [replace(file, share=Share(begin, end, slack=file.size // 100)) for begin, end in pairwise(cuts)]
    read_apart = [rows_of(storage, share, table.schema) for share in shares]
    assert pa.concat_tables(read_apart) == table
    assert [part.num_rows for part in read_apart] == pytest.approx([225_000, 225_000, 450_000], abs=100)
    assert storage.requests == {"get": 2 * len(shares)}


def test_pieces_of_any_size_give_the_same_rows(
    storage: Storage, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "FETCHED_WHOLE", 0)
    monkeypatch.setattr(read, "_STREAMED_AT_ONCE", 100_000)
    table = with_ids(noise(60_000, 1))
    file = stored(store, bucket, table, rows=1_000)
    assert rows_of(storage, file, table.schema) == table
    assert storage.requests == {"get": 2}


def test_a_few_columns_are_read_by_requests_of_their_own(
    storage: Storage, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "FETCHED_WHOLE", 0)
    table = with_ids(noise(200_000, 2))
    file = stored(store, bucket, table, rows=100_000)
    assert rows_of(storage, file, table.select(["b"]).schema) == table.select(["b"])
    assert storage.requests["get"] <= 4


def test_a_small_file_costs_one_request(storage: Storage, store: S3Store, bucket: str) -> None:
    table = with_ids(noise(1_000, 3))
    file = stored(store, bucket, table, rows=100)
    assert rows_of(storage, file, table.schema) == table
    assert storage.requests == {"get": 1}


@pytest.mark.parametrize("size", [-1, 1])
def test_a_file_with_another_size_than_in_the_manifest_is_damaged(
    storage: Storage, store: S3Store, bucket: str, size: int
) -> None:
    file = stored(store, bucket, with_ids(noise(1_000, 4)), rows=100)
    with pytest.raises(KernelFailure) as failed:
        open_file(storage, TaskInput(file.path, file.size + size, file.records))
    assert failed.value.kind is FailureKind.DAMAGED


def test_random_reads_return_the_bytes_of_the_object(store: S3Store, bucket: str, tmp_path: Path) -> None:
    drawn = np.random.default_rng(5)
    content = drawn.bytes(3_000_000)
    store.put(S3Object(bucket, "in"), content)
    file = S3InputFile(store, S3Object(bucket, "in"), len(content), lambda _: None)
    here = 0
    for _ in range(60):
        if drawn.random() < 0.6:
            here = int(drawn.integers(0, len(content)))
            file.seek(here)
        length = int(drawn.integers(0, 400_000))
        assert file.read(length) == content[here : here + length]
        here = min(len(content), here + length)
    file.close()
