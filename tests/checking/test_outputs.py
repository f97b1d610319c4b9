"""False statements of outputs are found, except those that were false in their inputs in the same way."""

import struct
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tests.builders.checked_files import metadata, put, statistics
from tests.builders.copy_tasks import SCHEMA, copy, rows, write_files
from tests.builders.footers import edit_footer
from tests.builders.tasks import STORAGE, make_task
from tidyberg.execute.kernel.check.outputs import output_problems, report_stored_file
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import ChecksumResult, TaskInput, TaskResult
from tidyberg.parquet.check.file import FileReport, check_file, check_path
from tidyberg.parquet.check.problems import FileProblem
from tidyberg.parquet.fields import FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import BINARY, I16, I64, Struct
from tidyberg.storage.file_io import Storage
from tidyberg.verify.contents import checksum_tasks

ID, SMALL = 0, 1
DISTINCT, UPPER = 4, 5


def rules_of(result: TaskResult, sources: list[TaskInput]) -> set[str]:
    found = output_problems(result.outputs, sources, partial(report_stored_file, Storage(STORAGE), lambda: False))
    return {problem.rule for problem in found}


def say_distinct(footer: Struct) -> None:
    put(statistics(footer, SMALL), DISTINCT, 3, I64)


def output_path(result: TaskResult) -> Path:
    return Path(result.outputs[0].path)


def test_a_false_statement_of_an_input_is_allowed_in_its_copy(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 100), rows(100, 100)])
    for file in inputs:  # a copy says nothing that only some of its inputs say
        edit_footer(Path(file.path), say_distinct)
    inputs = [replace(file, size=Path(file.path).stat().st_size) for file in inputs]
    result = copy(inputs, tmp_path / "out")
    assert result.mode == "copy"
    assert rules_of(result, []) == {"distinct-count"}
    assert rules_of(result, inputs) == set()


def test_a_statement_that_is_true_in_every_input_must_be_true_in_the_copy(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 100), rows(100, 100)])
    result = copy(inputs, tmp_path / "out")
    edit_footer(output_path(result), say_distinct)
    described = replace(result.outputs[0], size=output_path(result).stat().st_size)
    assert rules_of(replace(result, outputs=(described,)), inputs) == {"distinct-count"}


def test_a_false_statement_about_another_column_is_no_excuse(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 100)])
    edit_footer(Path(inputs[0].path), lambda footer: put(statistics(footer, ID), DISTINCT, 3, I64))
    inputs = [replace(file, size=Path(file.path).stat().st_size) for file in inputs]
    result = copy(inputs, tmp_path / "out")
    edit_footer(output_path(result), say_distinct)
    described = replace(result.outputs[0], size=output_path(result).stat().st_size)
    assert rules_of(replace(result, outputs=(described,)), inputs) == {"distinct-count"}


@pytest.mark.parametrize(
    ("said", "in_output", "left"),
    [
        (["the page at 4 has a type that the format does not allow here"], ["pages have 9 levels for 10 values"], 1),
        (["pages have 3 levels for 10 values"], ["pages have 9 levels for 10 values"] * 2, 1),
        (["pages have 3 levels for 10 values"] * 2, ["pages have 9 levels for 10 values"] * 2, 0),
        (["the page header at 40 is damaged: 'a'"], ["the page header at 4000 is damaged: 'a'"], 0),
    ],
    ids=["another statement", "once more", "each once", "in another place"],
)
def test_damage_of_an_input_excuses_only_itself(
    tmp_path: Path, said: list[str], in_output: list[str], left: int
) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 100)])
    result = copy(inputs, tmp_path / "out")

    def report(path: str, _: int) -> FileReport:
        words = said if path == inputs[0].path else in_output
        problems = tuple(FileProblem("pages", what, path, 0, "small") for what in words)
        return replace(check_path(path), problems=problems)

    assert len(output_problems(result.outputs, inputs, report)) == left


def test_a_statement_that_the_copy_writes_itself_must_be_true(tmp_path: Path) -> None:
    def number_the_first(footer: Struct) -> None:
        put(footer[FileField.ROW_GROUPS][1].items[0], GroupField.ORDINAL, 0, I16)

    inputs = write_files(tmp_path / "in", [rows(0, 100)], row_group_size=50)
    edit_footer(Path(inputs[0].path), number_the_first)
    inputs = [replace(file, size=Path(file.path).stat().st_size) for file in inputs]
    result = run_task(make_task(inputs, SCHEMA, tmp_path / "out"), 0, STORAGE)
    assert isinstance(result, TaskResult)
    edit_footer(output_path(result), lambda footer: put(footer[4][1].items[0], GroupField.ORDINAL, 3, I16))
    described = replace(result.outputs[0], size=output_path(result).stat().st_size)
    assert rules_of(replace(result, outputs=(described,)), inputs) == {"ordinals"}


@pytest.mark.unwatched
def test_the_metrics_for_the_manifest_must_be_true(tmp_path: Path) -> None:
    """The manifests may have been true about the inputs even if their footers were false."""
    inputs = write_files(tmp_path / "in", [rows(0, 100)])

    def lower_the_bound(footer: Struct) -> None:
        for field in (UPPER, 1):
            put(statistics(footer, ID), field, struct.pack("<q", 7), BINARY)

    edit_footer(Path(inputs[0].path), lower_the_bound)
    inputs = [replace(file, size=Path(file.path).stat().st_size) for file in inputs]
    result = copy(inputs, tmp_path / "out")
    assert result.mode == "copy"
    assert rules_of(result, inputs) == {"metrics-bound"}


def test_files_that_are_read_back_are_compared_with_their_metrics(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 100)])
    task = make_task(inputs, SCHEMA, tmp_path / "out", checksum=True)
    result = run_task(task, 0, STORAGE)
    assert isinstance(result, TaskResult)
    (check,) = checksum_tasks([task], [result])
    assert check.sources == ()  # all rows were encoded again
    (copied,) = checksum_tasks([task], [replace(result, mode="copy")])
    assert copied.sources == task.inputs
    found = run_task(check, 0, STORAGE)
    assert isinstance(found, ChecksumResult)
    assert (found.checksum, found.problems) == (result.checksum, ())
    wrong = replace(check, described=(replace(check.described[0], records=99),))
    found = run_task(wrong, 0, STORAGE)
    assert isinstance(found, ChecksumResult)
    (problem,) = found.problems
    assert "the number of records is 99, but it should be 100" in problem


def test_checking_can_be_stopped(tmp_path: Path) -> None:
    result = copy(write_files(tmp_path / "in", [rows(0, 100)]), tmp_path / "out")
    with pytest.raises(KernelFailure) as stopped:
        output_problems(result.outputs, (), partial(report_stored_file, Storage(STORAGE), lambda: True))
    assert stopped.value.kind is FailureKind.STOPPED


def test_pages_that_cannot_be_walked_are_reported(tmp_path: Path) -> None:
    result = copy(write_files(tmp_path / "in", [rows(0, 100)]), tmp_path / "out")
    edit_footer(output_path(result), lambda footer: put(metadata(footer, ID), MetadataField.CODEC, 3))
    assert "pages" in rules_of(result, [])


def test_a_file_is_checked_from_bytes_and_from_arrow_buffers(tmp_path: Path) -> None:
    """Object stores return Arrow buffers, whose items are signed bytes."""
    (file,) = write_files(tmp_path / "in", [rows(0, 300)], write_page_index=True)
    content = pa.py_buffer(Path(file.path).read_bytes())

    def read(offset: int, length: int) -> pa.Buffer:
        return content.slice(offset, length)

    report = check_file(read, file.size)
    assert (report.problems, report.rows) == ((), 300)
    assert len(report.columns) == len(check_path(file.path).columns) > 0
