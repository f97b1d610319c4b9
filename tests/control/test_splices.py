"""Jobs move pages of files without deletes, encode the others, and verification proves that."""

import multiprocessing
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.splice_tasks import small_files_count
from tidyberg.control.round import Round
from tidyberg.errors import VerificationFailed
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.write.paged_output import PagedOutput
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult
from tidyberg.parquet.errors import CannotCopy
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes
from tidyberg.testing.warehouse import local_path

ALL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
FILES, ROWS = 6, 500
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


@pytest.fixture(autouse=True)
def small_files_are_spliced() -> Iterator[None]:
    with small_files_count():
        yield


def rows_of(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"{i * 7919 % 100_003:09d}" for i in ids]})


def make_table(warehouse: Warehouse, format_version: int, *, files: int = FILES) -> tuple[Table, list[str]]:
    table = warehouse.create_table("db.events", SCHEMA, format_version=format_version)
    table = warehouse.append_files(table, files, rows=rows_of, files_per_commit=1)
    paths = {row["id"] // ROWS: file.path for file in warehouse.live_files(table) for row in first_row(file.path)}
    return table, [paths[number] for number in range(files)]


def first_row(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(local_path(path), columns=["id"]).slice(0, 1).to_pylist()
    return rows


def ids_of(warehouse: Warehouse, table: Table) -> list[int]:
    return sorted(int(re.findall(r"\d+", row)[0]) for row in warehouse.rows(table))


def deleted(table: Table, paths: Sequence[str], kind: str) -> set[int]:
    """Ids of deleted rows: of the first file, and of the third too where one delete names several files."""
    places: Mapping[str, Sequence[int]] = {paths[0]: [0, 7, 499]}
    if kind == "equality":
        commit_deletes(table, EqualTo({"id": [0, 7, 499]}))
        return {0, 7, 499}
    if kind == "partition-scoped":
        places = {paths[0]: [0, 7, 499], paths[2]: [3]}
    is_vector, is_of_file = kind == "vectors", kind == "file-scoped"
    commit_deletes(table, Vectors(places) if is_vector else Positions(places, file_scoped=is_of_file))
    return {paths.index(path) * ROWS + row for path, rows in places.items() for row in rows}


KINDS = [("file-scoped", 2), ("partition-scoped", 2), ("equality", 2), ("vectors", 3)]


def results_of(monkeypatch: pytest.MonkeyPatch) -> list[TaskResult]:
    """What verification sees of groups, from now on."""
    seen: list[TaskResult] = []
    original = Round._take

    def taken(self: Round, result: TaskResult) -> None:
        seen.append(result)
        original(self, result)

    monkeypatch.setattr(Round, "_take", taken)
    return seen


@pytest.mark.parametrize(("kind", "format_version"), KINDS)
def test_files_that_no_delete_touches_are_spliced_beside_those_that_lose_rows(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, kind: str, format_version: int
) -> None:
    table, paths = make_table(warehouse, format_version)
    if kind == "equality":  # all files are older than it
        gone = deleted(table, paths, kind)
        table = warehouse.append_files(table, FILES, rows=lambda n: rows_of(FILES + n), files_per_commit=1)
        touched = set(paths)
    else:
        gone = deleted(table, paths, kind)
        touched = {paths[number // ROWS] for number in gone}
    seen = results_of(monkeypatch)
    live = {file.path for file in warehouse.live_files(table) if "deletes" not in file.path}
    with make_control(warehouse, InlineEngine()) as control:
        result = control.compact(REF, ALL)
    assert (result.outcome, result.job.spliced.bytes_spliced > 0) == ("committed", True)
    (group,) = seen
    assert set(group.spliced_files) == {path for path in live if path.endswith(".parquet")} - touched
    last = 2 * FILES if kind == "equality" else FILES
    assert ids_of(warehouse, table) == sorted(set(range(last * ROWS)) - gone)


def test_a_kernel_that_moves_pages_of_a_file_with_deletes_is_caught(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that forgets the deletes of a file counts its rows consistently: only the plan knows better."""
    for kind, format_version in KINDS:
        name = f"db.{kind.replace('-', '_')}"
        table = warehouse.create_table(name, SCHEMA, format_version=format_version)
        table = warehouse.append_files(table, FILES, rows=rows_of, files_per_commit=1)
        paths = sorted(file.path for file in warehouse.live_files(table))
        deleted(table, paths, kind)
        with monkeypatch.context() as broken, make_control(warehouse, InlineEngine()) as control:
            broken.setattr(DeletedRows, "positions", lambda *_: np.empty(0, np.int64))
            broken.setattr(DeletedRows, "may_delete_from", lambda *_: False)
            broken.setattr(DeletedRows, "surviving_rows", FILES * ROWS)
            with pytest.raises(VerificationFailed, match=r"were moved as they are, but .* may delete rows of it"):
                control.compact(TableRef("lab", ("db",), name.removeprefix("db.")), ALL)


def test_a_job_says_why_it_gave_splicing_up_and_how_many_files_it_joined(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, paths = make_table(warehouse, 2)

    def refused(*_: Any) -> None:
        raise CannotCopy(f"{paths[1]} has fields that this version does not know")

    monkeypatch.setattr(PagedOutput, "write", refused)
    with make_control(warehouse, InlineEngine()) as control:
        result = control.compact(REF, ALL)
    assert result.outcome == "committed"
    assert result.job.spliced.encoded_instead == {"a file has fields that this version does not know": 1}
    assert (result.job.spliced.bytes_spliced, result.job.files_joined) == (0, FILES)
    assert ids_of(warehouse, table) == list(range(FILES * ROWS))


def die_before_the_commit(directory: str) -> None:
    """In a process of its own: the group is finished, and nobody tidies up."""
    patch.object(Round, "_commit_waiting", lambda *_: os._exit(9)).start()
    with small_files_count(), Warehouse(directory) as warehouse, make_control(warehouse, InlineEngine()) as control:
        control.compact(REF, ALL)


def test_finished_groups_with_spliced_files_are_taken_over_from_a_dead_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, paths = make_table(warehouse, 2)
    gone = deleted(table, paths, "partition-scoped")
    victim = multiprocessing.get_context("forkserver").Process(
        target=die_before_the_commit, args=(str(warehouse.directory),)
    )
    victim.start()
    victim.join(60)
    assert victim.exitcode == 9
    seen = results_of(monkeypatch)
    with make_control(warehouse, InlineEngine()) as control:
        result = control.compact(REF, ALL)
    assert (result.outcome, result.job.groups_adopted, len(seen[0].spliced_files)) == ("committed", 1, FILES - 2)
    assert ids_of(warehouse, table) == sorted(set(range(FILES * ROWS)) - gone)
