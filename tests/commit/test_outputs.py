"""Before a commit, every output must exist and have the size that its writer reported."""

from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tidyberg.commit.outputs import check_outputs
from tidyberg.errors import DamagedFile
from tidyberg.model.task import TaskResult, WrittenFile


def written(path: Path, size: int) -> TaskResult:
    file = WrittenFile(str(path), size, 1, {}, {}, {}, {}, {}, {}, ())
    return TaskResult("job", 0, 0, (file,), 1, 0, 1, size, size, 0.1, 0)


def test_an_output_of_another_size_than_its_writer_reported_is_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "output.parquet"
    path.write_bytes(bytes(100))
    check_outputs(PyArrowFileIO(), [written(path, 100)])
    path.write_bytes(bytes(99))
    with pytest.raises(DamagedFile, match="has 99 bytes where its writer reported 100"):
        check_outputs(PyArrowFileIO(), [written(path, 100)])


def test_an_output_that_vanished_is_not_committed(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="vanished before it was committed"):
        check_outputs(PyArrowFileIO(), [written(tmp_path / "output.parquet", 100)])
