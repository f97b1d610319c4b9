"""Short, impossible or contradictory statistics neither lose rows nor crash the process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars
import pyarrow as pa
import pytest

from tests.builders.copy_tasks import copy, given, read_back, write_files
from tests.builders.footers import edit_footer
from tests.builders.tasks import STORAGE, field
from tidyberg.execute.kernel.copy.lineage import inherited_lineage
from tidyberg.execute.kernel.read.source import open_source, storage_reader
from tidyberg.failures import KernelFailure
from tidyberg.model.task import TaskInput, WriteSettings
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ChunkField, ElementField, FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, Struct, ThriftList
from tidyberg.storage.file_io import Storage

TABLE = pa.schema([field("id", pa.int64(), 1), field("code", pa.binary(100), 2)])
ROWS = pa.table([pa.array([1, 2, 3]), pa.array([b"a" * 100, b"b" * 100, None], pa.binary(100))], schema=TABLE)
NULLS, UPPER, LOWER, UPPER_IS_EXACT, LOWER_IS_EXACT = 3, 5, 6, 7, 8


def with_statistics(directory: Path, column: int, changes: Struct) -> list[TaskInput]:
    """Two files, each with other statistics of one column."""

    def edit(footer: Struct) -> None:
        chunk = footer[FileField.ROW_GROUPS][1].items[0][GroupField.COLUMNS][1].items[column]
        chunk[ChunkField.METADATA][1][MetadataField.STATISTICS][1].update(changes)

    inputs = write_files(directory, [ROWS, ROWS])
    for file in inputs:
        edit_footer(Path(file.path), edit)
    return [given(Path(file.path), 3) for file in inputs]


@pytest.mark.parametrize("mode", ["copy", "encode"])
def test_truncated_bounds_of_long_fixed_bytes_are_not_read(tmp_path: Path, mode: str) -> None:
    # arrow-rs keeps 64 bytes of them; Arrow ends the process when it is asked for such a bound.
    cut: Struct = {UPPER: (BINARY, b"b" * 63 + b"c"), LOWER: (BINARY, b"a" * 64)}
    inexact: Struct = {UPPER_IS_EXACT: (TRUE, False), LOWER_IS_EXACT: (TRUE, False)}
    result = copy(with_statistics(tmp_path, 1, cut | inexact), tmp_path / "out", TABLE, mode=mode)
    assert result.mode == "encode"
    assert ("the bounds of column code are not as long as its values" in result.mode_reason) == (mode == "copy")
    assert read_back(result, TABLE).equals(pa.concat_tables([ROWS, ROWS]))
    assert (result.input_facts[2].values, result.input_facts[2].nulls, result.input_facts[2].lower) == (6, None, None)
    assert result.input_facts[1].nulls == 0
    assert result.outputs[0].null_value_counts[2] == 2


@pytest.mark.parametrize("mode", ["copy", "encode"])
@pytest.mark.parametrize("bound", [b"", b"\3\0\0\0"])
def test_numbers_with_short_bounds_are_damage(tmp_path: Path, mode: str, bound: bytes) -> None:
    inputs = with_statistics(tmp_path, 0, {UPPER: (BINARY, bound), LOWER: (BINARY, bound)})
    with pytest.raises(KernelFailure, match="is not a readable Parquet file"):
        copy(inputs, tmp_path / "out", TABLE, mode=mode)


@pytest.mark.parametrize("nulls", [-1, 4])
def test_impossible_null_counts_do_not_reach_the_manifest(tmp_path: Path, nulls: int) -> None:
    result = copy(with_statistics(tmp_path, 0, {NULLS: (I64, nulls)}), tmp_path / "out", TABLE)
    assert result.mode == "encode"
    assert "null" in result.mode_reason
    assert result.outputs[0].null_value_counts[1] == 0


def test_bounds_that_enclose_nothing_are_left_out(tmp_path: Path) -> None:
    lowest, highest = ((BINARY, number.to_bytes(8, "little")) for number in (1, 3))
    result = copy(with_statistics(tmp_path, 0, {UPPER: lowest, LOWER: highest}), tmp_path / "out", TABLE)
    assert result.mode == "copy"
    assert 1 not in result.outputs[0].lower_bounds
    assert 2 in result.outputs[0].lower_bounds


def test_bounds_that_may_not_be_values_are_not_reported_as_values(tmp_path: Path) -> None:
    """Spark answers MIN and MAX with untruncated bounds."""
    table = pa.schema([field("id", pa.int64(), 1), field("raw", pa.binary(), 2)])
    frame = polars.DataFrame({"id": [1, 2], "raw": [b"a" * 100, b"b" * 100]})  # Polars cuts bounds and does not say
    frame.write_parquet(tmp_path / "polars.parquet")

    def give_ids(footer: Struct) -> None:
        for number, element in enumerate(footer[FileField.SCHEMA][1].items[1:], 1):
            element[ElementField.FIELD_ID] = (I32, number)

    edit_footer(tmp_path / "polars.parquet", give_ids)
    file = given(tmp_path / "polars.parquet", 2)
    reported = {
        mode: copy([file], tmp_path / mode, table, write=WriteSettings(metrics_modes={1: mode, 2: mode}))
        for mode in ("full", "truncate(16)")
    }
    assert {result.mode for result in reported.values()} == {"copy"}
    assert reported["full"].outputs[0].lower_bounds.keys() == {1}
    assert reported["truncate(16)"].outputs[0].upper_bounds[2] == b"b" * 15 + b"c"


def test_numbers_that_are_not_values_of_the_column_are_no_bounds(tmp_path: Path) -> None:
    inputs = with_statistics(tmp_path, 0, {LOWER_IS_EXACT: (TRUE, False)})
    result = copy(inputs, tmp_path / "out", TABLE, write=WriteSettings(metrics_modes={1: "truncate(16)"}))
    assert result.mode == "copy"
    assert result.outputs[0].value_counts == {1: 6}
    assert result.outputs[0].lower_bounds == {}


def test_damage_that_would_crash_arrow_is_reported(tmp_path: Path) -> None:
    def other_type(metadata: Struct) -> None:
        metadata[MetadataField.TYPE] = (I32, 0)

    def other_levels(metadata: Struct) -> None:
        metadata[MetadataField.SIZE_STATISTICS] = (STRUCT, {3: (LIST, ThriftList(I64, [1, 1, 1, 0]))})

    for number, damage in enumerate((other_type, other_levels)):
        (file,) = write_files(tmp_path / str(number), [ROWS])

        def edit(footer: Struct, damage: Callable[[Struct], None] = damage) -> None:
            chunk = footer[FileField.ROW_GROUPS][1].items[0][GroupField.COLUMNS][1].items[0]
            damage(chunk[ChunkField.METADATA][1])

        edit_footer(Path(file.path), edit)
        with pytest.raises(KernelFailure, match="footer is damaged"):
            copy([given(Path(file.path), 3)], tmp_path / "out", TABLE)


def test_lineage_is_not_added_to_a_row_group_that_arrow_would_divide(tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, [ROWS])
    source = open_source(file, storage_reader(Storage(STORAGE)))
    group = replace(source.footer.row_groups[0], rows=64 * 1024 * 1024 + 1)
    vast = replace(source, footer=replace(source.footer, row_groups=(group,)))
    with pytest.raises(CannotCopy, match="67108865 rows, too many"):
        inherited_lineage(vast, 0, WriteSettings())
