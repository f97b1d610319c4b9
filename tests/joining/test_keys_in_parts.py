"""Deleted keys that are looked up in parts, because they would take too much memory, delete the same rows."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.deleted_keys import Files, cases, expected, schema_of, write
from tidyberg.execute.kernel.deletes import keys_in_parts
from tidyberg.execute.kernel.deletes.delete_files import forget_delete_files
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.read.open_files import open_file
from tidyberg.model.task import AuditTask, TaskDelete
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage


def found(
    directory: Path, types: Sequence[pa.DataType], deletes: Files, data: Files, memory_bytes: int | None
) -> dict[int, list[int]]:
    """Returns the deleted rows of each file."""
    forget_delete_files()
    schema = schema_of(types)
    ids = tuple(range(1, len(types) + 1))
    task = AuditTask(
        "job",
        0,
        write(directory, "data", types, data),
        bytes(schema.serialize()),
        deletes=tuple(
            TaskDelete(file.path, "equality", file.size, file.sequence_number, equality_ids=ids, records=file.records)
            for file in write(directory, "delete", types, deletes)
        ),
        equality_schemas={ids: bytes(schema.serialize())},
        batch_rows=7,
    )
    storage = Storage(StorageAccess({}))
    rows = DeletedRows(task, storage, lambda: False, key_memory_bytes=memory_bytes)
    places = {number: rows.positions(open_file(storage, file)).tolist() for number, file in enumerate(task.inputs)}
    return {number: positions for number, positions in places.items() if positions}


@settings(max_examples=60, deadline=None)
@given(case=cases(), memory_bytes=st.sampled_from([1, 300, 2000]))
def test_keys_in_parts_delete_exactly_the_rows_that_a_later_delete_has(
    case: tuple[list[pa.DataType], Files, Files], memory_bytes: int
) -> None:
    types, deletes, data = case
    with tempfile.TemporaryDirectory() as name:
        in_parts = found(Path(name), types, deletes, data, memory_bytes)
        assert in_parts == expected(deletes, data)
        assert found(Path(name), types, deletes, data, None) == in_parts


@pytest.fixture(name="looked_up")
def _looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys each look-up has."""
    sizes: list[int] = []

    class Counting(EqualityDeletes):
        def __init__(self, keys: Any, sequence_numbers: Any) -> None:
            sizes.append(sum(len(file[0]) for file in keys))
            super().__init__(keys, sequence_numbers)

    monkeypatch.setattr(keys_in_parts, "EqualityDeletes", Counting)
    return sizes


def test_no_look_up_has_more_keys_than_fit_into_memory(tmp_path: Path, looked_up: list[int]) -> None:
    keys: Files = [(5, [(number,) for number in range(first, first + 900)]) for first in (0, 900, 1800)]
    data: Files = [(1, [(number * 10,) for number in range(400)]), (5, [(1,), (2,)]), (9, [(3,)])]
    memory = 250 * 108  # a number has 8 bytes, and its look-up 100
    assert found(tmp_path, [pa.int64()], keys, data, memory) == {0: list(range(270))}
    assert sum(looked_up) == 2700
    assert max(looked_up) <= 250
    assert len(looked_up) <= 1 + 2700 // 240


def test_one_key_that_was_deleted_very_often_is_looked_up_in_parts_too(tmp_path: Path, looked_up: list[int]) -> None:
    deletes: Files = [(sequence, [("heavy",)] * 700) for sequence in (2, 7, 4)]
    data: Files = [(sequence, [("heavy",), ("light",), ("heavy",)] * 100) for sequence in (1, 3, 6, 7, 8)]
    deleted = [row for row in range(300) if row % 3 != 1]
    assert found(tmp_path, [pa.string()], deletes, data, 20_000) == {0: deleted, 1: deleted, 2: deleted}
    assert max(looked_up) < 200


def test_each_key_of_a_part_has_the_sequence_number_of_its_delete(tmp_path: Path, looked_up: list[int]) -> None:
    deletes: Files = [(2, [(1,)]), (5, [(2,)]), (5, [(3,)])]
    data: Files = [(3, [(1,), (2,), (3,)]), (1, [(1,), (4,)])]
    assert found(tmp_path, [pa.int64()], deletes, data, 2 * 110) == {0: [1, 2], 1: [0]}
    assert looked_up == [2, 1]


def test_keys_that_fit_into_memory_are_looked_up_at_once(tmp_path: Path, looked_up: list[int]) -> None:
    deletes: Files = [(5, [(number,) for number in range(900)])]
    assert found(tmp_path, [pa.int64()], deletes, [(1, [(7,), (900,)])], 900 * 108) == {0: [0]}
    assert looked_up == []
