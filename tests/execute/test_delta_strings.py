"""Delta-encoded strings next to dictionary strings: Arrow cannot read them as dictionaries, so they are read plain."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.delete_files import position_delete
from tests.builders.divided_tasks import TABLE, run_divided
from tests.builders.footers import edit_footer
from tests.builders.parquet_writers import by_arrow_rs
from tests.builders.tasks import STORAGE, field, make_task, read_rows, write_file
from tidyberg.execute.kernel.read import small_files as tiny
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskInput, TaskResult
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import I32, LIST, Struct, ThriftList

SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("kind", pa.string(), 2),
        field("place", pa.struct([field("city", pa.string(), 4)]), 3),
    ]
)
TELLING = 20_000  # rows: of a dictionary over fewer nothing is concluded
DELTA = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": [None if n % 11 == 0 else f"kind {n % 50}" for n in ids],
            "place": [None if n % 13 == 0 else {"city": f"city {n % 20}"} for n in ids],
        },
        schema=SCHEMA,
    )


def delta_file(path: Path, table: pa.Table, encoding: str, version: str = "2.0", **more: Any) -> TaskInput:
    encodings = {"kind": encoding, "place.city": encoding}
    return write_file(path, table, use_dictionary=False, column_encoding=encodings, data_page_version=version, **more)


def rewrite(inputs: list[TaskInput], directory: Path, **changes: Any) -> TaskResult:
    result = run_task(make_task(inputs, SCHEMA, directory, **changes), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result


def check(result: TaskResult, expected: pa.Table) -> None:
    assert read_rows([output.path for output in result.outputs]) == expected.to_pylist()
    chunk = pq.read_metadata(result.outputs[0].path).row_group(0).column(1)
    assert chunk.has_dictionary_page  # for it pays, whatever the inputs did


@pytest.mark.parametrize("splices", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", DELTA)
def test_files_with_dictionaries_and_delta_encoded_ones_are_read_together(
    tmp_path: Path, encoding: str, version: str, splices: bool
) -> None:
    tables = [rows(number * TELLING, TELLING) for number in range(3)]
    for name, order in (("dictionary-first", (0, 1, 2)), ("delta-first", (1, 2, 0))):
        directory = tmp_path / name
        inputs = [
            write_file(directory / f"{number}.parquet", tables[number])
            if number == 0
            else delta_file(directory / f"{number}.parquet", tables[number], encoding, version)
            for number in order
        ]
        result = rewrite(inputs, directory / "out", splices=splices)
        check(result, pa.concat_tables([tables[number] for number in order]))


def test_row_groups_of_one_file_may_be_encoded_differently(tmp_path: Path) -> None:
    """A writer whose dictionary grew too large continues with delta-encoded pages, in the same chunk or the next."""
    path, both = tmp_path / "both.parquet", rows(0, 2 * TELLING)
    half = pa.concat_tables([both.slice(TELLING), both.slice(0, TELLING)])
    inputs = [write_file(tmp_path / "first.parquet", half), delta_file(path, both, DELTA[0], row_group_size=5_000)]
    check(rewrite(inputs, tmp_path / "out", batch_rows=1_000), pa.concat_tables([half, both]))


def called_plain(footer: Struct) -> None:
    for group in footer[FileField.ROW_GROUPS][1].items:
        for chunk in group[GroupField.COLUMNS][1].items:
            chunk[ChunkField.METADATA][1][MetadataField.ENCODINGS] = (LIST, ThriftList(I32, [0]))


@pytest.mark.parametrize("batch_rows", [1_000, 131_072])
def test_an_encoding_that_the_footer_does_not_list_is_read(tmp_path: Path, batch_rows: int) -> None:
    tables = [rows(0, TELLING), rows(TELLING, TELLING)]
    inputs = [
        write_file(tmp_path / "0.parquet", tables[0]),
        delta_file(tmp_path / "1.parquet", tables[1], DELTA[0], row_group_size=7_000),
    ]
    edit_footer(Path(inputs[1].path), called_plain)
    inputs[1] = TaskInput(inputs[1].path, Path(inputs[1].path).stat().st_size, TELLING)
    check(rewrite(inputs, tmp_path / "out", batch_rows=batch_rows), pa.concat_tables(tables))


@pytest.mark.parametrize("encoding", DELTA)
def test_small_delta_encoded_files_are_joined_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    tables = [rows(0, TELLING), *(rows(TELLING + 100 * number, 100) for number in range(20))]
    inputs = [
        write_file(tmp_path / "large.parquet", tables[0], compression="zstd"),
        *(
            delta_file(tmp_path / f"{number}.parquet", each, encoding, "1.0", compression="zstd")
            for number, each in enumerate(tables[1:])
        ),
    ]
    joined: list[int] = []
    original = tiny.SmallFileReader.read

    def counted(self: tiny.SmallFileReader, files: Any, shape: Any) -> Any:
        found = original(self, files, shape)
        joined.append(len(files) if found is not None else 0)
        return found

    monkeypatch.setattr(tiny.SmallFileReader, "read", counted)
    check(rewrite(inputs, tmp_path / "out"), pa.concat_tables(tables))
    assert max(joined) == 21


def test_tasks_that_share_a_file_read_it(tmp_path: Path) -> None:
    tables = [rows(0, TELLING), rows(TELLING, 3 * TELLING)]
    inputs = [
        write_file(tmp_path / "0.parquet", tables[0]),
        delta_file(tmp_path / "1.parquet", tables[1], DELTA[0], row_group_size=TELLING),
    ]
    task = make_task(inputs, SCHEMA, tmp_path / "out", outputs=4)
    whole = run_divided(replace(task, parts=3), TABLE)
    assert read_rows([output.path for output in whole.outputs]) == pa.concat_tables(tables).to_pylist()


def as_dictionaries(table: pa.Table) -> pa.Table:
    """Returns the rows as a writer of categories has them. Its files say so in the Arrow schema that they store."""
    kind = pa.dictionary(pa.int32(), pa.string())
    place = field("place", pa.struct([field("city", kind, 4)]), 3)
    return table.cast(pa.schema([SCHEMA.field("id"), field("kind", kind, 2), place]))


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("encoding", DELTA)
def test_delta_encoded_columns_that_arrow_takes_for_dictionaries_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, joins: bool
) -> None:
    monkeypatch.setattr(tiny, "_MAX_REFUSED", 4 if joins else 0)
    tables = [rows(number * 100, 100) for number in range(3)]
    inputs = [
        delta_file(tmp_path / f"{number}.parquet", as_dictionaries(each), encoding, "1.0", store_schema=True)
        for number, each in enumerate(tables)
    ]
    with pytest.raises(OSError, match="DictAccumulator"):
        pq.read_table(inputs[0].path)
    result = rewrite(inputs, tmp_path / "out")
    assert read_rows([output.path for output in result.outputs]) == pa.concat_tables(tables).to_pylist()
    assert result.files_joined == (3 if joins else 0)


def test_categories_of_arrow_rs_whose_dictionary_grew_too_large_are_read(tmp_path: Path) -> None:
    path, table = tmp_path / "0.parquet", rows(0, 1_000)
    write = by_arrow_rs(writer_version="parquet_2_0", dictionary_page_size_limit=40, write_batch_size=50)
    write(as_dictionaries(table), path)
    assert {"RLE_DICTIONARY", "DELTA_BYTE_ARRAY"} <= {*pq.read_metadata(path).row_group(0).column(1).encodings}
    inputs = [TaskInput(str(path), path.stat().st_size, 1_000)]
    result = rewrite(inputs, tmp_path / "out", batch_rows=100)
    assert read_rows([output.path for output in result.outputs]) == table.to_pylist()


def test_position_deletes_with_delta_encoded_paths_apply(tmp_path: Path) -> None:
    data = write_file(tmp_path / "0.parquet", rows(0, 100))
    deleted = position_delete(tmp_path / "deletes.parquet", [(data.path, row) for row in (3, 4, 99)], 5)
    content = pq.read_table(deleted.path)
    pq.write_table(content, deleted.path, use_dictionary=False, column_encoding={"file_path": DELTA[0]})
    deleted = replace(deleted, size=Path(deleted.path).stat().st_size)
    result = rewrite([data], tmp_path / "out", deletes=(deleted,))
    assert [row["id"] for row in read_rows([result.outputs[0].path])] == [n for n in range(99) if n not in (3, 4)]
