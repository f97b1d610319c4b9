"""Spliced outputs have optional metadata for all row groups, or for none."""

from pathlib import Path

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.copy_tasks import write_files
from tests.builders.footers import chunks_of, groups_of
from tests.builders.parquet_readers import check_readers
from tests.builders.splice_tasks import PLAIN, rewrite, small_files_count
from tests.builders.tasks import field
from tidyberg.model.task import TaskResult
from tidyberg.parquet.fields import ChunkField, GroupField

IDS = pa.schema([field("id", pa.float64(), 1)])  # of other columns the bounds of a chunk are those of its pages
FLOATS = pa.schema([field("id", pa.int64(), 1), field("ratio", pa.float64(), 2)])


def spliced(path: Path, schema: pa.Schema, *, page_indexes: tuple[bool, ...]) -> TaskResult:
    """Each file becomes a row group; the second is the one whose floats are all NaN."""
    inputs = []
    for number, has_index in enumerate(page_indexes):
        ids = pa.array(range(100 * number, 100 * number + 100), pa.int64())
        ratios = pa.array([float("nan")] * 100 if number == 1 else [float(value.as_py()) for value in ids])
        rows = pa.table({"id": ids, "ratio": ratios}).select(schema.names).cast(schema)
        inputs += write_files(
            path / str(number), [rows], **PLAIN | {"write_page_index": has_index}, max_rows_per_page=20
        )
    with small_files_count(judged=len(page_indexes)):
        result = rewrite(inputs, path / "out", schema, write={"row_group_rows": 100})
    assert result.bytes_spliced > 0
    return result


def test_page_bounds_are_written_for_all_row_groups_or_none(tmp_path: Path) -> None:
    for name, page_indexes in (("mixed", (True, False, True)), ("all", (True, True, True))):
        result = spliced(tmp_path / name, IDS, page_indexes=page_indexes)
        groups = groups_of(result.outputs[0].path)
        assert len(groups) == 3
        assert [ChunkField.COLUMN_INDEX in chunks_of(group)[0] for group in groups] == [all(page_indexes)] * 3
        assert all(ChunkField.OFFSET_INDEX in chunks_of(group)[0] for group in groups)
        assert {GroupField.ORDINAL in group for group in groups} == {False}
        check_readers(result.outputs[0].path, [*range(300)])


def test_bounds_that_one_row_group_lacks_are_omitted_from_all(tmp_path: Path) -> None:
    """DataFusion used the bounds of the other row groups for the whole file, and skipped it."""
    (output,) = spliced(tmp_path, FLOATS, page_indexes=(True, True)).outputs
    footer = pq.read_metadata(output.path)
    assert footer.num_row_groups == 2
    statistics = [footer.row_group(number).column(1).statistics for number in range(2)]
    assert [(one.has_min_max, one.null_count) for one in statistics] == [(False, 0)] * 2
    context = datafusion.SessionContext()
    context.register_parquet("spliced", output.path)
    assert context.sql("SELECT count(*) AS n FROM spliced WHERE ratio > 1000").to_pydict()["n"] == [100]
