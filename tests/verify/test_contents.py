"""Full verification by checksums of contents."""

import pytest

from tests.builders.rewrite_results import result
from tidyberg.errors import VerificationFailed
from tidyberg.model.task import ChecksumResult, Task, TaskInput, WriteSettings
from tidyberg.verify.contents import checksum_tasks, verify_contents

GOOD = ChecksumResult("j", 3, rows=100, checksum="abc")


def test_outputs_are_read_back_in_the_schema_they_were_written_in() -> None:
    task = Task("j", 3, (), b"schema", "{}", "file:/out", 2, 1, 2, WriteSettings(), batch_rows=77)
    emptied = result(group_id=4, outputs=(), rows_written=0)
    (found,) = checksum_tasks([task], [result(), emptied])
    assert (found.group_id, found.arrow_schema, found.batch_rows) == (3, b"schema", 77)
    assert found.inputs == (
        TaskInput("file:/out/0.parquet", 1500, 50),
        TaskInput("file:/out/1.parquet", 1500, 50),
    )


def test_equal_checksums_pass() -> None:
    emptied = result(group_id=4, outputs=(), rows_written=0, checksum="0")
    verify_contents([result(checksum="abc"), emptied], [GOOD])


@pytest.mark.parametrize(
    ("checksum", "found", "said"),
    [
        ("abc", [], "group 3 was not read back"),
        (None, [GOOD], "group 3 has no checksum"),
        ("abc", [ChecksumResult("j", 3, 99, "abc")], "wrote 100 rows, 99 were read back"),
        ("abc", [ChecksumResult("j", 3, 100, "abd")], "checksum abd, abc was written"),
    ],
)
def test_anything_else_is_refused(checksum: str | None, found: list[ChecksumResult], said: str) -> None:
    with pytest.raises(VerificationFailed, match=said):
        verify_contents([result(checksum=checksum)], found)
