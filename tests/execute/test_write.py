"""The rolling writer: equal outputs, exact Parquet types, nothing left behind after a failure."""

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.tasks import NUMBERS, field, make_task, number_files, read_rows, run, write_file
from tidyberg.execute.kernel.write.sizing import OutputSizing, max_outputs_of_attempt
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.pages import page_spans
from tidyberg.storage.file_io import Storage

MB = 1024 * 1024
NOISE = pa.schema([field("id", pa.int64(), 1), field("noise", pa.binary(), 2)])


def noise_files(directory: Path, files: int, rows: int, width: int) -> list[Any]:
    source = random.Random(7)
    made = []
    for number in range(files):
        table = pa.table(
            [pa.array(range(rows)), pa.array([source.randbytes(width) for _ in range(rows)])], schema=NOISE
        )
        made.append(write_file(directory / f"in-{number}.parquet", table))
    return made


def test_rows_stay_unchanged_and_in_order(tmp_path: Path) -> None:
    files = number_files(tmp_path, 5, 1_000)
    result = run(make_task(files, NUMBERS, tmp_path / "out"))
    assert result.rows_read == result.rows_written == 5_000
    assert read_rows([o.path for o in result.outputs]) == read_rows([f.path for f in files])
    assert result.bytes_written == sum(Path(o.path).stat().st_size for o in result.outputs)
    assert result.peak_rss_bytes > 0


def test_a_writer_that_rolls_far_more_often_than_planned_ends_the_task(tmp_path: Path) -> None:
    files = noise_files(tmp_path, 3, 2_000, 100)
    task = make_task(files, NOISE, tmp_path / "out", outputs=6, target_bytes=100_000, max_outputs=3)
    with pytest.raises(KernelFailure, match="needs more than 3 files; the plan expected 6") as failure:
        run(task)
    assert failure.value.kind is FailureKind.LIMIT
    assert list((tmp_path / "out").iterdir()) == [], "and leaves nothing"


def test_output_names_are_computable(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 10)
    result = run(make_task(files, NUMBERS, tmp_path / "out", group_id=12), attempt=3)
    assert [Path(o.path).name for o in result.outputs] == ["tidyberg-job-g00012-a03-0000.parquet"]


@pytest.mark.parametrize("outputs", [2, 3, 4])
def test_outputs_have_equal_sizes(tmp_path: Path, outputs: int) -> None:
    files = noise_files(tmp_path, 12, 1_000, 500)
    result = run(make_task(files, NOISE, tmp_path / "out", outputs=outputs))
    sizes = [output.size for output in result.outputs]
    assert len(sizes) == outputs
    assert max(sizes) < 1.05 * min(sizes)
    assert sum(output.records for output in result.outputs) == 12_000


def test_data_that_compress_better_than_planned_make_fewer_outputs(tmp_path: Path) -> None:
    ids = pa.array(range(200_000), pa.int64())
    table = pa.table([ids, pa.array(["same"] * 200_000)], schema=NUMBERS)
    file = write_file(tmp_path / "in.parquet", table, compression="none", use_dictionary=False)
    result = run(make_task([file], NUMBERS, tmp_path / "out", outputs=4))
    assert len(result.outputs) < 4
    sizes = [output.size for output in result.outputs]
    assert max(sizes) < 1.1 * min(sizes)


def test_data_that_compress_worse_than_planned_stay_below_the_maximum(tmp_path: Path) -> None:
    files = noise_files(tmp_path, 6, 1_000, 500)
    size = sum(file.size for file in files)
    liar = make_task(files, NOISE, tmp_path / "out", outputs=1, target=size // 4)
    result = run(liar)
    assert len(result.outputs) > 1
    assert all(output.size <= liar.max_bytes for output in result.outputs)


def test_row_groups_follow_the_inputs_uncompressed_size(tmp_path: Path) -> None:
    files = noise_files(tmp_path, 4, 1_000, 1_000)
    settings = WriteSettings(row_group_bytes=MB)
    result = run(make_task(files, NOISE, tmp_path / "out", write=settings))
    footer = pq.read_metadata(result.outputs[0].path)
    sizes = [footer.row_group(i).total_byte_size for i in range(footer.num_row_groups)]
    assert footer.num_row_groups == 4
    assert max(sizes) < 1.1 * MB


@pytest.mark.parametrize(("rows", "width"), [(30_000, 20), (30_000, 90), (6_000, 1_000)])
def test_pages_of_narrow_and_of_wide_columns_keep_to_their_limits(tmp_path: Path, rows: int, width: int) -> None:
    settings = WriteSettings()
    result = run(make_task(noise_files(tmp_path, 2, rows, width), NOISE, tmp_path / "out", write=settings))
    content = Path(result.outputs[0].path).read_bytes()
    chunk = pq.read_metadata(result.outputs[0].path).row_group(0).column(1)
    start = chunk.data_page_offset
    pages = list(page_spans(content[start : start + chunk.total_compressed_size]))
    assert sum(page.uncompressed for page in pages) > 2 * rows * width
    assert len(pages) >= max(2 * rows / settings.page_rows, 2 * rows * width / (2 * settings.page_bytes))
    assert max(page.uncompressed for page in pages) < 2 * settings.page_bytes


def test_memory_limit_flushes_early(tmp_path: Path) -> None:
    files = noise_files(tmp_path, 4, 1_000, 1_000)
    task = make_task(files, NOISE, tmp_path / "out", memory_bytes=MB, batch_rows=100)
    footer = pq.read_metadata(run(task).outputs[0].path)
    assert footer.num_row_groups >= 3


@given(
    rows=st.integers(1, 2_000_000),
    outputs=st.integers(1, 12),
    real=st.floats(0.3, 3.0),
    group_rows=st.integers(1_000, 1_000_000),
)
def test_sizing_leaves_no_tiny_row_group_and_no_more_files_than_planned(
    rows: int, outputs: int, real: float, group_rows: int
) -> None:
    planned = 100.0
    target = max(1, int(rows * planned / outputs))
    sizing = OutputSizing(rows, planned, outputs, target, int(1.8 * target))
    sizes, file_bytes = [], 0
    while sizing.rows_left:
        taken = min(sizing.rows_for_next_group(group_rows), sizing.rows_left)
        assert 1 <= taken <= group_rows
        file_bytes += int(taken * planned * real) + 1
        sizing.wrote(taken, file_bytes)
        if sizing.is_full():
            sizing.closed()
            sizes.append(file_bytes)
            file_bytes = 0
    sizes.append(file_bytes)
    assert len(sizes) <= max_outputs_of_attempt(outputs)
    needed = -(-int(rows * planned * real) // int(1.8 * target))
    # Each may close 3 % below its share.
    assert len(sizes) <= max(outputs, math.ceil(needed / 0.97) + 1)
    # A file below two row groups cannot be balanced better than by one of them.
    if rows >= 100 * outputs:
        assert min(sizes) > 0.5 * (sum(sizes) / len(sizes))


def test_parquet_types_are_those_of_the_spec(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            field("u", pa.uuid(), 1),
            field("fx", pa.binary(5), 2),
            field("d9", pa.decimal128(9, 2), 3),
            field("d18", pa.decimal128(18, 2), 4),
            field("d38", pa.decimal128(38, 2), 5),
            field("ti", pa.time64("us"), 6),
            field("ts", pa.timestamp("us"), 7),
            field("tz", pa.timestamp("us", tz="UTC"), 8),
            field("l", pa.list_(field("element", pa.int32(), 10)), 9),
            field("m", pa.map_(field("key", pa.string(), 12, nullable=False), field("value", pa.int32(), 13)), 11),
            field("req", pa.int32(), 14, nullable=False),
        ]
    )
    row = {"u": uuid4(), "fx": b"12345", "d9": Decimal("1.10"), "req": 1, "l": [1], "m": [("k", 1)]}
    file = write_file(tmp_path / "in.parquet", pa.Table.from_pylist([row], schema=schema))
    (output,) = run(make_task([file], schema, tmp_path / "out")).outputs
    parquet = pq.ParquetFile(output.path)
    text = str(parquet.schema)
    for line in (
        "optional fixed_len_byte_array(16) field_id=1 u (UUID)",
        "optional fixed_len_byte_array(5) field_id=2 fx;",
        "optional int32 field_id=3 d9 (Decimal(precision=9, scale=2))",
        "optional int64 field_id=4 d18 (Decimal(precision=18, scale=2))",
        "optional fixed_len_byte_array(16) field_id=5 d38 (Decimal(precision=38, scale=2))",
        "optional int64 field_id=6 ti (Time(isAdjustedToUTC=false, timeUnit=microseconds))",
        "optional int64 field_id=7 ts (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds",
        "optional int64 field_id=8 tz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "optional int32 field_id=10 element",
        "required binary field_id=12 key (String)",
        "required int32 field_id=14 req",
    ):
        assert line in text
    assert parquet.metadata.metadata == {b"iceberg.schema": b'{"type":"struct"}'}


@pytest.mark.parametrize(
    ("codec", "level", "name"),
    [
        ("zstd", 3, "ZSTD"),
        ("snappy", None, "SNAPPY"),
        ("gzip", 6, "GZIP"),
        ("lz4", None, "LZ4"),
        ("brotli", 4, "BROTLI"),
        ("uncompressed", None, "UNCOMPRESSED"),
    ],
)
def test_codecs(tmp_path: Path, codec: str, level: int | None, name: str) -> None:
    files = number_files(tmp_path, 1, 1_000)
    settings = WriteSettings(compression=codec, compression_level=level)
    (output,) = run(make_task(files, NUMBERS, tmp_path / "out", write=settings)).outputs
    assert pq.read_metadata(output.path).row_group(0).column(0).compression == name


def test_bloom_filters_and_page_index_are_written(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 1_000)
    settings = WriteSettings(bloom_filter_columns=((2, 0.01),))
    (output,) = run(make_task(files, NUMBERS, tmp_path / "out", write=settings)).outputs
    group = pq.read_metadata(output.path).row_group(0)
    assert group.column(0).bloom_filter_offset is None
    assert group.column(1).bloom_filter_offset is not None
    assert group.column(1).has_column_index
    assert group.column(1).has_offset_index


@pytest.mark.parametrize("rows", [2_000, 50_000])
def test_dictionaries_only_where_they_help(tmp_path: Path, rows: int) -> None:
    """The footers of large chunks decide; if chunks are small, the rows decide."""
    files = []
    for number in range(3):
        names = pa.array([f"kind-{i % 7}" for i in range(rows)])
        unique = pa.array([f"{number}-{i}-{i * 7919 % 100_003}" for i in range(rows)])
        schema = pa.schema([field("kind", pa.string(), 1), field("unique", pa.string(), 2)])
        files.append(write_file(tmp_path / f"in-{number}.parquet", pa.table([names, unique], schema=schema)))
    (output,) = run(make_task(files, schema, tmp_path / "out")).outputs
    group = pq.read_metadata(output.path).row_group(0)
    assert group.column(0).has_dictionary_page
    assert not group.column(1).has_dictionary_page
    assert read_rows([output.path]) == read_rows([file.path for file in files])


def test_a_required_column_refuses_nulls_and_leaves_nothing(tmp_path: Path) -> None:
    file = write_file(
        tmp_path / "in.parquet", pa.table([pa.array([1, None])], schema=pa.schema([field("a", pa.int64(), 1)]))
    )
    target = pa.schema([field("a", pa.int64(), 1, nullable=False)])
    with pytest.raises(KernelFailure, match="null"):
        run(make_task([file], target, tmp_path / "out"))
    assert not list((tmp_path / "out").iterdir())


def test_a_failure_midway_removes_every_own_output(tmp_path: Path) -> None:
    files = noise_files(tmp_path, 8, 1_000, 500)
    Path(files[-1].path).write_bytes(b"PAR1 this is no Parquet file PAR1")
    with pytest.raises(KernelFailure) as raised:
        run(make_task(files, NOISE, tmp_path / "out", outputs=4, batch_rows=100))
    assert raised.value.kind is FailureKind.DAMAGED
    assert files[-1].path in raised.value.message
    assert not list((tmp_path / "out").iterdir())


def test_outputs_are_removed_from_the_last_to_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a clean-up is killed half-way, the numbers of the remaining files have no gap."""
    files = noise_files(tmp_path, 8, 1_000, 500)
    Path(files[-1].path).write_bytes(b"no")
    removed: list[str] = []
    monkeypatch.setattr(Storage, "delete", lambda _, place: removed.append(place.path))
    with pytest.raises(KernelFailure):
        run(make_task(files, NOISE, tmp_path / "out", outputs=4, batch_rows=100))
    assert len(removed) > 2
    assert removed == sorted(removed, reverse=True)


def test_options_that_arrow_refuses_leave_no_empty_file(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 10)
    settings = WriteSettings(compression="snappy", compression_level=3)
    with pytest.raises(KernelFailure, match="level"):
        run(make_task(files, NUMBERS, tmp_path / "out", write=settings))
    assert not list((tmp_path / "out").iterdir())


def test_a_full_disk_is_a_storage_failure(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 1_000)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tidyberg-job-g00000-a00-0000.parquet").symlink_to("/dev/full")
    with pytest.raises(KernelFailure, match="no space left") as raised:
        run(make_task(files, NUMBERS, tmp_path / "out"))
    assert raised.value.kind is FailureKind.STORAGE


def test_bloom_filters_an_executor_cannot_write_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = number_files(tmp_path, 1, 10)
    task = make_task(files, NUMBERS, tmp_path / "out", write=WriteSettings(bloom_filter_columns=((2, 0.01),)))
    assert run(task).warnings == ()
    for module in ("write.output", "encode"):
        monkeypatch.setattr(f"tidyberg.execute.kernel.{module}.unsupported_options", lambda: {"bloom_filter_options"})
    result = run(task, attempt=1)
    assert "The outputs have no bloom filters" in result.warnings[0]
    assert pq.read_metadata(result.outputs[0].path).row_group(0).column(1).bloom_filter_offset is None
