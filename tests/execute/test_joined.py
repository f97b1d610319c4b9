"""Small files that are read together give the same rows as one by one, or are not joined."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arro3.io import write_parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.delete_files import equality_delete, position_delete
from tests.builders.tasks import NUMBERS, STORAGE, field, make_task, number_files, read_rows, write_file
from tidyberg.execute.kernel.columns.lineage import fill_joined_lineage, fill_lineage, with_lineage
from tidyberg.execute.kernel.read import small_files as tiny
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import KernelFailure
from tidyberg.model.task import TaskInput, TaskResult
from tidyberg.parquet.joined import Outline, join
from tidyberg.parquet.thrift import read_struct, write_struct

MIXED = pa.schema(
    [
        field("id", pa.int64(), 1, nullable=False),
        field("name", pa.string(), 2),
        field("score", pa.float64(), 3),
        field("price", pa.decimal128(12, 2), 4),
        field("active", pa.bool_(), 5),
        field("day", pa.date32(), 6),
        field("code", pa.binary(4), 7),
        field("place", pa.struct([field("lat", pa.float32(), 9), field("note", pa.string(), 10)]), 8),
        field("at", pa.timestamp("us", "UTC"), 11),
    ]
)


def content_of(table: pa.Table, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def joined_rows(contents: Sequence[pa.Buffer], columns: Sequence[int] | None = None) -> pa.Table | None:
    """Returns all columns of the files, read together; None if they are not joined."""
    footers = [pq.read_metadata(pa.BufferReader(content)) for content in contents]
    outline = Outline.of(contents[0], footers[0])
    if outline is None or not all(map(outline.fits, contents, footers)):
        return None
    wanted = list(range(footers[0].num_columns)) if columns is None else list(columns)
    found = join(contents, footers, outline, wanted)
    if found is None:
        return None
    content, footer = found
    assert footer.num_rows == sum(single.num_rows for single in footers)
    parquet = pq.ParquetFile(pa.BufferReader(content), metadata=footer)
    numbers = list(range(footer.num_row_groups))
    return pa.Table.from_batches(list(parquet.reader.iter_batches(10_000, numbers, column_indices=wanted)))


def separate_rows(contents: Sequence[pa.Buffer]) -> pa.Table:
    return pa.concat_tables(pq.read_table(pa.BufferReader(content)) for content in contents)


def one_row(random: np.random.Generator, number: int) -> dict[str, Any]:
    row = {
        "id": number,
        "name": f"name {random.integers(0, 5)}" * int(random.integers(0, 40)),
        "score": random.choice([1.5, float("inf"), -0.0, 2.25]),
        "price": Decimal(int(random.integers(-100, 100))) / 100,
        "active": bool(random.integers(0, 2)),
        "day": dt.date(2026, 1, 1) + dt.timedelta(int(random.integers(0, 400))),
        "code": random.bytes(4),
        "place": random.choice([None, {"lat": None, "note": "x"}, {"lat": 1.5, "note": None}]),  # type: ignore[arg-type]
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(random.integers(0, 10**12))),
    }
    return {name: None if name != "id" and random.random() < 0.2 else value for name, value in row.items()}


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 60), min_size=2, max_size=6),
    codec=st.sampled_from(["zstd", "snappy", "gzip", "none"]),
    dictionary=st.sampled_from([True, False, ["name", "day"]]),
    row_group_rows=st.sampled_from([7, 1_000]),
    checksums=st.booleans(),
    level=st.sampled_from([None, 3]),
)
def test_joined_files_have_the_same_rows_as_one_by_one(
    seed: int,
    sizes: list[int],
    codec: str,
    dictionary: bool | list[str],
    row_group_rows: int,
    checksums: bool,
    level: int | None,
) -> None:
    random = np.random.default_rng(seed)
    contents = [
        content_of(
            pa.Table.from_pylist([one_row(random, number) for number in range(size)], schema=MIXED),
            compression=codec,
            compression_level=level if codec == "zstd" else None,
            use_dictionary=dictionary,
            row_group_size=row_group_rows,
            write_page_checksum=checksums,
            write_page_index=checksums,
        )
        for size in sizes
    ]
    found = joined_rows(contents)
    assert found is not None
    assert found.equals(separate_rows(contents))


def test_only_wanted_columns_are_joined() -> None:
    contents = [content_of(pa.table({"a": [1], "b": ["x" * 1_000], "c": [i]}), compression="zstd") for i in range(3)]
    assert joined_rows(contents, [0, 2]) == pa.table({"a": [1, 1, 1], "c": [0, 1, 2]})


def test_long_bounds_in_page_headers_are_skipped() -> None:
    contents = [content_of(pa.table({"a": [letter * 3_000]}), use_dictionary=False) for letter in "xyz"]
    assert joined_rows(contents) == separate_rows(contents)


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0"},
        {"data_page_size": 10, "write_batch_size": 10},  # several pages a column
        {"compression": "lz4"},
        {"compression": {"a": "zstd", "b": "snappy"}},
    ],
)
def test_files_with_other_pages_or_codecs_are_not_joined(options: dict[str, Any]) -> None:
    table = pa.table({"a": list(range(500)), "b": [f"text {i}" for i in range(500)]})
    assert joined_rows([content_of(table, **options)] * 2) is None


def test_lists_are_not_joined() -> None:
    """The header of a page in a list does not say how many rows the page has."""
    for lists in ([[1, 2], [3]], [[1], [2]]):
        assert joined_rows([content_of(pa.table({"a": lists}))] * 2) is None


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([field("s", pa.struct([field("x", pa.int64(), 2)]), 9)]),  # another id of the struct alone
        pa.schema([field("s", pa.struct([field("x", pa.int64(), 3)]), 1)]),
        pa.schema([field("s", pa.struct([field("x", pa.int64(), 2, nullable=False)]), 1)]),
        pa.schema([field("s", pa.struct([field("y", pa.int64(), 2)]), 1)]),
        pa.schema([field("s", pa.struct([field("x", pa.timestamp("us"), 2)]), 1)]),
    ],
)
def test_files_of_another_schema_do_not_fit(other: pa.Schema) -> None:
    schema = pa.schema([field("s", pa.struct([field("x", pa.int64(), 2)]), 1)])
    rows = [{"s": {"x": 1, "y": 1}}]
    one, another = (content_of(pa.Table.from_pylist(rows, schema=kind), store_schema=False) for kind in (schema, other))
    assert joined_rows([one, one]) is not None
    assert joined_rows([one, another]) is None


def test_files_with_another_schema_of_arrow_do_not_fit() -> None:
    """Parquet has one type for both, so only the stored Arrow schema distinguishes them."""
    contents = [content_of(pa.table({"a": pa.array(["x"], kind)})) for kind in (pa.string(), pa.large_string())]
    assert joined_rows(contents) is None


def test_files_of_another_writer_do_not_fit() -> None:
    content = content_of(pa.table({"a": [1]}), store_schema=False)
    other = edited_footer(content, lambda footer: footer.update({6: (8, b"another writer")}))
    assert joined_rows([other, other]) is not None
    assert joined_rows([content, other]) is None


def edited_footer(content: pa.Buffer, edit: Callable[[Any], Any]) -> pa.Buffer:
    raw = content.to_pybytes()
    length = int.from_bytes(raw[-8:-4], "little")
    struct, _ = read_struct(raw, len(raw) - 8 - length)
    edit(struct)
    footer = write_struct(struct)
    return pa.py_buffer(raw[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def edited_page(content: pa.Buffer, edit: Callable[[Any, bytes], bytes]) -> pa.Buffer:
    """Edits the header and bytes of the only page, without changing its length."""
    raw = content.to_pybytes()
    header, start = read_struct(raw, 4)
    page = edit(header, raw[start : start + header[3][1]])
    changed = write_struct(header) + page
    assert len(changed) == start - 4 + len(page)
    return pa.py_buffer(raw[:4] + changed + raw[4 + len(changed) :])


def numbers(codec: str, nullable: bool = True) -> pa.Buffer:
    table = pa.table([pa.array(range(1_000), pa.int64())], schema=pa.schema([field("n", pa.int64(), 1, nullable)]))
    return content_of(table, use_dictionary=False, compression=codec, store_schema=False)


def test_pages_whose_sizes_are_wrong_but_add_up_are_not_joined() -> None:
    def shift(difference: int) -> pa.Buffer:
        def edit(header: Any, page: bytes) -> bytes:
            header[2] = (5, header[2][1] + difference)
            return page

        return edited_page(numbers("zstd"), edit)

    assert joined_rows([shift(0), shift(0)]) is not None
    assert joined_rows([shift(1), shift(-1)]) is None


def test_pages_whose_values_are_wrong_but_add_up_are_not_joined() -> None:
    def shift(difference: int) -> pa.Buffer:
        def edit(header: Any, page: bytes) -> bytes:
            header[5][1][1] = (5, header[5][1][1][1] + difference)
            return page

        return edited_page(numbers("zstd"), edit)

    assert joined_rows([shift(1), shift(-1)]) is None


def test_row_groups_that_do_not_hold_the_rows_of_their_file_are_not_joined() -> None:
    def shift(difference: int) -> pa.Buffer:
        return edited_footer(numbers("zstd"), lambda footer: footer.update({3: (6, footer[3][1] + difference)}))

    assert joined_rows([shift(0), shift(0)]) is not None
    assert joined_rows([shift(1), shift(-1)]) is None


def test_chunks_that_do_not_hold_the_rows_of_their_row_group_are_not_joined() -> None:
    def shift(difference: int) -> pa.Buffer:
        def edit(footer: Any) -> None:
            group = footer[4][1].items[0]
            footer[3] = group[3] = (6, group[3][1] + difference)

        return edited_footer(numbers("zstd"), edit)

    assert joined_rows([shift(0), shift(0)]) is not None
    assert joined_rows([shift(1), shift(-1)]) is None


def with_short_levels(content: pa.Buffer) -> pa.Buffer:
    """Makes a page with levels for 999 values, although the footer says 1,000."""

    def edit(_: Any, page: bytes) -> bytes:
        assert page[:6] == b"\x03\0\0\0\xd0\x0f"  # the length of the levels, and a run of 1,000 equal ones
        return page[:4] + b"\xce\x0f" + page[6:]

    return edited_page(content, edit)


def put(directory: Path, contents: Sequence[pa.Buffer]) -> list[TaskInput]:
    files = []
    for number, content in enumerate(contents):
        path = directory / f"in-{number}.parquet"
        path.write_bytes(content)
        files.append(TaskInput(str(path), content.size, pq.read_metadata(path).num_rows))
    return files


def rewrite(files: Sequence[TaskInput], schema: pa.Schema, directory: Path, **changes: Any) -> TaskResult:
    result = run_task(make_task(files, schema, directory, **changes), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_damaged_file_among_many_is_refused_by_its_name(tmp_path: Path, codec: str) -> None:
    good = numbers(codec)
    raw = bytearray(good.to_pybytes())
    raw[40:80] = bytes(40)
    damaged = with_short_levels(good) if codec == "none" else pa.py_buffer(bytes(raw))
    files = put(tmp_path, [good, good, damaged, good])
    with pytest.raises(KernelFailure, match=r"in-2\.parquet"):
        rewrite(files, pa.schema([field("n", pa.int64(), 1)]), tmp_path / "out")


def test_a_column_that_cannot_be_converted_is_reported_with_its_file(tmp_path: Path) -> None:
    files = put(tmp_path, [numbers("zstd")] * 3)
    with pytest.raises(KernelFailure, match=r"in-0\.parquet: Column 'n' is int64 in the file"):
        rewrite(files, pa.schema([field("n", pa.string(), 1)]), tmp_path / "out")


class Spy:
    """Counts the bunches that were joined, and those that were not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.joined: list[int] = []
        self.refused: list[int] = []
        read = tiny.SmallFileReader.read

        def watched(files: tiny.SmallFileReader, bunch: Any, shape: Any) -> Any:
            found = read(files, bunch, shape)
            (self.refused if found is None else self.joined).append(len(bunch))
            return found

        monkeypatch.setattr(tiny.SmallFileReader, "read", watched)


def test_all_tiny_files_of_a_task_are_joined_up_to_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    files = number_files(tmp_path, files=25, rows=30)
    result = rewrite(files, NUMBERS, tmp_path / "out", batch_rows=300)
    assert (spy.joined, spy.refused) == ([10, 10, 5], [])
    rows = read_rows([output.path for output in result.outputs])
    assert [row["id"] for row in rows] == list(range(750))
    assert result.rows_read == result.rows_written == 750
    assert result.input_facts == result.output_facts


def test_joining_stops_after_several_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    table = pa.table([pa.array([1, 2]), pa.array(["a", "b"])], schema=NUMBERS)
    files = [write_file(tmp_path / f"{n}.parquet", table, data_page_version="2.0") for n in range(20)]
    result = rewrite(files, NUMBERS, tmp_path / "out", batch_rows=4)
    assert spy.refused == [2, 2, 2, 2] + [1] * 12
    assert result.rows_written == 40


def test_deletes_apply_to_rows_of_their_own_file_in_joined_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    files = number_files(tmp_path, files=6, rows=10)
    places = [(files[1].path, 0), (files[1].path, 9), (files[4].path, 3)]
    key = pa.schema([NUMBERS.field(0)])
    deletes = (
        position_delete(tmp_path / "positions.parquet", places, sequence=5),
        equality_delete(tmp_path / "keys.parquet", key, {"id": [25, 59]}, (1,), sequence=5),
    )
    result = rewrite(files, NUMBERS, tmp_path / "out", deletes=deletes, equality_schemas={(1,): bytes(key.serialize())})
    assert (spy.joined, spy.refused) == ([6], [])
    rows = read_rows([output.path for output in result.outputs])
    assert [row["id"] for row in rows] == [n for n in range(60) if n not in {10, 19, 43, 25, 59}]
    assert (result.rows_read, result.rows_deleted, result.rows_written) == (60, 5, 55)


@st.composite
def files_with_lineage(draw: st.DrawFn) -> list[tuple[pa.Table, TaskInput]]:
    """Rows that store all of their lineage, some or none, and the files from which they inherit the rest."""
    numbers = st.none() | st.integers(0, 2**40)
    found = []
    for number in range(draw(st.integers(2, 6))):
        rows = draw(st.integers(1, 12))
        ids, updates = (draw(st.lists(numbers, min_size=rows, max_size=rows)) for _ in range(2))
        columns = [range(100 * number, 100 * number + rows), ["x"] * rows, ids, updates]
        schema = with_lineage(NUMBERS)
        table = pa.table([pa.array(one, kind.type) for one, kind in zip(columns, schema, strict=True)], schema=schema)
        file = TaskInput(f"{number}", 1, rows, first_row_id=draw(numbers), sequence_number=draw(st.integers(0, 1_000)))
        found.append((table, file))
    return found


def test_what_rows_of_joined_files_inherit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    files = [
        dataclasses.replace(file, first_row_id=first_row_id, sequence_number=number)
        for number, (first_row_id, file) in enumerate(
            zip([100, None, 0, 300], number_files(tmp_path, files=4, rows=3), strict=True)
        )
    ]
    deletes = (position_delete(tmp_path / "positions.parquet", [(files[2].path, 1)], sequence=5),)
    result = rewrite(files, NUMBERS, tmp_path / "out", lineage=True, deletes=deletes)
    assert spy.joined == [4]
    rows = read_rows([output.path for output in result.outputs])
    assert [row["_row_id"] for row in rows] == [100, 101, 102, None, None, None, 0, 2, 300, 301, 302]
    assert [row["_last_updated_sequence_number"] for row in rows] == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3]


@settings(max_examples=100, deadline=None)
@given(files=files_with_lineage(), batch_rows=st.integers(1, 40))
def test_rows_of_joined_files_have_the_same_lineage_as_one_by_one(
    files: list[tuple[pa.Table, TaskInput]], batch_rows: int
) -> None:
    inputs = [file for _, file in files]
    one_by_one = [fill_lineage(rows.to_batches()[0], file, 0) for rows, file in files]
    batches = pa.concat_tables([rows for rows, _ in files]).combine_chunks().to_batches(max_chunksize=batch_rows)
    joined = list(fill_joined_lineage(batches, inputs))
    assert [batch.num_rows for batch in joined] == [batch.num_rows for batch in batches]
    assert pa.Table.from_batches(joined).equals(pa.Table.from_batches(one_by_one))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=files_with_lineage(), stored=st.booleans())
def test_tasks_over_joined_files_write_the_same_outputs_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[tuple[pa.Table, TaskInput]], stored: bool
) -> None:
    """That holds whether the files store lineage or not. Only the byte counts may differ."""
    inputs = []
    for number, (rows, file) in enumerate(files):
        columns = rows if stored else rows.select(NUMBERS.names)
        written = write_file(tmp_path / f"{number}.parquet", columns)
        inputs.append(
            dataclasses.replace(written, first_row_id=file.first_row_id, sequence_number=file.sequence_number)
        )
    found = []
    for most_refused in (4, 0):
        with monkeypatch.context() as patch:
            spy = Spy(patch)
            patch.setattr(tiny, "_MAX_REFUSED", most_refused)
            result = rewrite(inputs, NUMBERS, tmp_path / "out", lineage=True)
        assert spy.joined == ([len(files)] if most_refused else [])
        found.append((read_rows([output.path for output in result.outputs]), result.input_facts, result.output_facts))
    assert found[0] == found[1]


def by_duckdb(rows: pa.Table, path: Path, codec: str) -> None:
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"COPY given TO '{path}' (FORMAT parquet, COMPRESSION {codec})")


def by_polars(rows: pa.Table, path: Path, codec: Any) -> None:
    frame = polars.from_arrow(rows)
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(path, compression=codec)


def by_arrow_rs(rows: pa.Table, path: Path, codec: str) -> None:
    write_parquet(rows, path, compression="zstd(3)" if codec == "zstd" else codec)


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
@pytest.mark.parametrize("write", [by_duckdb, by_polars, by_arrow_rs])
def test_files_of_other_writers_are_joined(
    tmp_path: Path, write: Callable[[pa.Table, Path, str], None], codec: str
) -> None:
    contents = []
    for number in range(3):
        ids = range(100 * number, 100 * (number + 1))
        rows = {
            "id": list(ids),
            "name": [f"name {i % 7}" if i % 3 else None for i in ids],
            "ratio": [i / 3 for i in ids],
            "place": [{"x": i} for i in ids],
        }
        path = tmp_path / f"{number}.parquet"
        write(pa.table(rows), path, codec)
        contents.append(pa.py_buffer(path.read_bytes()))
    found = joined_rows(contents)
    assert found is not None
    assert found.equals(separate_rows(contents))


def test_what_footers_have_in_common_is_read_once_for_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [content_of(pa.table({"only here": [number]})) for number in range(3)]
    footers = [pq.read_metadata(pa.BufferReader(content)) for content in contents]
    first = Outline.of(contents[0], footers[0])
    monkeypatch.setattr(Outline, "_read", lambda *_: pytest.fail("read again"))
    assert all(Outline.of(*file) is first for file in zip(contents, footers, strict=True))
