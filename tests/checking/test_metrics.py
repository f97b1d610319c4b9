"""False metrics in a manifest are found. Bounds may be true without being values of the column."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.builders.copy_tasks import SCHEMA, given, rows, write_files
from tests.builders.tasks import STORAGE, field, make_task, write_file
from tidyberg.execute.kernel.check.metrics import check_metrics, written_file_of
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskResult, WrittenFile
from tidyberg.parquet.check.file import check_path

ID, NAME, RATIO, PRICE, DAY = 1, 3, 4, 6, 12


def rules(written: WrittenFile) -> set[str]:
    return {problem.rule for problem in check_metrics(check_path(written.path), written)}


def encoded(directory: Path, table: pa.Table, schema: pa.Schema = SCHEMA) -> WrittenFile:
    inputs = write_files(directory, [table])
    result = run_task(make_task(inputs, schema, directory / "out"), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result.outputs[0]


def test_the_metrics_of_an_output_are_true(tmp_path: Path) -> None:
    written = encoded(tmp_path, rows(0, 300))
    assert rules(written) == set()
    assert len(written.lower_bounds) > 12


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("metrics-size", {"size": 1}),
    ("metrics-records", {"records": 299}),
    ("metrics-split-offsets", {"split_offsets": (5,)}),
    ("metrics-size", {"column_sizes": {ID: 3}}),
    ("metrics-values", {"value_counts": {NAME: 299}}),
    ("metrics-values", {"value_counts": {99: 300}}),
    ("metrics-nulls", {"null_value_counts": {NAME: 1}}),
    ("metrics-nans", {"nan_value_counts": {RATIO: 1}}),
    ("metrics-bound", {"lower_bounds": {ID: struct.pack("<q", 1)}}),
    ("metrics-bound", {"upper_bounds": {ID: struct.pack("<q", 298)}}),
    ("metrics-loose", {"upper_bounds": {ID: struct.pack("<q", 300)}}),
    ("metrics-bound", {"upper_bounds": {ID: b"xyz"}}),
    ("metrics-bound", {"upper_bounds": {99: b"xyz"}}),
    ("metrics-bound", {"upper_bounds": {NAME: "näme 4".encode()}}),
    ("metrics-bound", {"upper_bounds": {RATIO: struct.pack("<d", float("nan"))}}),
    ("metrics-bound", {"upper_bounds": {PRICE: b"\x01"}}),
    ("metrics-bound", {"upper_bounds": {DAY: struct.pack("<i", 1)}}),
]


@pytest.mark.parametrize(("rule", "change"), BROKEN, ids=[f"{at}-{rule}" for at, (rule, _) in enumerate(BROKEN)])
def test_a_false_metric_in_a_manifest_is_found(tmp_path: Path, rule: str, change: dict[str, Any]) -> None:
    assert rules(replace(encoded(tmp_path, rows(0, 300)), **change)) == {rule}


def test_bounds_of_text_may_be_truncated(tmp_path: Path) -> None:
    written = encoded(tmp_path, rows(0, 300))
    cut = replace(written, lower_bounds={NAME: b"n"}, upper_bounds={NAME: b"o"})
    assert rules(cut) == set()


@pytest.mark.parametrize(("lower", "upper", "found"), [(-0.0, 0.0, set()), (0.0, 0.0, {"metrics-bound"}),
                                                       (-0.0, -0.0, {"metrics-bound"})])  # fmt: skip
def test_bounds_cover_both_zeros(tmp_path: Path, lower: float, upper: float, found: set[str]) -> None:
    schema = pa.schema([field("ratio", pa.float64(), 1)])
    file = write_file(tmp_path / "file.parquet", pa.table([[0.0, -0.0]], schema=schema))
    said = {
        100: file.path,
        104: file.size,
        103: 2,
        125: {1: struct.pack("<d", lower)},
        128: {1: struct.pack("<d", upper)},
    }
    assert rules(written_file_of(said)) == found


def test_a_bound_of_a_column_without_values_is_found(tmp_path: Path) -> None:
    schema = pa.schema([field("ratio", pa.float64(), 1)])
    for nothing in (None, float("nan")):
        file = write_file(tmp_path / "file.parquet", pa.table([pa.array([nothing], pa.float64())], schema=schema))
        said = {100: file.path, 104: file.size, 103: 1, 125: {1: struct.pack("<d", 1.0)}}
        assert rules(written_file_of(said)) == {"metrics-bound"}


def test_a_file_that_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(b"nothing")
    assert rules(written_file_of({100: str(path), 104: given(path, 3).size, 103: 3})) == set()
