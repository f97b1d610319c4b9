"""Splicing moves pages that need no decoding, into row groups as large as encoding makes them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import SCHEMA, given, rows, write_files
from tests.builders.footers import edit_footer, footer_bytes
from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_writers import Writer
from tests.builders.splice_tasks import (
    NUMBERS,
    PLAIN,
    assert_alike,
    both,
    large_files,
    numbers,
    rewrite,
    rows_of,
    small_files_count,
)
from tests.builders.tasks import STORAGE, field, make_task, write_file
from tests.builders.writers_table import ROWS, WRITERS, inputs_of, table
from tests.builders.writers_table import SCHEMA as WRITTEN
from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, ROW_ID_NAME
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.execute.kernel.read import open_files
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.kernel.splice import writer as splicing
from tidyberg.execute.kernel.splice.eligibility import may_splice
from tidyberg.execute.kernel.write import encoders
from tidyberg.execute.kernel.write.merged_chunk import merge_chunks
from tidyberg.execute.kernel.write.paged_output import in_memory
from tidyberg.execute.kernel.write.source_chunks import ChunkStatistics, SourceChunk
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskPartitionField
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, LocationField, MetadataField
from tidyberg.parquet.footer import SchemaLeaf
from tidyberg.parquet.pages import DataPage, page_spans, plain_pages
from tidyberg.parquet.thrift import Struct, read_struct, write_struct
from tidyberg.storage.file_io import Place, Storage


def test_pages_are_moved_where_no_dictionary_pays_and_the_rest_is_encoded(tmp_path: Path) -> None:
    inputs = large_files(tmp_path)
    spliced, encoded = both(inputs, tmp_path, NUMBERS, write={"dictionary": True})
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))
    (path,) = [output.path for output in spliced.outputs]
    footer = pq.read_metadata(path)
    assert footer.num_row_groups == 1
    assert footer.created_by.startswith("tidyberg version")
    chunks = {footer.row_group(0).column(index).path_in_schema: footer.row_group(0).column(index) for index in range(3)}
    assert {name: chunk.has_dictionary_page for name, chunk in chunks.items()} == {
        "id": False,
        "kind": True,
        "ratio": False,
    }
    assert all(chunk.has_offset_index and chunk.has_column_index for chunk in chunks.values())
    stored = sum(pq.read_metadata(f.path).row_group(0).column(i).total_compressed_size for f in inputs for i in (0, 2))
    assert spliced.bytes_spliced == stored == chunks["id"].total_compressed_size + chunks["ratio"].total_compressed_size
    assert check_offsets(Path(path)) > 6
    assert spliced.outputs[0].size == Path(path).stat().st_size == spliced.bytes_written


def test_small_files_are_encoded(tmp_path: Path) -> None:
    """Their pages would stay small, and a few rows do not show whether a dictionary pays."""
    inputs = large_files(tmp_path, count=15_000)
    assert rewrite(inputs, tmp_path / "out", NUMBERS).bytes_spliced == 0


def test_small_pages_are_not_kept(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, max_rows_per_page=500)
    assert rewrite(inputs, tmp_path / "out", NUMBERS).bytes_spliced == 0


def test_large_pages_are_not_kept(tmp_path: Path) -> None:
    inputs = large_files(tmp_path)
    assert rewrite(inputs, tmp_path / "in", NUMBERS, write={"page_bytes": 40_000}).bytes_spliced > 0
    assert rewrite(inputs, tmp_path / "out", NUMBERS, write={"page_bytes": 10_000}).bytes_spliced == 0


def test_a_column_that_a_writer_gave_no_dictionary_gets_one_where_it_pays(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, use_dictionary=False)
    result = rewrite(inputs, tmp_path / "out", NUMBERS, write={"dictionary": True})
    assert result.bytes_spliced > 0
    group = pq.read_metadata(result.outputs[0].path).row_group(0)
    assert [group.column(index).has_dictionary_page for index in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"splices": False},
        {"checksum": True},
        {"write": {"bloom_filter_columns": ((1, 0.1),)}},
        {"write": {"compression": "snappy"}},
        {"write": {"row_group_rows": 20_000}},
        {"write": {"row_group_bytes": 100_000}},
        {"outputs": 2},
    ],
    ids=str,
)
def test_tasks_that_rule_out_splicing_are_encoded(tmp_path: Path, changes: dict[str, Any]) -> None:
    inputs = large_files(tmp_path)
    assert rewrite(inputs, tmp_path / "in", NUMBERS).bytes_spliced > 0
    result = rewrite(inputs, tmp_path / "out", NUMBERS, **changes)
    assert (result.bytes_spliced, result.rows_written) == (0, 75_000)


def test_tasks_with_new_partitions_or_without_inputs_are_not_spliced(tmp_path: Path) -> None:
    """I1: rows that change their partition cannot keep their pages."""
    inputs = large_files(tmp_path)
    storage, task = Storage(STORAGE), make_task(inputs, NUMBERS, tmp_path / "out", splices=True)
    assert may_splice(task, storage)
    for changes in (
        {"partitioning": (TaskPartitionField(1, "bucket[4]"),)},
        {"inputs": ()},
    ):
        assert not may_splice(replace(task, **changes), storage), changes


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_files_of_every_writer_are_spliced(tmp_path: Path, write: Writer) -> None:
    inputs = inputs_of(write, tmp_path)
    compression = pq.read_metadata(inputs[0].path).row_group(0).column(0).compression.lower()
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, WRITTEN, write={"compression": compression})
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    expected = pa.concat_tables([table(number * ROWS) for number in range(3)])
    assert rows_of(spliced).cast(WRITTEN).equals(expected)
    check_offsets(Path(spliced.outputs[0].path))
    assert polars.read_parquet(spliced.outputs[0].path)["id"].to_list() == expected["id"].to_pylist()


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_every_codec_and_both_kinds_of_pages_are_moved_together(tmp_path: Path, codec: str) -> None:
    tables = [rows(0, 300), rows(300, 200), rows(500, 100)]
    inputs = [
        write_files(tmp_path / str(number), [one], **PLAIN | {"compression": codec, "data_page_version": version})[0]
        for number, (one, version) in enumerate(zip(tables, ("1.0", "2.0", "1.0"), strict=True))
    ]
    with small_files_count():
        changes = {"write": {"compression": "uncompressed" if codec == "none" else codec}}
        spliced, encoded = both(inputs, tmp_path, SCHEMA, **changes)
    assert spliced.bytes_spliced > 0.3 * spliced.bytes_written
    assert_alike(spliced, encoded)
    assert rows_of(spliced).cast(SCHEMA).equals(pa.concat_tables(tables))
    check_offsets(Path(spliced.outputs[0].path))
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*), sum(id) FROM read_parquet(?)", [spliced.outputs[0].path])
        assert found.fetchall() == [(600, sum(range(600)))]


def test_row_groups_and_outputs_are_as_large_as_encoding_makes_them(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, files=24, count=5_000)
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, NUMBERS, outputs=2, write={"row_group_rows": 25_000})
    assert spliced.bytes_spliced > 0
    for result in (spliced, encoded):
        footers = [pq.read_metadata(output.path) for output in result.outputs]
        groups = [[footer.row_group(number).num_rows for number in range(footer.num_row_groups)] for footer in footers]
        assert [len(group) for group in groups] == [3, 3]
        assert all(15_000 <= rows <= 25_000 for group in groups for rows in group)
        assert [len(output.split_offsets) for output in result.outputs] == [3, 3]
    assert rows_of(spliced).equals(rows_of(encoded))


def test_no_tiny_row_group_follows_a_large_file(tmp_path: Path) -> None:
    tables = [rows(0, 10), rows(10, 400), rows(410, 5)]
    with small_files_count():
        result = rewrite(write_files(tmp_path, tables, **PLAIN), tmp_path / "out", SCHEMA)
    footer = pq.read_metadata(result.outputs[0].path)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [415]


def test_columns_that_cannot_be_moved_are_encoded_plain_next_to_those_that_can(tmp_path: Path) -> None:
    """Later files with dictionaries, another codec, no statistics, other columns."""
    older = pa.schema([column for column in SCHEMA if column.name not in ("small", "ratio", "place")])
    tables = [rows(number * 100, 100) for number in range(5)]
    how: list[dict[str, Any]] = [
        PLAIN,
        PLAIN | {"use_dictionary": True},
        PLAIN | {"compression": "gzip"},
        PLAIN | {"write_statistics": False, "write_page_index": False},
        PLAIN,
    ]
    tables[4] = tables[4].select(older.names)
    inputs = [write_files(tmp_path / str(n), [one], **how[n])[0] for n, one in enumerate(tables)]
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, SCHEMA)
    first = pq.read_metadata(inputs[0].path).row_group(0)
    assert spliced.bytes_spliced > sum(first.column(n).total_compressed_size for n in range(first.num_columns)) * 0.9
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))
    assert rows_of(spliced)["small"].null_count > 100
    check_offsets(Path(spliced.outputs[0].path))


def test_floats_are_moved_and_their_nan_counted(tmp_path: Path) -> None:
    kinds = (pa.float64(), pa.float32(), pa.float64(), pa.float64())
    schema = pa.schema(
        [field(name, kind, number) for number, (name, kind) in enumerate(zip("abcd", kinds, strict=True), 1)]
    )
    nan = float("nan")
    tables = [
        pa.table([[1.5, nan, None], [0.0, 0.0, 0.0], [nan, nan, None], [-0.0, -1.0, None]], schema=schema),
        pa.table([[nan, -2.5, 7.0], [0.0, 0.0, 1.0], [nan, nan, nan], [-0.0, -3.5, nan]], schema=schema),
    ]
    with small_files_count():
        spliced, encoded = both(write_files(tmp_path, tables, **PLAIN), tmp_path, schema)
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert spliced.outputs[0].nan_value_counts == {1: 2, 2: 0, 3: 5, 4: 1}
    group = pq.read_metadata(spliced.outputs[0].path).row_group(0)
    assert repr((group.column(1).statistics.min, group.column(1).statistics.max)) == "(-0.0, 1.0)"  # both zeros
    assert not any(group.column(number).statistics.has_min_max for number in (0, 2, 3))  # readers miss NaN by them
    assert set(spliced.outputs[0].lower_bounds) == set(spliced.outputs[0].upper_bounds) == {2}  # nor in manifests


def test_rows_of_v3_get_their_lineage_written_beside_moved_pages(tmp_path: Path) -> None:
    """Also where every column of the table is moved [I8]."""
    inputs = write_files(tmp_path, [rows(0, 300), rows(300, 200)], **PLAIN)
    inputs = [
        replace(inputs[0], sequence_number=3, first_row_id=1000),
        replace(inputs[1], sequence_number=5, first_row_id=70),
    ]
    modes = {ROW_ID: "full", LAST_UPDATED: "full", 1: "full"}
    with small_files_count():
        changes = {"lineage": True, "batch_rows": 64, "write": {"metrics_modes": modes}}  # several batches a file
        spliced, encoded = both(inputs, tmp_path, SCHEMA, **changes)
        again, _ = both(
            [replace(given(Path(spliced.outputs[0].path), 500), sequence_number=9, first_row_id=5000)],
            tmp_path / "again",
            SCHEMA,
            lineage=True,
        )
    for result in (spliced, again):
        assert result.bytes_spliced > 0
        found = rows_of(result)
        assert found.equals(rows_of(encoded))
        assert found[ROW_ID_NAME].to_pylist() == [*range(1000, 1300), *range(70, 270)]
        assert found[LAST_UPDATED_NAME].to_pylist() == [3] * 300 + [5] * 200
    assert_alike(spliced, encoded)


def test_a_single_column_of_v3_is_moved_too(tmp_path: Path) -> None:
    schema = pa.schema([field("id", pa.int64(), 1)])
    inputs = [
        write_file(tmp_path / f"{n}.parquet", numbers(n * 25_000, 25_000).select(["id"]).cast(schema), **PLAIN)
        for n in range(2)
    ]
    inputs = [replace(file, sequence_number=2, first_row_id=n * 1_000_000) for n, file in enumerate(inputs)]
    spliced, encoded = both(inputs, tmp_path, schema, lineage=True)
    assert spliced.bytes_spliced > 0
    assert rows_of(spliced).equals(rows_of(encoded))


def test_sizes_in_footers_are_true(tmp_path: Path) -> None:
    with small_files_count():
        result = rewrite(write_files(tmp_path, [rows(0, 100), rows(100, 50)], **PLAIN), tmp_path / "out", SCHEMA)
    path = Path(result.outputs[0].path)
    content = path.read_bytes()
    footer, _ = read_struct(footer_bytes(path))
    (group,) = footer[FileField.ROW_GROUPS][1].items
    uncompressed = compressed = 0
    for chunk in group[GroupField.COLUMNS][1].items:
        metadata = chunk[ChunkField.METADATA][1]
        assert _sizes_by_pages(content, metadata) == (
            metadata[MetadataField.VALUES][1],
            metadata[MetadataField.UNCOMPRESSED][1],
            metadata[MetadataField.COMPRESSED][1],
        )
        pages = sum(kind[3][1] for kind in metadata[MetadataField.ENCODING_STATS][1].items)
        is_in_a_list = len(metadata[MetadataField.PATH][1].items) > 2
        assert pages == (1 if is_in_a_list else 2)  # one of each file, unless it is encoded again
        uncompressed += metadata[MetadataField.UNCOMPRESSED][1]
        compressed += metadata[MetadataField.COMPRESSED][1]
    assert (group[GroupField.TOTAL_BYTES][1], group[GroupField.TOTAL_COMPRESSED][1]) == (uncompressed, compressed)


def test_page_indexes_give_the_place_and_bounds_of_each_page(tmp_path: Path) -> None:
    schema = pa.schema([field("id", pa.int64(), 1)])
    tables = [
        pa.table([pa.array([*range(first, first + 40), *[None] * 25], pa.int64())], schema=schema)
        for first in (1000, 0, 500)
    ]
    with small_files_count():
        inputs = write_files(tmp_path, tables, **PLAIN, max_rows_per_page=20)
        result = rewrite(inputs, tmp_path / "out", schema)
    assert result.bytes_spliced > 0
    path = Path(result.outputs[0].path)
    check_offsets(path)
    content, found = path.read_bytes(), rows_of(result)["id"].to_pylist()
    chunk = _chunk_of(read_struct(footer_bytes(path))[0])
    index, _ = read_struct(content, chunk[ChunkField.OFFSET_INDEX][1])
    bounds, _ = read_struct(content, chunk[ChunkField.COLUMN_INDEX][1])
    starts = [location[LocationField.FIRST_ROW][1] for location in index[1][1].items]
    assert starts == [first + page for first in (0, 65, 130) for page in (0, 20, 40, 60)]
    for number, (start, end) in enumerate(pairwise([*starts, len(found)])):
        values = [value for value in found[start:end] if value is not None]
        assert (bounds[1][1].items[number] == 1) == (not values)
        assert bounds[5][1].items[number] == end - start - len(values)
        if values:
            lower, upper = (int.from_bytes(bounds[one][1].items[number], "little") for one in (2, 3))
            assert (lower, upper) == (min(values), max(values))
    assert bounds[4][1] == 0  # in no order


def _sizes_by_pages(content: bytes, metadata: Struct) -> tuple[int, int, int]:
    start = position = metadata[MetadataField.DATA_PAGE][1]
    values = uncompressed = 0
    while position < start + metadata[MetadataField.COMPRESSED][1]:
        header, after = read_struct(content, position)
        values += (header.get(5) or header[8])[1][1][1]
        uncompressed += after - position + header[2][1]
        position = after + header[3][1]
    return values, uncompressed, position - start


def test_a_task_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, files=6)
    task = make_task(inputs, NUMBERS, tmp_path / "out", splices=True)
    task = replace(task, write=replace(task.write, dictionary=False, row_group_rows=50_000))
    asked = iter([False] * 10)
    with pytest.raises(Exception, match="Stopped on request"):
        run_task(task, 0, STORAGE, should_stop=lambda: next(asked, True))
    assert list((tmp_path / "out").glob("*")) == []


def test_a_task_that_cannot_continue_splicing_encodes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A footer by a later Arrow, with fields that this version does not know, must not stop a task."""
    inputs = large_files(tmp_path, files=5, count=25_000)
    changes = {"write": {"dictionary": True, "row_group_rows": 50_000}}
    expected = rewrite(inputs, tmp_path / "in", NUMBERS, **changes)
    assert expected.bytes_spliced > 0
    made = []

    def only_once(table: pa.Table, options: Any) -> Source:
        made.append(table.num_rows)
        if len(made) > 1:
            raise CannotCopy("it has fields that this version does not know")
        return in_memory(table, options)

    monkeypatch.setattr(encoders, "in_memory", only_once)
    result = rewrite(inputs, tmp_path / "out", NUMBERS, **changes)
    assert (result.bytes_spliced, len(made)) == (0, 2)
    assert rows_of(result).equals(rows_of(expected))
    assert [file.name for file in (tmp_path / "out").iterdir()] == [Path(output.path).name for output in result.outputs]


def test_outputs_that_cannot_be_removed_fail_the_task_before_their_names_are_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding may write fewer files, and after a success recovery does not look for others [I6]."""
    inputs = large_files(tmp_path, files=5)

    def refused(_storage: Storage, place: Place) -> None:
        raise KernelFailure(FailureKind.DENIED, f"Access denied: cannot write {place.location}")

    changes = {"write": {"dictionary": True, "row_group_rows": 50_000}}
    monkeypatch.setattr(splicing.SplicingWriter, "_flush", begin_and_fail)
    assert rewrite(inputs, tmp_path / "in", NUMBERS, **changes).rows_written == 125_000
    monkeypatch.setattr(Storage, "delete", refused)
    with pytest.raises(KernelFailure, match="could not be removed"):
        rewrite(inputs, tmp_path / "out", NUMBERS, **changes)


def begin_and_fail(writer: splicing.SplicingWriter) -> None:
    """Begins an output, then cannot continue."""
    writer._current = writer._open_output()
    raise CannotCopy("it has fields that this version does not know")


def test_a_file_that_no_row_group_can_hold_is_encoded(tmp_path: Path) -> None:
    """The other files are encoded too: the large one would be a single row group, all in memory."""
    schema = pa.schema([field("id", pa.int64(), 1), field("text", pa.string(), 2)])

    def texts(first: int, width: int) -> pa.Table:
        ids = range(first, first + 25_000)
        return pa.table([pa.array(ids, pa.int64()), [f"{'x' * width}{i}" for i in ids]], schema=schema)

    inputs = [
        write_file(tmp_path / f"{number}.parquet", texts(number * 25_000, width), **PLAIN)
        for number, width in enumerate((10, 10, 10, 10, 800))
    ]
    changes = {"write": {"row_group_bytes": 4_000_000, "page_bytes": 1 << 20}}
    assert rewrite(inputs[:4], tmp_path / "some", schema, **changes).bytes_spliced > 0
    for name, chosen in (("late", inputs), ("early", inputs[::-1])):
        result = rewrite(chosen, tmp_path / name, schema, **changes)
        assert (result.bytes_spliced, result.rows_written) == (0, 125_000)
        assert len(list((tmp_path / name).iterdir())) == len(result.outputs)


def test_large_local_files_are_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = large_files(tmp_path)
    monkeypatch.setattr(open_files, "FETCHED_WHOLE", 1000)
    spliced, encoded = both(inputs, tmp_path, NUMBERS)
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))


def test_many_tiny_files_among_large_ones_are_encoded(tmp_path: Path) -> None:
    large = large_files(tmp_path / "large", files=2, count=60_000)
    tiny = large_files(tmp_path / "tiny", files=2, count=100)
    assert rewrite([*large * 4, tiny[0]], tmp_path / "in", NUMBERS).bytes_spliced > 0
    assert rewrite([*large, *tiny], tmp_path / "out", NUMBERS).bytes_spliced == 0


def _chunk_of(footer: Struct) -> Struct:
    found: Struct = footer[FileField.ROW_GROUPS][1].items[0][GroupField.COLUMNS][1].items[0]
    return found


def _statistics_of(footer: Struct) -> Struct:
    found: Struct = _chunk_of(footer)[ChunkField.METADATA][1][MetadataField.STATISTICS][1]
    return found


def _no_nulls_counted(footer: Struct) -> None:
    del _statistics_of(footer)[3]


def _bounds_swapped(footer: Struct) -> None:
    statistics = _statistics_of(footer)
    statistics[5], statistics[6] = statistics[6], statistics[5]


def _bounds_cut(footer: Struct) -> None:
    _statistics_of(footer)[7] = (1, False)


def _no_bounds(footer: Struct) -> None:
    del _statistics_of(footer)[5]


def _no_orders(footer: Struct) -> None:
    del footer[FileField.COLUMN_ORDERS]


def _old_writer(footer: Struct) -> None:
    footer[FileField.CREATED_BY] = (8, b"parquet-mr version 1.8.1 (build x)")


def _unknown_field(footer: Struct) -> None:
    _chunk_of(footer)[ChunkField.METADATA][1][99] = (5, 1)


@pytest.mark.parametrize(
    "edit",
    [_no_nulls_counted, _bounds_swapped, _bounds_cut, _no_bounds, _no_orders, _old_writer, _unknown_field],
    ids=lambda edit: edit.__name__,
)
def test_a_column_with_doubtful_statistics_is_encoded(tmp_path: Path, edit: Callable[[Struct], None]) -> None:
    schema = pa.schema([NUMBERS.field("id")])
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        write_file(path, numbers(number * 25_000, 25_000).select(["id"]), **PLAIN)
    assert rewrite([given(path, 25_000) for path in paths], tmp_path / "in", schema).bytes_spliced > 0
    edit_footer(paths[0], edit)
    spliced, encoded = both([given(path, 25_000) for path in paths], tmp_path, schema)
    assert spliced.bytes_spliced == 0
    assert_alike(spliced, encoded)
    with small_files_count():  # the other file decides, and this one's pages are made plain
        mixed, encoded = both([given(path, 25_000) for path in reversed(paths)], tmp_path / "mixed", schema)
    assert mixed.bytes_spliced == pq.read_metadata(paths[1]).row_group(0).column(0).total_compressed_size
    assert_alike(mixed, encoded)
    assert rows_of(mixed)["id"].to_pylist() == [*range(25_000, 50_000), *range(25_000)]


@pytest.mark.parametrize(
    ("field_of_page", "value"),
    [((5, 2), 5), ((5, 3), 4), ((1,), 1), ((5, 1), 7), ((5, 1), 0), ((3,), 10**6), ((99,), 1)],
    ids=str,
)
def test_pages_that_are_not_plain_data_are_not_moved(field_of_page: tuple[int, ...], value: int) -> None:
    leaf = SchemaLeaf((b"id",), 2, 0, 1, 8)
    header: Struct = {1: (5, 0), 2: (5, 80), 3: (5, 4), 5: (12, {1: (5, 10), 2: (5, 0), 3: (5, 3), 4: (5, 3)})}
    content = write_struct(header) + b"data"
    (page,) = plain_pages(page_spans(content), leaf)
    assert (page.values, page.length, page.uncompressed) == (10, len(content), len(content) + 76)
    changed = header[5][1] if len(field_of_page) > 1 else header
    changed[field_of_page[-1]] = (5, value)
    damaged = write_struct(header) + b"data"
    if (field_of_page, value) == ((5, 1), 7):
        assert plain_pages(page_spans(damaged), leaf)[0].values == value  # for the chunk's count to notice
    else:
        with pytest.raises(CannotCopy):
            plain_pages(page_spans(damaged), leaf)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((True, True), True), ((True, False), False), ((None, False), False), ((None, True), None), ((None, None), None)],
    ids=str,
)
def test_a_bound_is_called_exact_only_if_that_of_every_part_is(
    flags: tuple[bool | None, ...], expected: bool | None
) -> None:
    """Readers treat a bound as exact unless the footer says otherwise, so a truncated one must say so."""
    page = DataPage(10, 10, 1, 0)
    parts = [SourceChunk((), (page,), 1, ChunkStatistics(0, b"a", b"b", flag, flag), None) for flag in flags]
    merged = merge_chunks(parts, 4, SchemaLeaf((b"name",), 6, 0, 1, None), pa.string(), 6, None)
    statistics = merged.struct[ChunkField.METADATA][1][MetadataField.STATISTICS][1]
    found = [statistics.get(field, (0, None))[1] for field in (7, 8)]
    assert found == [expected, expected]
