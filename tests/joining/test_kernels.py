"""The kernels of a join against a plain model: a row is deleted if a later delete has its key. Null equals null."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.deleted_keys import Files, cases, expected, schema_of, write
from tests.joining.in_memory import run_in_memory
from tidyberg.execute.kernel.deletes.delete_files import DeleteFileReader
from tidyberg.execute.kernel.deletes.join import found_rows, key_filter, key_ranges
from tidyberg.execute.kernel.deletes.join.chunks import (
    DELETES,
    ROWS,
    Divider,
    decoded,
    deletes_batch,
    key_columns,
    places,
    rows_batch,
)
from tidyberg.execute.kernel.deletes.join.joining import KeyJoin
from tidyberg.execute.kernel.deletes.join.key_filter import KeyFilter, filter_shape
from tidyberg.execute.kernel.deletes.join.key_ranges import KeyRange, may_be_within, may_meet, united
from tidyberg.execute.kernel.deletes.join.keys import KeyColumns, key_hashes
from tidyberg.execute.kernel.deletes.join.maps import KeyMap, KeyMapReport
from tidyberg.execute.kernel.deletes.join.scratch_files import ScratchPlace
from tidyberg.execute.kernel.deletes.join.survey import FilterMerge, KeySurvey
from tidyberg.execute.kernel.deletes.joined_rows import JoinedRows
from tidyberg.failures import KernelFailure
from tidyberg.model.shuffle import MAX_CHUNK_BYTES
from tidyberg.model.task import TaskDelete, TaskInput
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage


class Joined:
    """Runs all passes of a join on files."""

    def __init__(
        self,
        directory: Path,
        schema: pa.Schema,
        deletes: tuple[TaskInput, ...],
        data: tuple[TaskInput, ...],
        *,
        parts: int = 3,
        memory_bytes: int = 1 << 20,
        batch_rows: int = 4096,
    ) -> None:
        columns = KeyColumns(bytes(schema.serialize()), batch_rows=batch_rows)
        place = ScratchPlace("job", 0, str(directory))
        words, bits = filter_shape(sum(file.records for file in deletes))
        latest = max(file.sequence_number for file in deletes)
        older = tuple(file for file in data if file.sequence_number < latest)
        surveys = [
            KeySurvey(columns, deletes[:1], older, words, bits),
            KeySurvey(columns, deletes[1:], (), words, bits),
        ]
        reports, (stored_filter,) = run_in_memory(surveys, [FilterMerge(place, words, bits)])
        width = len(schema)
        template = KeyMap(
            columns,
            parts,
            latest,
            (),
            (),
            united([report.deleted for report in reports], width),
            united([report.stored for report in reports], width),
            stored_filter,
        )
        maps = [replace(template, deletes=deletes, rows=data[:1]), replace(template, rows=data[1:])]
        joins = [KeyJoin(place, part, memory_bytes) for part in range(parts)]
        self.map_reports: list[KeyMapReport]
        self.map_reports, self.reports = run_in_memory(maps, joins)
        self._data = data
        files = [file for report in self.reports for file in report.files]
        self.deletes = [TaskDelete(file.path, "joined", file.size, latest, records=file.records) for file in files]

    def positions(self) -> dict[int, list[int]]:
        reader = DeleteFileReader(Storage(StorageAccess({})), 1000, lambda: False)
        rows = JoinedRows(self.deletes, self._data, reader)
        found = {number: rows.positions(file.path).tolist() for number, file in enumerate(self._data)}
        return {number: positions for number, positions in found.items() if positions}


@settings(max_examples=60, deadline=None)
@given(case=cases(), memory_bytes=st.sampled_from([300, 2000, 1 << 20]))
def test_a_join_finds_exactly_the_rows_that_a_later_delete_has(
    case: tuple[list[pa.DataType], Files, Files], memory_bytes: int
) -> None:
    types, deletes, data = case
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        files = write(directory, "delete", types, deletes), write(directory, "data", types, data)
        joined = Joined(directory, schema_of(types), *files, memory_bytes=memory_bytes, batch_rows=7)
        assert joined.positions() == expected(deletes, data)


def test_keys_that_cannot_match_are_not_shuffled(tmp_path: Path) -> None:
    types = [pa.int64()]
    deletes = write(
        tmp_path, "delete", types, [(5, [(i,) for i in range(2000)]), (5, [(i,) for i in range(50_000, 51_000)])]
    )
    data = write(
        tmp_path,
        "data",
        types,
        [(1, [(2 * i,) for i in range(900, 20_000)]), (5, [(1,)]), (1, [(-i,) for i in range(1, 9)])],
    )
    joined = Joined(tmp_path, schema_of(types), deletes, data)
    assert joined.positions() == {0: list(range(100))}
    first, second = joined.map_reports
    assert first.keys_read == 2000  # the other file is outside of all data files
    assert first.keys_sent == 200
    assert (first.rows_read, first.rows_sent) == (19_100, 100)
    assert second.rows_read == 0  # too new, and outside of the deleted keys


def test_rows_are_filtered_by_the_deleted_keys_where_ranges_overlap(tmp_path: Path) -> None:
    types = [pa.string()]
    deletes = write(tmp_path, "delete", types, [(5, [(f"k{i:06d}",) for i in range(0, 60_000, 60)])])
    data = write(tmp_path, "data", types, [(1, [(f"k{i:06d}",) for i in range(60_000)])])
    joined = Joined(tmp_path, schema_of(types), deletes, data)
    assert joined.positions() == {0: list(range(0, 60_000, 60))}
    assert joined.map_reports[0].rows_sent < 1000 + 0.02 * 60_000


def test_a_part_that_is_too_large_is_divided_again(tmp_path: Path) -> None:
    types = [pa.int64(), pa.string()]
    keys = [(i, str(i % 7)) for i in range(5000)]
    deletes, data = (
        write(tmp_path, "delete", types, [(3, keys)]),
        write(tmp_path, "data", types, [(1, keys), (2, keys)]),
    )
    joined = Joined(tmp_path, schema_of(types), deletes, data, parts=1, memory_bytes=50_000)
    assert joined.positions() == {0: list(range(5000)), 1: list(range(5000))}
    assert joined.reports[0].divisions > 1


def test_a_chunk_names_only_the_files_of_its_rows() -> None:
    """A task reads many small files and sends to many parts: all names in each chunk would outweigh the keys."""
    divider = Divider(100, ROWS)
    for number in range(200):
        columns = [pa.array(range(number * 10, number * 10 + 10))]
        batch = rows_batch(columns, 1, f"file-{number}", np.arange(10, dtype=np.int64))
        assert not list(divider.add(batch, key_hashes(columns)[0]))
    chunks = list(divider.flush())
    assert len(chunks) > 50
    found: list[tuple[str, int, int]] = []
    for chunk in chunks:
        table = decoded(chunk.data)
        files, positions = places(table)
        assert sorted(files.chunk(0).dictionary.to_pylist()) == sorted(set(files.to_pylist()))
        found += zip(files.to_pylist(), positions.tolist(), key_columns(table)[0].to_pylist(), strict=True)
    assert sorted(found) == sorted((f"file-{key // 10}", key % 10, key) for key in range(2000))


def test_a_few_keys_that_are_much_larger_than_the_others_are_divided_among_chunks() -> None:
    """The size of an average key says little about them."""
    large = [np.random.default_rng(number).bytes(MAX_CHUNK_BYTES // 6) for number in range(8)]
    columns = [pa.array([*large, *(b"%d" % number for number in range(50_000))], pa.binary())]
    divider = Divider(1, DELETES)
    chunks = [*divider.add(deletes_batch(columns, 3), key_hashes(columns)[0]), *divider.flush()]
    assert max(len(chunk.data) for chunk in chunks) <= MAX_CHUNK_BYTES
    keys = [key for chunk in chunks for key in key_columns(decoded(chunk.data))[0].to_pylist()]
    assert keys == columns[0].to_pylist()


def test_a_key_deleted_a_thousand_times_takes_the_memory_of_one(tmp_path: Path) -> None:
    types = [pa.int64()]
    deletes = write(tmp_path, "delete", types, [(sequence, [(7,)] * 3000) for sequence in (2, 3, 4)])
    data = write(tmp_path, "data", types, [(3, [(7,), (8,)] * 2000), (4, [(7,)])])
    joined = Joined(tmp_path, schema_of(types), deletes, data, parts=1, memory_bytes=20_000)
    assert joined.positions() == {0: list(range(0, 4000, 2))}
    assert joined.reports[0].divisions == 0


def test_found_rows_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key may have half of all rows, and its part must not keep them all."""
    monkeypatch.setattr(found_rows, "_MOST_ROWS", 1000)
    types = [pa.int64()]
    deletes = write(tmp_path, "delete", types, [(5, [(7,), (9,)])])
    data = write(tmp_path, "data", types, [(1, [(7,)] * 3500), (2, [(9,), (7,)] * 700)])
    joined = Joined(tmp_path, schema_of(types), deletes, data, parts=2)
    assert joined.positions() == {0: list(range(3500)), 1: list(range(1400))}
    records = [file.records for report in joined.reports for file in report.files]
    assert max(records) <= 1000
    assert len(records) >= 5


def test_a_filter_never_denies_a_key_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    hashes = rng.integers(0, 1 << 63, 40_000, np.uint64) * np.uint64(2)
    for keys in (1, 500, 40_000):
        words, bits = filter_shape(keys)
        held = KeyFilter.empty(words, bits)
        held.add(np.repeat(hashes[:keys], 2))
        assert held.may_hold(hashes[:keys]).all()
    others = rng.integers(0, 1 << 63, 100_000, np.uint64)
    assert held.may_hold(others).mean() < 0.03
    monkeypatch.setattr(key_filter, "_MOST_WORDS", 16)
    assert filter_shape(10_000) == (0, 0)  # so full that nearly every key would pass


def test_ranges_of_many_files_stay_few_and_hold_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "_MOST_INTERVALS", 3)
    files = [[KeyRange(number == 3, ((low, low + 5),))] for number, low in enumerate((0, 10, 1000, 1010, 5000, 9000))]
    (column,) = united(files, 1)
    assert column == KeyRange(True, ((0, 1015), (5000, 5005), (9000, 9005)))
    values = pa.array([0, 15, 16, 5003, 5006, 9005, 9006, -1, None])
    within = may_be_within([values], [column])
    assert within is not None
    assert within.tolist() == [True, True, True, True, False, True, False, False, True]
    assert united([*files, [KeyRange(False, None)]], 1)[0].intervals is None
    texts = united([[KeyRange(False, ((bytes([low]), bytes([low])),))] for low in range(65, 90, 4)], 1)
    assert texts[0].intervals == ((b"A", b"Y"),)
    assert may_be_within([pa.array(["A", "Y", "Z", None])], texts).tolist() == [True, True, False, False]  # type: ignore[union-attr]


def test_two_ranges_meet_at_a_bound_and_where_both_have_nulls() -> None:
    first = [KeyRange(False, ((0, 5), (10, 15)))]
    assert may_meet(first, [KeyRange(False, ((15, 20),))])
    assert not may_meet(first, [KeyRange(True, ((6, 9),))])
    assert may_meet([KeyRange(True, ((0, 5),))], [KeyRange(True, ())])
    assert may_meet(first, [KeyRange(False, None)])


def test_equal_keys_have_equal_hashes_whatever_their_batches() -> None:
    columns = [pa.array([1, None, 3] * 9000), pa.array(["a", "b", None] * 9000)]
    first, second = key_hashes(columns)
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == 3
    assert key_hashes([column.slice(1, 2) for column in columns])[0].tolist() == first[1:3].tolist()


def test_found_rows_outside_of_a_file_are_refused(tmp_path: Path) -> None:
    types = [pa.int64()]
    deletes, data = write(tmp_path, "delete", types, [(5, [(7,)])]), write(tmp_path, "data", types, [(1, [(1,), (7,)])])
    joined = Joined(tmp_path, schema_of(types), deletes, data)
    reader = DeleteFileReader(Storage(StorageAccess({})), 1000, lambda: False)
    with pytest.raises(KernelFailure, match="not among its 1 rows"):
        JoinedRows(joined.deletes, [replace(data[0], records=1)], reader)
