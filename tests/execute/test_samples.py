"""Samples of a key: they need little of the files."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.builders.tasks import STORAGE, field, make_task, write_file
from tidyberg.execute.kernel.range_sort.sample import sample_keys
from tidyberg.execute.tasks.range_sort import sample_tasks
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Place, Storage

SCHEMA = pa.schema([field("id", pa.int64(), 1), field("payload", pa.binary(), 2)])
ROWS = 20_000
PAYLOAD = 100


class CountingFile(io.FileIO):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size) or b""
        CountingFile.read_bytes += len(data)
        return data


class CountingStorage(Storage):
    def open_input(self, place: Place, size: int | None = None) -> pa.NativeFile:
        return pa.PythonFile(CountingFile(place.path), mode="r")


def payload_file(path: Path, seed: int) -> TaskInput:
    rng = np.random.default_rng(seed)
    payloads = [rng.bytes(PAYLOAD) for _ in range(ROWS)]
    rows = pa.table([pa.array(rng.integers(0, 1 << 40, ROWS)), pa.array(payloads, pa.binary())], schema=SCHEMA)
    return write_file(path, rows, use_dictionary=False)


def test_a_sample_reads_other_columns_than_the_key_only_to_measure_rows(tmp_path: Path) -> None:
    files = [payload_file(tmp_path / f"{number}.parquet", number) for number in range(10)]
    task = make_task(files, SCHEMA, tmp_path, mode="sort", sort_key=SortKey((SortField(1),)))
    (sample,) = sample_tasks(task, 1)
    CountingFile.read_bytes = 0
    result = sample_keys(sample, CountingStorage(STORAGE), lambda: False)
    assert pa.ipc.open_stream(result.rows).read_all().num_rows
    size = sum(file.size for file in files)
    assert CountingFile.read_bytes < 0.4 * size  # two of ten files are measured
