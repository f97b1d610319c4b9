"""Rows of format v3 keep their ids when their row groups are copied [I8]."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.copy_tasks import SCHEMA, copy, rows, write_files
from tests.builders.footers import edit_footer
from tests.builders.page_offsets import check_offsets
from tests.builders.tasks import STORAGE, make_task
from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, ROW_ID_NAME, with_lineage
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import ChecksumResult, ChecksumTask, TaskInput, TaskResult, WriteSettings
from tidyberg.parquet.fields import FileField
from tidyberg.parquet.thrift import BINARY

Lineage = tuple[int, int | None, int]  # of a row: its number, its id, its last update


def inputs_of(directory: Path, **options: Any) -> list[TaskInput]:
    files = write_files(directory, [rows(0, 300), rows(300, 200)], row_group_size=120, **options)
    return [
        replace(files[0], sequence_number=3, first_row_id=1000),
        replace(files[1], sequence_number=5, first_row_id=70),
    ]


def rewrite(inputs: list[TaskInput], directory: Path, **changes: Any) -> TaskResult:
    modes = {ROW_ID: "full", LAST_UPDATED: "full", 1: "full"}
    return copy(inputs, directory, lineage=True, **{"write": WriteSettings(metrics_modes=modes), **changes})


def lineage_of(result: TaskResult) -> list[Lineage]:
    found = pa.concat_tables([pq.read_table(output.path) for output in result.outputs])
    columns = [found[name].to_pylist() for name in ("id", ROW_ID_NAME, LAST_UPDATED_NAME)]
    return list(zip(*columns, strict=True))


INHERITED: list[Lineage] = [
    *((n, 1000 + n, 3) for n in range(300)),
    *((300 + n, 70 + n, 5) for n in range(200)),
]


def test_inherited_lineage_is_added_as_columns(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, write_page_index=True)
    copied, encoded = rewrite(inputs, tmp_path / "copied", outputs=2), rewrite(inputs, tmp_path / "e", mode="encode")
    assert (copied.mode, copied.mode_reason) == ("copy", "")
    assert lineage_of(copied) == lineage_of(encoded) == INHERITED
    assert copied.input_facts == encoded.input_facts
    assert [copied.output_facts[key] for key in (1, ROW_ID, LAST_UPDATED)] == [
        encoded.output_facts[key] for key in (1, ROW_ID, LAST_UPDATED)
    ]
    for output in copied.outputs:
        assert check_offsets(Path(output.path)) > 0
        assert pq.read_schema(output.path).names[-2:] == [ROW_ID_NAME, LAST_UPDATED_NAME]
    whole = rewrite(inputs, tmp_path / "whole").outputs[0]
    assert whole.lower_bounds == encoded.outputs[0].lower_bounds
    assert whole.upper_bounds == encoded.outputs[0].upper_bounds
    assert whole.null_value_counts == encoded.outputs[0].null_value_counts
    with duckdb.connect() as connection:
        query = f"SELECT id, {ROW_ID_NAME}, {LAST_UPDATED_NAME} FROM read_parquet(?)"
        assert connection.execute(query, [whole.path]).fetchall() == INHERITED


def test_an_arrow_schema_without_lineage_is_not_kept(tmp_path: Path) -> None:
    result = rewrite(inputs_of(tmp_path, store_schema=True), tmp_path / "out")
    assert result.mode == "copy"
    assert b"ARROW:schema" not in (pq.read_metadata(result.outputs[0].path).metadata or {})
    assert lineage_of(result) == INHERITED


def test_stored_lineage_is_copied_with_the_rest(tmp_path: Path) -> None:
    first = rewrite(inputs_of(tmp_path), tmp_path / "first")
    (stored,) = [TaskInput(output.path, output.size, output.records, 9, 5000) for output in first.outputs]
    fresh = replace(write_files(tmp_path / "fresh", [rows(500, 50)])[0], sequence_number=8, first_row_id=9000)
    added: list[Lineage] = [*((500 + n, 9000 + n, 8) for n in range(50))]
    for name, inputs, expected in (
        ("stored-first", [stored, fresh], INHERITED + added),
        ("fresh-first", [fresh, stored], added + INHERITED),
    ):
        result = rewrite(inputs, tmp_path / name)
        assert (result.mode, result.mode_reason) == ("copy", "")
        assert lineage_of(result) == expected
        check_offsets(Path(result.outputs[0].path))


def test_files_of_several_writers_keep_the_counts_of_their_lineage(tmp_path: Path) -> None:
    """Other columns lose their statistics. Without those of lineage, verification failed the whole job."""
    inputs = inputs_of(tmp_path)
    edit_footer(Path(inputs[1].path), lambda footer: footer.update({FileField.CREATED_BY: (BINARY, b"another writer")}))
    changed = [inputs[0], replace(inputs[1], size=Path(inputs[1].path).stat().st_size)]
    result = rewrite(changed, tmp_path / "out")
    assert (result.mode, result.mode_reason) == ("copy", "")
    assert lineage_of(result) == INHERITED
    facts = [result.output_facts[field] for field in (ROW_ID, LAST_UPDATED)]
    assert [fact.nulls for fact in facts] == [0, 0]
    assert result.output_facts[1].lower is None


def test_rows_that_have_no_ids_yet_get_them_from_the_commit(tmp_path: Path) -> None:
    inputs = [replace(file, first_row_id=None) for file in inputs_of(tmp_path)]
    result = rewrite(inputs, tmp_path / "out")
    assert result.mode == "copy"
    assert lineage_of(result) == [(n, None, seq) for n, _, seq in INHERITED]
    assert ROW_ID not in result.outputs[0].lower_bounds


def test_files_where_some_rows_inherit_are_encoded(tmp_path: Path) -> None:
    ids = pa.array([7 if number % 2 else None for number in range(100)], pa.int64())
    updates = pa.array([1] * 100, pa.int64())
    table = pa.table([*rows(0, 100).columns, ids, updates], schema=with_lineage(SCHEMA))
    for name, options in (("nulls", {}), ("unknown", {"write_statistics": False})):
        file = replace(write_files(tmp_path / name, [table], **options)[0], sequence_number=2, first_row_id=40)
        result = rewrite([file], tmp_path / f"out-{name}")
        assert "some of its rows may inherit their row lineage" in result.mode_reason
        assert lineage_of(result)[:3] == [(0, 40, 1), (1, 7, 1), (2, 42, 1)]


def test_lineage_that_is_too_large_for_memory_is_encoded(tmp_path: Path) -> None:
    assert (
        "does not fit into the memory" in rewrite(inputs_of(tmp_path), tmp_path / "out", memory_bytes=1000).mode_reason
    )


def test_full_verification_counts_the_lineage(tmp_path: Path) -> None:
    result = rewrite(inputs_of(tmp_path), tmp_path / "out", checksum=True)
    outputs = tuple(TaskInput(output.path, output.size, output.records, 1, 1) for output in result.outputs)
    again = run_task(ChecksumTask("job", 0, outputs, bytes(SCHEMA.serialize()), lineage=True), 0, STORAGE)
    assert isinstance(again, ChecksumResult)
    assert result.checksum == again.checksum
    others = [replace(file, first_row_id=1) for file in inputs_of(tmp_path)]
    task = make_task(others, SCHEMA, tmp_path / "others", mode="copy", lineage=True, checksum=True)
    different = run_task(task, 0, STORAGE)
    assert isinstance(different, TaskResult)
    assert different.checksum != result.checksum
