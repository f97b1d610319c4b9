"""Footers that would crash Arrow are named once a process has died."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.builders.copy_tasks import given, write_files
from tests.builders.footers import damage, other_type
from tests.builders.tasks import STORAGE, field, make_task
from tests.builders.writers_table import WRITERS, inputs_of
from tidyberg.execute.kernel.read.damaged_footers import refuse_damaged_footers
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import AuditTask, ChecksumTask, TaskInput
from tidyberg.parquet.fields import MetadataField
from tidyberg.parquet.thrift import I64, LIST, STRUCT, Struct, ThriftList
from tidyberg.storage.file_io import Storage

TABLE = pa.schema([field("old", pa.timestamp("ns"), 1), field("id", pa.int64(), 2)])
ROWS = pa.table([pa.array([1, 2, None], pa.timestamp("ns")), pa.array([1, 2, 3])], schema=TABLE)


def other_levels(metadata: Struct) -> None:
    metadata[MetadataField.SIZE_STATISTICS] = (STRUCT, {3: (LIST, ThriftList(I64, [1, 1, 1, 0]))})


@pytest.fixture(name="files", params=[other_type, other_levels])
def _files(tmp_path: Path, request: pytest.FixtureRequest) -> list[TaskInput]:
    sound, broken = write_files(tmp_path / "in", [ROWS, ROWS], use_deprecated_int96_timestamps=True)
    return [sound, damage(Path(broken.path), request.param)]


def test_the_second_attempt_at_any_task_names_the_file(tmp_path: Path, files: list[TaskInput]) -> None:
    task = make_task(files, TABLE, tmp_path / "out")
    audit = AuditTask("job", 0, tuple(files), task.arrow_schema)
    checksum = ChecksumTask("job", 0, tuple(files), task.arrow_schema)
    for again in (task, replace(task, mode="copy"), audit, checksum):
        with pytest.raises(KernelFailure, match=r"in-1\.parquet has a damaged footer") as raised:
            run_task(again, 1, STORAGE)
        assert raised.value.kind is FailureKind.DAMAGED


def test_the_first_attempt_after_a_crash_names_the_file_too(tmp_path: Path, files: list[TaskInput]) -> None:
    with pytest.raises(KernelFailure, match=r"in-1\.parquet has a damaged footer"):
        run_task(make_task(files, TABLE, tmp_path / "out", after_death=True), 0, STORAGE)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_sound_files_pass(tmp_path: Path, write: Callable[[pa.Table, Path], None]) -> None:
    refuse_damaged_footers(inputs_of(write, tmp_path, 1), Storage(STORAGE))


def test_damage_that_arrow_survives_is_left_to_arrow(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"PAR1", b"PAR1 not a footer at all \x05\0\0\0PAR1", b"x" * 100)):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(content)
        refuse_damaged_footers([given(path, 1)], Storage(STORAGE))
        with pytest.raises(KernelFailure, match=path.name):
            run_task(make_task([given(path, 1)], TABLE, tmp_path / "out"), 1, STORAGE)
