"""Whatever a file's last bytes are, the copy is refused or prepared: it neither crashes nor loops nor reads beyond."""

import contextlib
import io
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import SCHEMA, rows
from tests.builders.tasks import make_task
from tidyberg.execute.kernel.copy.assemble import PlannedCopy, assemble
from tidyberg.execute.kernel.copy.eligibility import common_footer
from tidyberg.execute.kernel.read.source import open_source
from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import CannotCopy
from tidyberg.storage.assembly import Range

ROWS = 60


@cache
def sound_file() -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        rows(0, ROWS),
        sink,
        row_group_size=25,
        write_page_index=True,
        store_schema=False,
        bloom_filter_options={"id": {"ndv": 25, "fpp": 0.1}},
    )
    return sink.getvalue()


def prepare(content: bytes) -> PlannedCopy:
    def read(path: str, offset: int, length: int) -> bytes:
        assert 0 <= offset <= offset + length <= len(content)
        return content[offset : offset + length]

    file = TaskInput("file.parquet", len(content), ROWS)
    sources = [open_source(file, read)]
    task = make_task([file], SCHEMA, Path("out"), mode="copy")
    return assemble(task, 0, sources, common_footer(task, sources))


def check(content: bytes) -> None:
    with contextlib.suppress(CannotCopy):
        for file in prepare(content).assembly.files:
            for segment in file.segments:
                assert not isinstance(segment, Range) or 0 <= segment.offset <= segment.end <= len(content)


def test_the_sound_file_is_copied() -> None:
    (written,) = prepare(sound_file()).written
    assert written.records == ROWS


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_of_the_tail(data: st.DataObject) -> None:
    content = bytearray(sound_file())
    tail = int.from_bytes(content[-8:-4], "little") + 3000
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(len(content) - tail, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    check(bytes(content))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bytes_cut_out_of_the_footer(data: st.DataObject) -> None:
    content = sound_file()
    length = int.from_bytes(content[-8:-4], "little")
    start = data.draw(st.integers(len(content) - 8 - length, len(content) - 9))
    end = data.draw(st.integers(start, min(start + 200, len(content) - 8)))
    footer = content[len(content) - 8 - length : start] + content[end:-8]
    check(content[: len(content) - 8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 5000))
def test_files_that_end_too_early(missing: int) -> None:
    content = sound_file()
    check(content[: max(0, len(content) - missing)])
    check(content[: max(0, len(content) - missing - 8)] + content[-8:])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_anything_at_all(content: bytes) -> None:
    check(content)
    check(b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1")
