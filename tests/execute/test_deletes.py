"""Rewrites leave out deleted rows, whichever kind of delete applies, and no other rows."""

import dataclasses
import math
import random
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.delete_files import POSITION_SCHEMA, deletion_vectors, equality_delete, position_delete
from tests.builders.planned_groups import ESTIMATE
from tests.builders.tasks import NUMBERS, STORAGE, field, make_task, number_files, read_rows, write_file
from tidyberg.errors import DamagedFile, VerificationFailed
from tidyberg.execute.engine import CancelToken, gathered
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.deletes import delete_files
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.plan import FileGroup, InputFile
from tidyberg.model.task import Task, TaskDelete, TaskInput, TaskResult
from tidyberg.storage.file_io import Place, Storage
from tidyberg.verify.counts import verify_counts

BY_ID = pa.schema([field("id", pa.int64(), 1)])


def at(sequence: int, files: Sequence[TaskInput]) -> list[TaskInput]:
    return [dataclasses.replace(file, sequence_number=sequence) for file in files]


def make(
    directory: Path,
    files: Sequence[TaskInput],
    deletes: Sequence[TaskDelete],
    schema: pa.Schema = NUMBERS,
    keys: pa.Schema = BY_ID,
    **changes: Any,
) -> Task:
    schemas = {delete.equality_ids: bytes(keys.serialize()) for delete in deletes if delete.kind == "equality"}
    return make_task(
        files, schema, directory / "out", deletes=tuple(deletes), **{"equality_schemas": schemas, **changes}
    )


def run(task: Task) -> TaskResult:
    result = run_task(task, 0, STORAGE)
    assert isinstance(result, TaskResult)
    assert result.rows_read == sum(file.records for file in task.inputs)
    assert result.rows_read == result.rows_written + result.rows_deleted
    return result


def ids(result: TaskResult, column: str = "id") -> list[Any]:
    return [row[column] for row in read_rows([output.path for output in result.outputs])]


def survivors(task: Task, column: str = "id") -> list[Any]:
    return ids(run(task), column)


def without(total: int, *deleted: int) -> list[int]:
    return [number for number in range(total) if number not in deleted]


# Position deletes


def test_position_deletes_drop_rows_of_the_files_they_name(tmp_path: Path) -> None:
    first, second, third = at(1, number_files(tmp_path / "in", 3, 10))
    shared = position_delete(tmp_path / "d.parquet", [(first.path, 0), (first.path, 9), (third.path, 4)], 2)
    assert survivors(make(tmp_path, [first, second, third], [shared])) == without(30, 0, 9, 24)


def test_unsorted_and_repeated_positions_delete_a_row_once(tmp_path: Path) -> None:
    first, second = at(1, number_files(tmp_path / "in", 2, 10))
    rows = [(second.path, 7), (first.path, 3), (second.path, 1), (first.path, 3), (second.path, 7), (first.path, 0)]
    deletes = [
        position_delete(tmp_path / "a.parquet", rows, 2),
        position_delete(tmp_path / "b.parquet", [(first.path, 9), (first.path, 3)], 3),
    ]
    result = run(make(tmp_path, [first, second], deletes))
    assert ids(result) == without(20, 0, 3, 9, 11, 17)
    assert result.rows_deleted == 5


@pytest.mark.parametrize(("sequence", "applies"), [(4, False), (5, True), (6, True)])
def test_position_deletes_apply_to_files_of_the_same_or_an_older_commit(
    tmp_path: Path, sequence: int, applies: bool
) -> None:
    (file,) = at(5, number_files(tmp_path / "in", 1, 3))
    scoped = position_delete(tmp_path / "a.parquet", [(file.path, 0)], sequence, only=file.path)
    shared = position_delete(tmp_path / "b.parquet", [(file.path, 1)], sequence)
    assert survivors(make(tmp_path, [file], [scoped, shared])) == ([2] if applies else [0, 1, 2])


def test_a_file_scoped_delete_counts_for_its_file_alone(tmp_path: Path) -> None:
    first, second = at(1, number_files(tmp_path / "in", 2, 3))
    rows = [(first.path, 0), (second.path, 0)]
    scoped = position_delete(tmp_path / "d.parquet", rows, 2, only=second.path)
    elsewhere = position_delete(tmp_path / "e.parquet", [(first.path, 1)], 2, only="elsewhere.parquet")
    assert survivors(make(tmp_path, [first, second], [scoped, elsewhere])) == without(6, 3)


def test_positions_are_found_without_field_ids_and_beside_the_deleted_rows(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 4))
    with_row = pa.schema([*POSITION_SCHEMA, field("row", pa.struct([field("id", pa.int64(), 1)]), 2147483544)])
    plain = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    deletes = [
        position_delete(tmp_path / "a.parquet", [(file.path, 1)], 1, schema=with_row),
        position_delete(tmp_path / "b.parquet", [(file.path, 2)], 1, schema=plain),
    ]
    assert survivors(make(tmp_path, [file], deletes)) == [0, 3]


@pytest.mark.parametrize("wrong", [3, -1])
def test_a_position_that_the_file_lacks_is_refused(tmp_path: Path, wrong: int) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 3))
    delete = position_delete(tmp_path / "d.parquet", [(file.path, 0), (file.path, wrong)], 1)
    with pytest.raises(KernelFailure, match=f"deletes row {wrong} of .* 3 rows") as caught:
        run(make(tmp_path, [file], [delete]))
    assert caught.value.kind is FailureKind.DAMAGED


def test_a_position_delete_file_without_its_columns_is_refused(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 3))
    other = write_file(tmp_path / "d.parquet", pa.table([[1]], schema=BY_ID))
    with pytest.raises(KernelFailure, match="a file path or position is null"):
        run(make(tmp_path, [file], [TaskDelete(other.path, "position", other.size, 1)]))


def test_a_delete_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 3))
    (tmp_path / "d.avro").write_bytes(b"Obj\x01 and more of an Avro file")
    with pytest.raises(KernelFailure, match=r"d\.avro is not a readable Parquet file"):
        run(make(tmp_path, [file], [TaskDelete(str(tmp_path / "d.avro"), "position", 10, 1)]))


def test_a_huge_position_delete_file_is_decoded_for_the_tasks_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_files, "_MAX_CACHED_ROWS", 2)
    first, second = at(1, number_files(tmp_path / "in", 2, 5))
    delete = position_delete(tmp_path / "d.parquet", [(first.path, 1), (second.path, 2), (second.path, 3)], 1)
    assert survivors(make(tmp_path, [second], [delete])) == [5, 6, 9]


# Deletion vectors


def test_vectors_of_one_file_delete_rows_of_many(tmp_path: Path) -> None:
    first, second, third = at(2, number_files(tmp_path / "in", 3, 10))
    vectors = deletion_vectors(tmp_path / "d.puffin", {first.path: [1, 2], third.path: [0, 9]}, 2)
    assert survivors(make(tmp_path, [first, second, third], vectors)) == without(30, 1, 2, 20, 29)


def test_a_vector_replaces_the_position_deletes_of_its_file(tmp_path: Path) -> None:
    first, second = at(1, number_files(tmp_path / "in", 2, 4))
    vectors = deletion_vectors(tmp_path / "d.puffin", {first.path: [3]}, 3)
    positions = position_delete(tmp_path / "d.parquet", [(first.path, 0), (second.path, 0)], 4)
    assert survivors(make(tmp_path, [first, second], [positions, *vectors])) == without(8, 3, 4)


def test_a_vector_older_than_the_file_neither_applies_nor_hides_position_deletes(tmp_path: Path) -> None:
    (file,) = at(4, number_files(tmp_path / "in", 1, 4))
    vectors = deletion_vectors(tmp_path / "d.puffin", {file.path: [3]}, 3)
    positions = position_delete(tmp_path / "d.parquet", [(file.path, 0)], 4)
    assert survivors(make(tmp_path, [file], [positions, *vectors])) == [1, 2, 3]


def test_vectors_that_cannot_be_right_are_refused(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 4))
    (vector,) = deletion_vectors(tmp_path / "d.puffin", {file.path: [3]}, 3)
    (beyond,) = deletion_vectors(tmp_path / "e.puffin", {file.path: [4]}, 3)
    assert vector.content_size is not None
    wrong = {
        "two deletion vectors": [vector, beyond],
        "deletes row 4": [beyond],
        "does not name the data file": [dataclasses.replace(vector, referenced_data_file=None)],
        "does not give the offset and size": [dataclasses.replace(vector, content_offset=None)],
        "is damaged: its header says": [dataclasses.replace(vector, content_size=vector.content_size - 1)],
    }
    for message, deletes in wrong.items():
        with pytest.raises(KernelFailure, match=message) as caught:
            run(make(tmp_path, [file], deletes))
        assert caught.value.kind is FailureKind.DAMAGED


# Equality deletes


@pytest.mark.parametrize(("sequence", "applies"), [(4, False), (5, False), (6, True)])
def test_equality_deletes_apply_to_older_files_only(tmp_path: Path, sequence: int, applies: bool) -> None:
    (file,) = at(5, number_files(tmp_path / "in", 1, 3))
    delete = equality_delete(tmp_path / "d.parquet", BY_ID, {"id": [1, 7]}, (1,), sequence)
    assert survivors(make(tmp_path, [file], [delete])) == ([0, 2] if applies else [0, 1, 2])


def test_each_equality_delete_counts_from_its_own_sequence_number(tmp_path: Path) -> None:
    first, second = number_files(tmp_path / "in", 2, 3)
    files = [*at(1, [first]), *at(2, [dataclasses.replace(second)])]
    deletes = [
        equality_delete(tmp_path / "a.parquet", BY_ID, {"id": [0, 3]}, (1,), 2),
        equality_delete(tmp_path / "b.parquet", BY_ID, {"id": [1, 4]}, (1,), 3),
    ]
    assert survivors(make(tmp_path, files, deletes)) == without(6, 0, 1, 4)


def test_all_columns_of_a_key_count_together_and_null_equals_null(tmp_path: Path) -> None:
    schema = pa.schema([field("id", pa.int64(), 1), field("a", pa.string(), 2), field("b", pa.float64(), 3)])
    keys = pa.schema([schema.field("b"), schema.field("a")])
    rows = [("x", 1.0), ("x", None), (None, 1.0), (None, None), ("x", math.nan)]
    table = pa.table([range(5), [a for a, _ in rows], [b for _, b in rows]], schema=schema)
    (file,) = at(1, [write_file(tmp_path / "in.parquet", table)])
    dead: dict[str, list[Any]] = {"a": ["x", None, "x", "y"], "b": [None, None, math.nan, 1.0]}
    delete = equality_delete(tmp_path / "d.parquet", keys, dead, (3, 2), 2)
    assert survivors(make(tmp_path, [file], [delete], schema, keys)) == [0, 2]


def test_keys_are_compared_in_the_promoted_type(tmp_path: Path) -> None:
    narrow = pa.schema([field("old_name", pa.int32(), 1)])
    wide = pa.schema([field("id", pa.int64(), 1)])
    (old,) = at(1, [write_file(tmp_path / "old.parquet", pa.table([[1, 2, 3]], schema=narrow))])
    (new,) = at(1, [write_file(tmp_path / "new.parquet", pa.table([[1, 2, 2**40]], schema=wide))])
    deletes = [
        equality_delete(tmp_path / "a.parquet", narrow, {"old_name": [2]}, (1,), 2),
        equality_delete(tmp_path / "b.parquet", wide, {"id": [3, 2**40]}, (1,), 2),
    ]
    assert survivors(make(tmp_path, [old, new], deletes, wide)) == [1, 1]


def test_a_dropped_column_still_decides_which_rows_are_deleted(tmp_path: Path) -> None:
    dropped = pa.schema([field("gone", pa.string(), 9)])
    stored = pa.schema([field("id", pa.int64(), 1), field("gone", pa.string(), 9)])
    (with_it,) = at(1, [write_file(tmp_path / "a.parquet", pa.table([[1, 2], ["x", "y"]], schema=stored))])
    (without_it,) = at(1, [write_file(tmp_path / "b.parquet", pa.table([[3]], schema=BY_ID))])
    delete = equality_delete(tmp_path / "d.parquet", dropped, {"gone": ["x"]}, (9,), 2)
    assert survivors(make(tmp_path, [with_it, without_it], [delete], BY_ID, dropped)) == [2, 3]
    null = equality_delete(tmp_path / "e.parquet", dropped, {"gone": [None]}, (9,), 2)
    assert survivors(make(tmp_path, [with_it, without_it], [null], BY_ID, dropped)) == [1, 2]


def test_a_column_that_the_delete_file_lacks_is_null_in_its_keys(tmp_path: Path) -> None:
    stored = pa.schema([field("id", pa.int64(), 1), field("added", pa.string(), 9)])
    (file,) = at(1, [write_file(tmp_path / "a.parquet", pa.table([[1, 1], ["x", None]], schema=stored))])
    delete = equality_delete(tmp_path / "d.parquet", BY_ID, {"id": [1]}, (1, 9), 2)
    assert survivors(make(tmp_path, [file], [delete], stored, stored), "added") == ["x"]


def nested(*children: pa.Field) -> pa.Field:
    return field("person", pa.struct(list(children)), 4)


FIRST, LAST, AGE = field("first", pa.string(), 5), field("last", pa.string(), 6), field("age", pa.int32(), 7)


def test_nested_keys_are_compared_and_a_null_struct_has_null_fields(tmp_path: Path) -> None:
    schema = pa.schema([field("id", pa.int64(), 1), nested(AGE, FIRST, LAST)])
    people: list[dict[str, Any] | None] = [
        {"first": "a", "last": "b", "age": 1},
        {"first": "a", "last": "c", "age": 1},
        {"first": None, "last": None, "age": 1},
        None,
    ]
    (file,) = at(1, [write_file(tmp_path / "a.parquet", pa.table([range(4), people], schema=schema))])
    bare = pa.schema([field("id", pa.int64(), 1), nested(AGE)])
    other = pa.table([[4], [{"age": 1}]], schema=bare)
    (without_leaves,) = at(1, [write_file(tmp_path / "b.parquet", other)])
    keys = pa.schema([nested(LAST), nested(FIRST)])
    written = pa.schema([nested(FIRST, LAST)])
    ones = {"person": [{"first": "a", "last": "c"}]}
    delete = equality_delete(tmp_path / "d.parquet", written, ones, (6, 5), 2)
    files = [file, without_leaves]
    assert survivors(make(tmp_path, files, [delete], schema, keys)) == [0, 2, 3, 4]
    null = equality_delete(tmp_path / "e.parquet", written, {"person": [None]}, (6, 5), 2)
    assert survivors(make(tmp_path, files, [null], schema, keys)) == [0, 1]


def test_partition_values_stand_in_for_columns_that_files_lack(tmp_path: Path) -> None:
    schema = pa.schema([field("id", pa.int64(), 1), field("region", pa.string(), 2)])
    keys = pa.schema([schema.field("region"), schema.field("id")])
    (lacking,) = at(1, [write_file(tmp_path / "a.parquet", pa.table([[1, 2]], schema=BY_ID))])
    (holding,) = at(1, [write_file(tmp_path / "b.parquet", pa.table([[1, 3], ["eu", "eu"]], schema=schema))])
    dead: dict[str, list[Any]] = {"region": ["eu", None, "us"], "id": [1, 2, 3]}
    delete = equality_delete(tmp_path / "d.parquet", keys, dead, (2, 1), 2)
    assert survivors(make(tmp_path, [lacking, holding], [delete], schema, keys, constants={2: "eu"})) == [2, 3]
    only = pa.schema([schema.field("region")])
    delete = equality_delete(tmp_path / "e.parquet", only, {"region": ["eu"]}, (2,), 2)
    assert survivors(make(tmp_path, [lacking, holding], [delete], schema, only, constants={2: "eu"})) == []


def test_equality_deletes_without_field_ids_are_not_guessed(tmp_path: Path) -> None:
    (file,) = at(1, [write_file(tmp_path / "a.parquet", pa.table([[1, 2]], schema=BY_ID))])
    delete = equality_delete(tmp_path / "d.parquet", pa.schema([pa.field("id", pa.int64())]), {"id": [1]}, (1,), 2)
    with pytest.raises(KernelFailure, match="has no field ids"):
        run(make(tmp_path, [file], [delete], BY_ID, BY_ID))


def test_several_sets_of_columns_apply_side_by_side(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 6))
    by_name = pa.schema([field("name", pa.string(), 2)])
    deletes = [
        equality_delete(tmp_path / "a.parquet", BY_ID, {"id": [1, 2]}, (1,), 2),
        equality_delete(tmp_path / "b.parquet", by_name, {"name": ["name 2", "name 5"]}, (2,), 2),
    ]
    schemas = {(1,): bytes(BY_ID.serialize()), (2,): bytes(by_name.serialize())}
    result = run(make(tmp_path, [file], deletes, equality_schemas=schemas))
    assert ids(result) == [0, 3, 4]
    assert result.rows_deleted == 3


def test_keys_are_matched_across_batches_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.execute.kernel.deletes.key_sets._LOOKUP_BYTES", 200)
    table = pa.table([range(500), [str(i) for i in range(500)]], schema=NUMBERS)
    (file,) = at(1, [write_file(tmp_path / "a.parquet", table, row_group_size=70)])
    dead = list(range(0, 500, 7))
    delete = equality_delete(tmp_path / "d.parquet", BY_ID, {"id": dead}, (1,), 2)
    assert survivors(make(tmp_path, [file], [delete], batch_rows=16)) == without(500, *dead)


# All kinds


def mixed(directory: Path, files: Sequence[TaskInput]) -> list[TaskDelete]:
    first, second, third = files
    return [
        position_delete(directory / "p.parquet", [(first.path, 5), (second.path, 1), (third.path, 8)], 2),
        position_delete(directory / "q.parquet", [(third.path, 9)], 2, only=third.path),
        *deletion_vectors(directory / "v.puffin", {second.path: [0, 2]}, 2),
        equality_delete(directory / "e.parquet", BY_ID, {"id": [0, 5, 12, 13, 29]}, (1,), 3),
    ]


SURVIVORS = without(30, 0, 5, 10, 12, 13, 28, 29)


def test_all_kinds_together_delete_a_row_once(tmp_path: Path) -> None:
    files = at(1, number_files(tmp_path / "in", 3, 10))
    task = make(tmp_path, files, mixed(tmp_path, files), checksum=True, batch_rows=4)
    result = run(task)
    assert ids(result) == SURVIVORS
    assert (result.rows_read, result.rows_deleted, result.rows_written) == (30, 7, 23)
    checksum = RowChecksum()
    for output in result.outputs:
        checksum.update(pq.read_table(output.path))
    assert result.checksum == checksum.hexdigest()
    assert result.input_facts[1].values == 30
    assert result.output_facts[1].values == 23


def test_verification_passes_results_with_deletes_and_nothing_more(tmp_path: Path) -> None:
    files = at(1, number_files(tmp_path / "in", 3, 10))
    everything = equality_delete(tmp_path / "all.parquet", BY_ID, {"id": list(range(30))}, (1,), 2)
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType()))
    members = tuple(InputFile(file.path, file.size, file.records, 1, "m") for file in files)
    group = FileGroup(0, 0, "", members, 1, "encode", 1.0, ESTIMATE)
    for deletes in (mixed(tmp_path, files), [everything]):
        result = run(make(tmp_path, files, deletes))
        verify_counts(group, result, schema)
        with pytest.raises(VerificationFailed, match="rows were read"):
            verify_counts(group, dataclasses.replace(result, rows_deleted=result.rows_deleted - 1), schema)


def test_a_group_without_a_surviving_row_has_no_outputs(tmp_path: Path) -> None:
    first, second = at(1, number_files(tmp_path / "in", 2, 5))
    deletes = [
        *deletion_vectors(tmp_path / "v.puffin", {first.path: range(5)}, 2),
        equality_delete(tmp_path / "e.parquet", BY_ID, {"id": list(range(5, 10))}, (1,), 2),
    ]
    result = run(make(tmp_path, [first, second], deletes, checksum=True))
    assert result.outputs == ()
    assert (result.rows_deleted, result.rows_written, result.bytes_written) == (10, 0, 0)
    assert result.checksum == RowChecksum().hexdigest()
    assert not (tmp_path / "out").exists()


def test_every_type_survives_the_filter(tmp_path: Path) -> None:
    kinds = [pa.uuid(), pa.list_(field("element", pa.string(), 20)), pa.decimal128(20, 2), pa.timestamp("us", "UTC")]
    schema = pa.schema([field("id", pa.int64(), 1), *(field(f"c{i}", kind, 10 + i) for i, kind in enumerate(kinds))])
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([i] * 16) for i in range(3)], pa.binary(16)))
    columns = [pa.array(range(3)), uuids, [["a"], None, []], [1, 2, None], [0, 1, 2]]
    (file,) = at(1, [write_file(tmp_path / "a.parquet", pa.table(columns, schema=schema))])
    delete = position_delete(tmp_path / "d.parquet", [(file.path, 1)], 1)
    rows = read_rows([output.path for output in run(make(tmp_path, [file], [delete], schema)).outputs])
    assert rows == [row for row in read_rows([file.path]) if row["id"] != 1]


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_outputs_have_equal_sizes_though_half_the_rows_are_deleted(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([field("id", pa.int64(), 1), field("noise", pa.binary(), 2)])
    noise = random.Random(7)
    files = []
    for number in range(8):
        numbers = range(number * 2_000, (number + 1) * 2_000)
        table = pa.table([numbers, [noise.randbytes(100) for _ in numbers]], schema=schema)
        files += at(1, [write_file(tmp_path / f"in-{number}.parquet", table)])
    dead = [number for number in range(16_000) if number % 4 > 1]
    if kind == "position":
        rows = [(files[number // 2_000].path, number % 2_000) for number in dead]
        delete = position_delete(tmp_path / "d.parquet", rows, 2)
    else:
        delete = equality_delete(tmp_path / "d.parquet", BY_ID, {"id": dead}, (1,), 2)
    target = sum(file.size for file in files) // 6
    result = run(make(tmp_path, files, [delete], schema, outputs=6, target=target, batch_rows=250))
    records = [output.records for output in result.outputs]
    assert len(records) == 3
    assert max(records) <= 1.1 * min(records)


def test_files_that_lose_all_rows_first_leave_no_tiny_row_groups(tmp_path: Path) -> None:
    files = at(1, number_files(tmp_path / "in", 8, 5_000))
    delete = equality_delete(tmp_path / "d.parquet", BY_ID, {"id": list(range(9_999))}, (1,), 2)
    result = run(make(tmp_path, files, [delete]))
    groups = sum(len(output.split_offsets) for output in result.outputs)
    assert (result.rows_written, len(result.outputs)) == (30_001, 1)
    assert groups <= 6


# Where the bytes of delete files come from


class Opens:
    """Counts what is opened, per location."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[str, int] = {}
        lock = threading.Lock()
        original: Callable[[Storage, Place], pa.NativeFile] = Storage.open_input

        def counted(storage: Storage, place: Place) -> pa.NativeFile:
            with lock:
                self.of[place.location] = self.of.get(place.location, 0) + 1
            return original(storage, place)

        monkeypatch.setattr(Storage, "open_input", counted)

    def count(self, deletes: Sequence[TaskDelete]) -> list[int]:
        return [self.of.get(path, 0) for path in sorted({delete.path for delete in deletes})]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    delete_files.forget_delete_files()


def groups_of(directory: Path, files: Sequence[TaskInput], deletes: Sequence[TaskDelete]) -> list[Task]:
    return [dataclasses.replace(make(directory, [file], deletes), group_id=number) for number, file in enumerate(files)]


def run_inline(tasks: Sequence[Task]) -> list[int]:
    found = []
    for result in gathered(InlineEngine(2).run(tasks, STORAGE, cancel=CancelToken())):
        assert isinstance(result, TaskResult)
        found += ids(result)
    return found


def test_a_process_reads_a_shared_delete_file_once_for_all_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = at(1, number_files(tmp_path / "in", 3, 10))
    deletes = mixed(tmp_path, files)
    opens = Opens(monkeypatch)
    assert run_inline(groups_of(tmp_path, files, deletes)) == SURVIVORS
    assert opens.count(deletes) == [1, 1, 1, 1]


def test_contents_travel_with_the_tasks_and_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = at(1, number_files(tmp_path / "in", 3, 10))
    deletes = mixed(tmp_path, files)
    tasks = groups_of(tmp_path, files, deletes)
    opens = Opens(monkeypatch)
    filled = with_delete_contents(tasks, STORAGE)
    assert opens.count(deletes) == [1, 1, 1, 1]
    assert all(delete.content is not None for task in filled for delete in task.deletes)
    for delete in deletes:
        Path(delete.path).unlink(missing_ok=True)
    assert run_inline(filled) == SURVIVORS
    assert opens.count(deletes) == [1, 1, 1, 1]


def test_two_vectors_of_one_file_travel_apart(tmp_path: Path) -> None:
    first, second = at(1, number_files(tmp_path / "in", 2, 5))
    vectors = deletion_vectors(tmp_path / "v.puffin", {first.path: [0], second.path: [1, 2]}, 2)
    (filled,) = with_delete_contents([make(tmp_path, [first, second], vectors)], STORAGE)
    assert [len(delete.content or b"") for delete in filled.deletes] == [vector.content_size for vector in vectors]
    assert survivors(filled) == without(10, 0, 6, 7)


def test_only_as_many_bytes_travel_as_allowed(tmp_path: Path) -> None:
    files = at(1, number_files(tmp_path / "in", 3, 10))
    small = position_delete(tmp_path / "s.parquet", [(files[0].path, 1)], 2)
    large = position_delete(tmp_path / "l.parquet", [(files[2].path, number) for number in range(10)], 2)
    tasks = [
        make(tmp_path, [files[0]], [small, large]),
        make(tmp_path, [files[1]], [small]),
        make(tmp_path, [files[2]], [large]),
        make(tmp_path, [files[2]], []),
    ]

    def travelling(**limits: int) -> list[bool]:
        filled = with_delete_contents(tasks, STORAGE, **limits)
        assert [dataclasses.replace(task, deletes=()) for task in filled] == [
            dataclasses.replace(task, deletes=()) for task in tasks
        ]
        return [any(delete.content is not None for delete in task.deletes) for task in filled]

    assert small.size < large.size
    assert travelling() == [True, True, True, False]
    assert travelling(per_task=large.size) == [False, True, True, False]
    assert travelling(per_task=large.size - 1) == [False, True, False, False]
    assert travelling(per_job=small.size + large.size) == [False, True, True, False]
    assert travelling(per_job=small.size + large.size - 1) == [False, True, False, False]
    assert travelling(per_job=0) == [False] * 4


def test_a_missing_delete_file_is_named(tmp_path: Path) -> None:
    (file,) = at(1, number_files(tmp_path / "in", 1, 3))
    task = make(tmp_path, [file], [TaskDelete(str(tmp_path / "gone.parquet"), "position", 10, 1)])
    with pytest.raises(DamagedFile, match=r"gone\.parquet is missing"):
        with_delete_contents([task], STORAGE)
    with pytest.raises(DamagedFile, match=r"gone\.parquet is missing"):
        run_inline([task])
    assert not list(tmp_path.glob("out/*"))


# Against a plain model

NAMES = st.none() | st.sampled_from("abc")
SEQUENCES = st.integers(1, 4)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[int, list[str | None]]], list[tuple[str, int, Any]]]:
    """Data files as (sequence number, names), and deletes as (kind, sequence number, what they delete)."""
    files = draw(st.lists(st.tuples(SEQUENCES, st.lists(NAMES, min_size=1, max_size=12)), min_size=1, max_size=4))

    def row_of(number: int) -> st.SearchStrategy[tuple[int, int]]:
        return st.tuples(st.just(number), st.integers(0, len(files[number][1]) - 1))

    rows = st.integers(0, len(files) - 1).flatmap(row_of)
    kinds = st.one_of(
        st.tuples(st.just("position"), SEQUENCES, st.lists(rows, max_size=8)),
        st.tuples(st.just("equality"), SEQUENCES, st.lists(NAMES, max_size=3)),
    )
    deletes: list[tuple[str, int, Any]] = draw(st.lists(kinds, max_size=5))
    for number in draw(st.sets(st.integers(0, len(files) - 1))):
        positions = draw(st.sets(st.integers(0, len(files[number][1]) - 1)))
        deletes.append(("dv", draw(SEQUENCES), (number, sorted(positions))))
    return files, deletes


def surviving(files: Sequence[tuple[int, Sequence[str | None]]], deletes: Sequence[tuple[str, int, Any]]) -> list[str]:
    found = []
    for number, (data, names) in enumerate(files):
        vectors = [what for kind, sequence, what in deletes if kind == "dv" and what[0] == number and data <= sequence]
        for position, name in enumerate(names):
            dead = any(position in positions for _, positions in vectors)
            for kind, sequence, what in deletes:
                if kind == "position" and not vectors and data <= sequence:
                    dead = dead or (number, position) in what
                if kind == "equality" and data < sequence:
                    dead = dead or name in what
            if not dead:
                found.append(f"{number}:{position}")
    return found


@settings(max_examples=60, deadline=None)
@given(tables(), st.booleans(), st.integers(1, 7))
def test_surviving_rows_equal_those_of_a_plain_model(
    table: tuple[list[tuple[int, list[str | None]]], list[tuple[str, int, Any]]], inline: bool, batch_rows: int
) -> None:
    files, deletes = table
    schema = pa.schema([field("row", pa.string(), 1), field("name", pa.string(), 2)])
    keys = pa.schema([schema.field("name")])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        inputs = []
        for number, (sequence, names) in enumerate(files):
            rows = pa.table([[f"{number}:{i}" for i in range(len(names))], names], schema=schema)
            inputs += at(sequence, [write_file(directory / f"{number}.parquet", rows, row_group_size=5)])
        made: list[TaskDelete] = []
        for number, (kind, sequence, what) in enumerate(deletes):
            path = directory / f"delete-{number}"
            if kind == "position":
                made.append(position_delete(path, [(inputs[file].path, row) for file, row in what], sequence))
            elif kind == "equality":
                made.append(equality_delete(path, keys, {"name": what}, (2,), sequence))
            else:
                made += deletion_vectors(path, {inputs[what[0]].path: what[1]}, sequence)
        task = make(directory, inputs, made, schema, keys, batch_rows=batch_rows)
        if inline:
            (task,) = with_delete_contents([task], STORAGE)
        assert survivors(task, "row") == surviving(files, deletes)
