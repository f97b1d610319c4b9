"""Deletion vectors that share a Puffin file are fetched together and compared with the manifest."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.delete_files import deletion_vectors, position_delete
from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files, read_rows
from tidyberg.errors import DamagedFile
from tidyberg.execute.kernel.deletes.vectors import coalesced_reads, read_vectors
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete, TaskResult
from tidyberg.storage.file_io import Place, Storage

MB = 1024 * 1024
FILES = 40


def survivors(task: Any) -> list[int]:
    result = run_task(task, 0, STORAGE)
    assert isinstance(result, TaskResult)
    return [row["id"] for row in read_rows([output.path for output in result.outputs])]


class Counted:
    """Storage that counts how often a file is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        real = Storage.open_input

        def open_input(storage: Storage, place: Place) -> pa.NativeFile:
            self.opened.append(place.location)
            return real(storage, place)

        monkeypatch.setattr(Storage, "open_input", open_input)


@pytest.mark.parametrize("inline", [True, False])
def test_the_vectors_of_many_files_cost_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    files = number_files(tmp_path, FILES, rows=5)
    order = random.Random(1).sample(range(FILES), FILES)  # Java's writers put them in the order of a hash table
    vectors = deletion_vectors(tmp_path / "v.puffin", {files[n].path: [n % 5] for n in order}, 2)
    task = make_task(files, NUMBERS, tmp_path / "out", deletes=tuple(vectors))
    storage = Counted(monkeypatch)
    if inline:
        (task,) = with_delete_contents([task], STORAGE)
    assert survivors(task) == [n * 5 + row for n in range(FILES) for row in range(5) if row != n % 5]
    assert storage.opened.count(str(tmp_path / "v.puffin")) == 1


def test_position_deletes_that_a_vector_replaces_are_not_even_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = number_files(tmp_path, 1, rows=5)
    old = position_delete(tmp_path / "p.parquet", [(file.path, 0)], 1, only=file.path)
    deletes = (old, *deletion_vectors(tmp_path / "v.puffin", {file.path: [4]}, 2))
    storage = Counted(monkeypatch)
    assert survivors(make_task([file], NUMBERS, tmp_path / "out", deletes=deletes)) == [0, 1, 2, 3]
    assert old.path not in storage.opened


@pytest.mark.parametrize("inline", [True, False])
def test_a_vector_that_disagrees_with_the_manifests_count_is_refused(tmp_path: Path, inline: bool) -> None:
    (file,) = number_files(tmp_path, 1, rows=5)
    (vector,) = deletion_vectors(tmp_path / "v.puffin", {file.path: [1, 2]}, 2)
    for records, is_right in ((None, True), (2, True), (1, False), (3, False)):
        vector = dataclasses.replace(vector, records=records)
        task = make_task([file], NUMBERS, tmp_path / "out", deletes=(vector,))
        if inline:
            (task,) = with_delete_contents([task], STORAGE)
        if is_right:
            assert survivors(task) == [0, 3, 4]
        else:
            with pytest.raises(KernelFailure) as caught:
                run_task(task, 0, STORAGE)
            assert caught.value.kind is FailureKind.DAMAGED
            assert f"deletes 2 rows, but the table's manifest says {records}" in caught.value.message


@pytest.mark.parametrize("change", [{"content_offset": None}, {"content_size": None}, {"content_offset": -4}])
def test_a_vector_without_a_place_is_refused(tmp_path: Path, change: dict[str, int | None]) -> None:
    (file,) = number_files(tmp_path, 1, rows=5)
    (vector,) = deletion_vectors(tmp_path / "v.puffin", {file.path: [1]}, 2)
    task = make_task([file], NUMBERS, tmp_path / "out", deletes=(dataclasses.replace(vector, **change),))  # type: ignore[arg-type]
    with pytest.raises(DamagedFile, match="does not give the offset"):
        with_delete_contents([task], STORAGE)
    with pytest.raises(KernelFailure, match="does not give the offset"):
        run_task(task, 0, STORAGE)


def test_a_puffin_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    files = number_files(tmp_path, 2, rows=5)
    vectors = deletion_vectors(tmp_path / "v.puffin", {file.path: [1, 3] for file in files}, 2)
    whole = (tmp_path / "v.puffin").read_bytes()
    assert vectors[1].content_offset is not None
    (tmp_path / "v.puffin").write_bytes(whole[: vectors[1].content_offset + 10])
    task = make_task(files, NUMBERS, tmp_path / "out", deletes=tuple(vectors))
    with pytest.raises(KernelFailure, match="is damaged"):
        run_task(task, 0, STORAGE)


def vector_at(path: str, offset: int, size: int) -> TaskDelete:
    return TaskDelete(path, "dv", 0, 1, f"{path}@{offset}", content_offset=offset, content_size=size)


def test_far_apart_and_large_ranges_are_read_apart() -> None:
    near = [vector_at("a", 4, 100), vector_at("a", 104, 100), vector_at("a", 10_000, 100)]
    far = vector_at("a", 5 * MB, 100)
    other = vector_at("b", 204, 100)
    assert list(coalesced_reads([other, far, *reversed(near)])) == [tuple(near), (far,), (other,)]
    large = [vector_at("a", number * 10 * MB, 10 * MB) for number in range(3)]
    assert list(coalesced_reads(large)) == [(vector,) for vector in large]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 900_000), st.integers(0, 5_000)), max_size=30, unique=True)
)
def test_every_vector_gets_its_own_bytes(places: list[tuple[str, int, int]]) -> None:
    contents = {name: random.Random(name).randbytes(1_000_000) for name in "ab"}

    class Memory:
        def place(self, path: str) -> str:
            return path

        def read_range(self, place: str, offset: int, length: int) -> pa.Buffer:
            return pa.py_buffer(contents[place][offset : offset + length])

    vectors = [vector_at(*place) for place in places]
    found = {
        (vector.path, vector.content_offset, vector.content_size): blob
        for together in coalesced_reads(vectors)
        for vector, blob in zip(together, read_vectors(Memory(), together), strict=True)  # type: ignore[arg-type]
    }
    assert found == {(path, offset, size): contents[path][offset : offset + size] for path, offset, size in places}
