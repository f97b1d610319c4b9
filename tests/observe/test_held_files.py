"""Which files are needed how long, as the same file is named again and again."""

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tidyberg.observe.held_files import HeldFiles
from tidyberg.observe.reachable import FILES


@pytest.mark.parametrize("levels", [(0, 3), (3, 0)])
def test_a_file_has_the_smallest_level_of_all_that_name_it(levels: tuple[int, int]) -> None:
    held = HeldFiles(PyArrowFileIO(), {}, {}, 127, lambda: None, lambda _: None)
    for spelling, level in zip(("s3://b/x", "s3a://b/x"), levels, strict=True):
        files = pa.table([[spelling, "s3://b/other"], [0, 0], [1, 1]], schema=FILES)
        assert held.add(files, np.array([level, 2], np.int8)).tolist() == [0, 1]
    assert held.file_levels.tolist() == [0, 2]
    assert held.files["path"].to_pylist() == ["s3://b/x", "s3://b/other"]
