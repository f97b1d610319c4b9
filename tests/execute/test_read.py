"""Reading real Parquet files of many shapes, sound and damaged ones."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import NUMBERS, STORAGE, field, make_task, number_files, read_rows, write_file
from tidyberg.execute.kernel.read import open_files
from tidyberg.execute.kernel.read import reader as read
from tidyberg.execute.kernel.read.open_files import open_file
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import ChecksumResult, ChecksumTask, TaskInput, TaskResult
from tidyberg.storage.file_io import Storage


def rewrite(inputs: list[TaskInput], schema: pa.Schema, directory: Path, **changes: object) -> TaskResult:
    result = run_task(make_task(inputs, schema, directory, **changes), 0, STORAGE)  # type: ignore[arg-type]
    assert isinstance(result, TaskResult)
    return result


def test_int96_timestamps_far_from_now_are_read_exactly(tmp_path: Path) -> None:
    moments = [
        dt.datetime.fromisoformat(text) for text in ("9999-12-31T23:59:59", "0001-01-01", "2026-11-15T01:02:03.000004")
    ]
    source = pa.table({"ts": pa.array(moments, pa.timestamp("us"))})
    path = tmp_path / "in.parquet"
    pq.write_table(source, path, use_deprecated_int96_timestamps=True, store_schema=False)
    assert pq.read_metadata(path).schema.column(0).physical_type == "INT96"
    file = TaskInput(str(path), path.stat().st_size, 3)
    schema = pa.schema([field("ts", pa.timestamp("us"), 1)])
    (output,) = rewrite([file], schema, tmp_path / "out").outputs
    assert [row["ts"] for row in read_rows([output.path])] == moments
    assert pq.read_metadata(output.path).schema.column(0).physical_type == "INT64"


def int96_file(path: Path, **columns: pa.Array) -> TaskInput:
    table = pa.table(columns)
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    return TaskInput(str(path), path.stat().st_size, table.num_rows)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_int96_timestamps_of_nanoseconds_keep_all_digits(tmp_path: Path, zone: str | None) -> None:
    kind, moments = pa.timestamp("ns", zone), [1_700_000_000_000_000_001, -999, None]
    file = int96_file(tmp_path / "in.parquet", ts=pa.array(moments, pa.timestamp("ns")))
    schema = pa.schema([field("ts", kind, 1)])
    (output,) = rewrite([file], schema, tmp_path / "out").outputs
    assert pq.read_table(output.path)["ts"].cast(pa.int64()).to_pylist() == moments


def test_int96_timestamps_of_two_units_in_one_file_are_refused(tmp_path: Path) -> None:
    """Read as microseconds the one loses digits, read as nanoseconds the other overflows. Arrow has one unit a file."""
    moments = pa.array([1], pa.timestamp("ns"))
    schema = pa.schema([field("ts", pa.timestamp("ns"), 1), field("us", pa.timestamp("us"), 2)])
    file = int96_file(tmp_path / "in.parquet", ts=moments, us=moments)
    with pytest.raises(KernelFailure, match=r"in\.parquet: INT96 columns of microseconds and of nanoseconds"):
        rewrite([file], schema, tmp_path / "out")


def test_null_and_empty_lists_maps_and_structs_stay_apart(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            field("l", pa.list_(field("element", pa.int32(), 2)), 1),
            field("m", pa.map_(field("key", pa.string(), 4, nullable=False), field("value", pa.int32(), 5)), 3),
            field("s", pa.struct([field("x", pa.int32(), 7)]), 6),
        ]
    )
    rows = [
        {"l": None, "m": None, "s": None},
        {"l": [], "m": [], "s": {"x": None}},
        {"l": [None], "m": [("k", None)], "s": {"x": 1}},
    ]
    file = write_file(tmp_path / "in.parquet", pa.Table.from_pylist(rows, schema=schema))
    evolved = pa.schema(
        [
            field("s", pa.struct([field("new", pa.string(), 8), field("renamed", pa.int64(), 7)]), 6),
            field("l", pa.list_(field("element", pa.int64(), 2)), 1),
            field("m", pa.map_(field("key", pa.string(), 4, nullable=False), field("value", pa.int64(), 5)), 3),
        ]
    )
    (output,) = rewrite([file], evolved, tmp_path / "out").outputs
    assert read_rows([output.path]) == [
        {"s": None, "l": None, "m": None},
        {"s": {"new": None, "renamed": None}, "l": [], "m": []},
        {"s": {"new": None, "renamed": 1}, "l": [None], "m": [("k", None)]},
    ]


def test_files_of_several_schemas_meet_in_one_output(tmp_path: Path) -> None:
    old = pa.schema([field("a", pa.int32(), 1), field("gone", pa.string(), 2)])
    new = pa.schema([field("b", pa.int64(), 1), field("added", pa.string(), 3)])
    files = [
        write_file(tmp_path / "1.parquet", pa.table([pa.array([1], pa.int32()), pa.array(["x"])], schema=old)),
        write_file(tmp_path / "2.parquet", pa.table([pa.array([2]), pa.array(["y"])], schema=new)),
        write_file(tmp_path / "3.parquet", pa.table({"added": ["z"], "b": [3]})),
    ]
    mapping = {("added",): 3, ("b",): 1}
    (output,) = rewrite(files, new, tmp_path / "out", name_mapping=mapping).outputs
    assert read_rows([output.path]) == [{"b": 1, "added": None}, {"b": 2, "added": "y"}, {"b": 3, "added": "z"}]
    with pytest.raises(KernelFailure, match=r"3.parquet: Column 'added' is string in the file"):
        rewrite(files, new, tmp_path / "by-position")


def test_files_that_differ_only_in_field_ids_are_read_by_their_own_ids(tmp_path: Path) -> None:
    """Names, types and statistics are equal: only the ids show that the columns were swapped."""
    kinds = [
        pa.schema([field("x", pa.int64(), 1), field("y", pa.int64(), 2)]),
        pa.schema([field("x", pa.int64(), 2), field("y", pa.int64(), 1)]),
        pa.schema([field("x", pa.int64(), 3), field("y", pa.int64(), 2)]),
    ]
    files = [
        write_file(tmp_path / f"{n}.parquet", pa.table([pa.array([n]), pa.array([-n])], schema=kinds[n % 3]))
        for n in range(1, 40)
    ]
    target = pa.schema([field("a", pa.int64(), 1), field("b", pa.int64(), 2)])
    result = rewrite(files, target, tmp_path / "out")
    expected = [{"a": (n, -n, None)[n % 3], "b": (-n, n, -n)[n % 3]} for n in range(1, 40)]
    assert read_rows([output.path for output in result.outputs]) == expected
    assert result.input_facts == result.output_facts


@pytest.mark.parametrize("small_file", [0, 1_500, 1 << 20])
def test_files_come_in_order_however_many_are_opened_at_a_time(
    tmp_path: Path, small_file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "SMALL_FILE", small_file)
    files = number_files(tmp_path, files=25, rows=3)
    opened = list(open_files.open_prefetched(Storage(STORAGE), files))
    assert [file.input for file in opened] == files


def test_a_file_without_any_wanted_column_still_counts_its_rows(tmp_path: Path) -> None:
    old = pa.schema([field("gone", pa.int32(), 9)])
    file = write_file(tmp_path / "in.parquet", pa.table([pa.array([1, 2, 3], pa.int32())], schema=old))
    (output,) = rewrite([file], NUMBERS, tmp_path / "out").outputs
    assert read_rows([output.path]) == [{"id": None, "name": None}] * 3


def test_column_names_with_dots_are_one_column(tmp_path: Path) -> None:
    schema = pa.schema([field("a.b", pa.string(), 1), field("a", pa.struct([field("b", pa.string(), 3)]), 2)])
    rows = [{"a.b": f"top {i % 3}", "a": {"b": f"nested {i}"}} for i in range(30_000)]
    file = write_file(tmp_path / "in.parquet", pa.Table.from_pylist(rows, schema=schema))
    (output,) = rewrite([file], schema, tmp_path / "out").outputs
    assert read_rows([output.path]) == rows


def test_large_files_are_read_row_group_by_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is read in several pieces gives the same rows as one that is fetched whole."""
    monkeypatch.setattr(open_files, "FETCHED_WHOLE", 0)
    monkeypatch.setattr(read, "_BUFFERED_AT_ONCE", 4_096)
    ids = list(range(20_000))
    table = pa.table([pa.array(ids), pa.array([f"name {i}" for i in ids])], schema=NUMBERS)
    file = write_file(tmp_path / "in.parquet", table, row_group_size=1_000)
    opened = open_file(Storage(STORAGE), file)
    assert not opened.in_memory
    assert len(list(read._pieces(opened))) > 3
    (output,) = rewrite([file], NUMBERS, tmp_path / "out").outputs
    assert read_rows([output.path]) == table.to_pylist()


def test_wide_rows_come_in_small_batches(tmp_path: Path) -> None:
    schema = pa.schema([field("blob", pa.binary(), 1)])
    table = pa.table([pa.array([bytes([i]) * 4_000_000 for i in range(20)])], schema=schema)
    file = write_file(tmp_path / "in.parquet", table, use_dictionary=False, compression="none")
    reader = read.Reader(Storage(STORAGE), schema, batch_rows=65_536, constants={}, should_stop=lambda: False)
    opened = open_file(Storage(STORAGE), file)
    sizes = [batch.num_rows for batch in reader.batches(opened, reader.selection(opened))]
    assert sum(sizes) == 20
    assert max(sizes) <= 10


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "not a readable Parquet file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "not a readable Parquet file"),
        (lambda path: path.write_bytes(path.read_bytes()[100:]), "not a readable Parquet file"),
        (lambda path: path.write_bytes(b"x" * 1_000), "not a readable Parquet file"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, damage: object, said: str) -> None:
    files = number_files(tmp_path, 3, 1_000)
    damage(Path(files[1].path))  # type: ignore[operator]
    with pytest.raises(KernelFailure) as raised:
        rewrite(files, NUMBERS, tmp_path / "out")
    assert raised.value.kind is FailureKind.DAMAGED
    assert files[1].path in raised.value.message
    assert said in raised.value.message


def test_damaged_pages_are_noticed(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 50_000)
    path = Path(files[0].path)
    content = bytearray(path.read_bytes())
    content[2_000:12_000] = bytes(10_000)
    path.write_bytes(content)
    with pytest.raises(KernelFailure) as raised:
        rewrite(files, NUMBERS, tmp_path / "out")
    assert raised.value.kind is FailureKind.DAMAGED
    assert str(path) in raised.value.message


def test_a_file_whose_rows_differ_from_the_manifest_is_refused(tmp_path: Path) -> None:
    (file,) = number_files(tmp_path, 1, 10)
    with pytest.raises(KernelFailure, match="holds 10 rows, but the table's manifest says 11") as raised:
        rewrite([TaskInput(file.path, file.size, 11)], NUMBERS, tmp_path / "out")
    assert raised.value.kind is FailureKind.DAMAGED


def test_a_file_without_read_permission_is_a_denied_failure(tmp_path: Path) -> None:
    (tmp_path / "in.parquet").mkdir()
    with pytest.raises(KernelFailure) as raised:
        rewrite([TaskInput(str(tmp_path / "in.parquet"), 1, 1)], NUMBERS, tmp_path / "out")
    assert str(tmp_path / "in.parquet") in raised.value.message


def test_checksum_of_the_outputs_equals_that_of_the_rows_written(tmp_path: Path) -> None:
    files = number_files(tmp_path, 4, 5_000)
    result = rewrite(files, NUMBERS, tmp_path / "out", outputs=2, checksum=True)
    back = run_task(
        ChecksumTask(
            "job", 0, tuple(TaskInput(o.path, o.size, o.records) for o in result.outputs), bytes(NUMBERS.serialize())
        ),
        0,
        STORAGE,
    )
    assert isinstance(back, ChecksumResult)
    assert back.rows == 20_000
    assert back.checksum == result.checksum


def test_stopping_ends_between_batches_and_leaves_nothing(tmp_path: Path) -> None:
    files = number_files(tmp_path, 4, 5_000)
    calls = iter(range(100))
    with pytest.raises(KernelFailure) as raised:
        run_task(
            make_task(files, NUMBERS, tmp_path / "out", batch_rows=1_000, outputs=3),
            0,
            STORAGE,
            lambda: next(calls) >= 12,
        )
    assert raised.value.kind is FailureKind.STOPPED
    assert next(calls) <= 14
    assert not list((tmp_path / "out").iterdir())


def test_reading_on_several_cores_gives_the_same_rows_and_facts(tmp_path: Path) -> None:
    files = [*number_files(tmp_path / "a", files=30, rows=400), *number_files(tmp_path / "b", files=2, rows=30_000)]
    apart = rewrite(files, NUMBERS, tmp_path / "apart", batch_rows=5_000, checksum=True)
    beside = rewrite(files, NUMBERS, tmp_path / "beside", batch_rows=5_000, checksum=True, cores=3)
    assert read_rows([output.path for output in beside.outputs]) == read_rows([output.path for output in apart.outputs])
    assert (beside.rows_read, beside.checksum, beside.input_facts) == (
        apart.rows_read,
        apart.checksum,
        apart.input_facts,
    )


def test_a_file_that_breaks_while_it_is_read_on_several_cores_fails_the_task_and_leaves_no_output(
    tmp_path: Path,
) -> None:
    files = number_files(tmp_path / "in", files=3, rows=20_000)
    damaged = Path(files[2].path)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + bytes(1_000) + content[1_004:])
    with pytest.raises(KernelFailure) as caught:
        rewrite(files, NUMBERS, tmp_path / "out", batch_rows=1_000, cores=2)
    assert caught.value.kind is FailureKind.DAMAGED
    assert str(damaged) in caught.value.message
    assert not list((tmp_path / "out").glob("*"))
