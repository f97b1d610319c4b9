"""Files are copied as bytes: the rows are the same, and the metadata in footers and manifests is true."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import SCHEMA, copy, read_back, rows, write_files
from tests.builders.tasks import STORAGE, make_task
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import ChecksumResult, ChecksumTask, TaskInput, TaskResult

PAGES = {"write_page_index": True, "data_page_size": 1000, "max_rows_per_page": 100}


def test_rows_are_the_same_and_row_groups_stay_as_they_were(tmp_path: Path) -> None:
    tables = [rows(0, 500), rows(500, 700), rows(1200, 300)]
    result = copy(write_files(tmp_path, tables, row_group_size=250, **PAGES), tmp_path / "out")
    assert (result.mode, result.mode_reason) == ("copy", "")
    assert read_back(result).equals(pa.concat_tables(tables).cast(SCHEMA))
    footer = pq.read_metadata(result.outputs[0].path)
    assert [footer.row_group(number).num_rows for number in range(7)] == [250, 250, 250, 250, 200, 250, 50]
    assert result.rows_read == result.rows_written == 1500
    assert result.outputs[0].size == Path(result.outputs[0].path).stat().st_size


def test_outputs_are_divided_between_row_groups(tmp_path: Path) -> None:
    tables = [rows(first, 400) for first in range(0, 2400, 400)]
    result = copy(write_files(tmp_path, tables, row_group_size=200), tmp_path / "out", outputs=3)
    assert [output.records for output in result.outputs] == [800, 800, 800]
    assert read_back(result).equals(pa.concat_tables(tables).cast(SCHEMA))


def test_a_row_group_beyond_the_largest_size_stays_whole(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 500), rows(500, 500)])
    result = copy(inputs, tmp_path / "out", outputs=4, target=1000)
    assert [output.records for output in result.outputs] == [500, 500]


def test_manifest_metrics_are_those_of_an_encoded_file_but_for_floats(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 500), rows(500, 700)], row_group_size=250)
    copied, encoded = copy(inputs, tmp_path / "copied"), copy(inputs, tmp_path / "encoded", mode="encode")
    (ours,), (theirs,) = copied.outputs, encoded.outputs
    floats = {4, 23}
    assert ours.value_counts == theirs.value_counts
    assert ours.null_value_counts == theirs.null_value_counts
    assert ours.lower_bounds == {key: value for key, value in theirs.lower_bounds.items() if key not in floats}
    assert ours.upper_bounds == {key: value for key, value in theirs.upper_bounds.items() if key not in floats}
    assert ours.column_sizes.keys() == theirs.column_sizes.keys()
    assert copied.input_facts == copied.output_facts == encoded.input_facts
    footer = pq.read_metadata(ours.path)
    starts = [footer.row_group(number).column(0).dictionary_page_offset for number in range(footer.num_row_groups)]
    assert ours.split_offsets == tuple(starts)


def test_bounds_of_floats_are_left_out_because_no_footer_counts_nan(tmp_path: Path) -> None:
    result = copy(write_files(tmp_path, [rows(0, 100)]), tmp_path / "out")
    assert not {4, 23} & (result.outputs[0].lower_bounds.keys() | result.outputs[0].upper_bounds.keys())
    assert result.outputs[0].nan_value_counts == {}


def test_files_without_statistics_get_no_bounds_and_no_null_counts(tmp_path: Path) -> None:
    inputs = [
        *write_files(tmp_path / "with", [rows(0, 100)]),
        *write_files(tmp_path / "without", [rows(100, 100)], write_statistics=False),
    ]
    (output,) = copy(inputs, tmp_path / "out").outputs
    assert output.value_counts[1] == 200
    assert (output.null_value_counts, output.lower_bounds, output.upper_bounds) == ({}, {}, {})


def test_the_checksum_of_full_verification_is_that_of_the_rows(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 300), rows(300, 300)])
    result = copy(inputs, tmp_path / "out", checksum=True)
    outputs = tuple(TaskInput(output.path, output.size, output.records) for output in result.outputs)
    again = run_task(ChecksumTask("job", 0, outputs, bytes(SCHEMA.serialize())), 0, STORAGE)
    encoded = copy(inputs, tmp_path / "encoded", checksum=True, mode="encode")
    assert isinstance(again, ChecksumResult)
    assert result.checksum == again.checksum == encoded.checksum


def test_a_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 300), rows(300, 300)])
    asked: list[bool] = []

    def stop_at_the_second() -> bool:
        asked.append(True)
        return len(asked) > 1

    task = make_task(inputs, SCHEMA, tmp_path / "out", mode="copy")
    with pytest.raises(Exception, match="Stopped"):
        run_task(task, 0, STORAGE, stop_at_the_second)
    assert list((tmp_path / "out").iterdir()) == []


def test_empty_row_groups_and_files_are_left_out(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 0), rows(0, 100), rows(0, 0)])
    result = copy(inputs, tmp_path / "out")
    assert result.mode == "copy"
    assert pq.read_metadata(result.outputs[0].path).num_row_groups == 1
    nothing = copy(write_files(tmp_path / "empty", [rows(0, 0)]), tmp_path / "none")
    assert isinstance(nothing, TaskResult)
    assert nothing.outputs == ()
