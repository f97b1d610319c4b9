"""Expire and orphans find the same files, whether this process or tasks of the engine read a huge table [I6]."""

import os
import random as randoms
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from tests.builders.aged_tables import random_history
from tests.builders.control import leftovers, make_control
from tests.builders.events_table import REF, compact, make_table
from tests.builders.random_manifests import random_table
from tests.builders.stray_files import backdate_all, put
from tests.seed import SEED
from tidyberg.app import build_control
from tidyberg.control import engine_reads as on_engine
from tidyberg.control import remote_manifests
from tidyberg.control.control import Control
from tidyberg.control.engine_reads import engine_reads
from tidyberg.errors import DamagedFile, StorageError
from tidyberg.execute.engine import Results
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.expiry import ExpireOptions
from tidyberg.model.job import JobStatus
from tidyberg.model.orphans import OrphanOptions
from tidyberg.model.task import AnyTask, ListTask, ManifestTask
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.reachable import entries_by_manifest
from tidyberg.settings.settings import Settings
from tidyberg.storage.listing import PrefixPart, RemoteListing, files_below
from tidyberg.testing import Warehouse, local_path

ALL = ExpireOptions(older_than_ms=0)
NOW = OrphanOptions(now=True)
EVERYTHING_THERE: dict[str, Any] = {"engine_reads_above": 0, "engine_lists_above": -1}


@pytest.fixture(autouse=True)
def _small_tasks() -> Iterator[None]:
    with (
        patch.object(remote_manifests, "_TASK_MANIFESTS", 2),
        patch.object(on_engine, "_TASK_FILES", 3),
        patch.object(on_engine, "_TASK_PARTS", 2),
    ):
        yield


def entries_of(table: Table, *, there: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the sorted entries of the current snapshot, and what is said about damaged manifests."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    infos = read_manifest_list(table.io, snapshot.manifest_list)
    remote = engine_reads(InlineEngine, 0, -1).manifests(table.io) if there else None
    said: list[str] = []
    found = entries_by_manifest(table.io, infos, skip=lambda error: said.append(error.message), remote=remote)
    rows = [row for _, entries in found for row in entries.to_pylist()]
    return sorted(rows, key=str), sorted(said)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_tasks_return_the_entries_that_this_process_reads_whatever_is_damaged(random: Random) -> None:
    with TemporaryDirectory() as directory:
        table = random_table(random, Path(directory))
        for path in sorted(Path(directory).glob("manifest-0*.avro")):
            if random.random() < 0.1:
                path.unlink() if random.random() < 0.5 else path.write_bytes(b"no Avro")
        here, there = entries_of(table, there=False), entries_of(table, there=True)
        assert there == here


def test_a_damaged_manifest_of_a_retained_snapshot_is_an_error_on_the_engine_too(tmp_path: Path) -> None:
    table = random_table(Random(3), tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    infos = read_manifest_list(table.io, snapshot.manifest_list)
    Path(local_path(infos[-1].path)).write_bytes(b"no Avro")
    with pytest.raises(DamagedFile):
        list(entries_by_manifest(table.io, infos, remote=engine_reads(InlineEngine, 0, 0).manifests(table.io)))


@pytest.mark.parametrize("version", [2, 3])
def test_an_expiry_that_reads_on_the_engine_deletes_the_same_files(warehouse: Warehouse, version: int) -> None:
    table = random_history(warehouse, randoms.Random(SEED + version), version)
    with make_control(warehouse) as here, make_control(warehouse, **EVERYTHING_THERE) as there:
        planned = here.expire(REF, ALL, dry_run=True)
        done = there.expire(REF, ALL)
        assert (done.failure, done.files) == (None, planned.files)
        assert done.decision.snapshot_ids == planned.decision.snapshot_ids
        assert done.verified
        assert here.expire(REF, ALL).outcome == "nothing"
    table.refresh()
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)
    statistics = {local_path(one.statistics_path) for one in table.metadata.statistics}
    statistics |= {local_path(one.statistics_path) for one in table.metadata.partition_statistics}
    assert not {path for path in leftovers(warehouse, table) - statistics if ".metadata.json" not in path}


def test_orphans_that_are_found_on_the_engine_are_the_same(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    lost = {put(table, f"data/{n % 5}/{n}/lost-{n}.parquet") for n in range(30)} | {put(table, "metadata/lost.avro")}
    backdate_all(table)
    before = warehouse.files_on_disk(table)
    with make_control(warehouse) as here, make_control(warehouse, **EVERYTHING_THERE) as there:
        expected, found = here.plan_orphans(REF, NOW), there.plan_orphans(REF, NOW)
        assert (found.files, found.listed, found.kept) == (expected.files, expected.listed, expected.kept)
        assert there.remove_orphans(REF, NOW).files.files == len(lost)
    assert {path for path in warehouse.files_on_disk(table) if "_tidyberg" not in path} == before - lost


class FailingEngine(InlineEngine):
    """Its second task of a kind fails, after the result of the first has been used."""

    def __init__(self, kind: type[AnyTask]) -> None:
        super().__init__()
        self._kind = kind

    def run(self, tasks: Sequence[AnyTask], *args: Any, **more: Any) -> Results:
        if not isinstance(tasks[0], self._kind):
            yield from super().run(tasks, *args, **more)
            return
        yield from super().run(tasks[:1], *args, **more)
        raise StorageError("an executor was lost")


@pytest.mark.parametrize(("kind", "what"), [(ManifestTask, "expire"), (ManifestTask, "orphans"), (ListTask, "orphans")])
def test_a_task_that_fails_ends_the_job_before_anything_is_deleted(
    warehouse: Warehouse, kind: type[AnyTask], what: str
) -> None:
    table = make_table(warehouse)
    compact(warehouse)
    put(table, "data/lost.parquet")
    backdate_all(table)
    files, location = warehouse.files_on_disk(table), table.refresh().metadata_location

    def run(control: Control) -> str:
        return control.expire(REF, ALL).outcome if what == "expire" else control.remove_orphans(REF, NOW).outcome

    with make_control(warehouse, FailingEngine(kind), **EVERYTHING_THERE) as control:
        with pytest.raises(StorageError, match="an executor was lost"):
            run(control)
        assert control.history(REF)[0].status is JobStatus.FAILED
    assert (warehouse.files_on_disk(table), table.refresh().metadata_location) == (files, location)
    with make_control(warehouse, **EVERYTHING_THERE) as control:
        assert run(control) in ("expired", "deleted")


def test_an_ordinary_table_starts_no_engine(warehouse: Warehouse, tmp_path: Path) -> None:
    def refuse() -> NoReturn:
        raise AssertionError("the engine was started")

    made = build_control(Settings.model_validate({"store": {"path": str(tmp_path / "other.db")}}))
    limits: dict[str, Any] = {
        "engine_reads_above": made.engine_reads_above,
        "engine_lists_above": made.engine_lists_above,
    }
    made.close()
    assert None not in limits.values()
    table = make_table(warehouse)
    put(table, "data/lost.parquet")
    backdate_all(table)
    with make_control(warehouse, open_engine=refuse, **limits) as control:
        assert control.expire(REF, ALL).verified
        assert control.remove_orphans(REF, NOW).outcome == "deleted"


def test_the_inline_engine_reads_and_lists_everything_here(tmp_path: Path) -> None:
    settings = Settings.model_validate({"engine": "inline", "store": {"path": str(tmp_path / "jobs.db")}})
    with build_control(settings) as control:
        assert (control.engine_reads_above, control.engine_lists_above) == (None, None)


def grow(random: Random, top: Path) -> None:
    """Makes directories of all depths, some of them empty, with hidden and odd names."""
    directories = [top]
    for number in range(random.randint(0, 12)):
        made = random.choice(directories) / random.choice(
            (f"d{number}", f".d{number}", f"_p={number}", f"ü {number}%2F")
        )
        made.mkdir(parents=True, exist_ok=True)
        directories.append(made)
    for number in range(random.randint(0, 40)):
        path = random.choice(directories) / random.choice(
            (f"{number}.parquet", f".{number}", f"_{number}", f"ß+{number}")
        )
        path.write_bytes(b"x" * random.randint(0, 9))
    (random.choice(directories) / "link").symlink_to(top)
    Path(os.fsdecode(os.fsencode(directories[-1]) + b"/\xff")).touch()


def listed(table: Table, root: str, remote: RemoteListing | None = None) -> list[tuple[Any, ...]]:
    pieces = files_below(table.io, root, remote=remote)
    return sorted(tuple(row.values()) for piece in pieces for row in piece.to_pylist())


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([-1, 0, 1, 5, 20, 1_000]))
def test_tasks_list_the_files_that_this_process_lists(random: Random, limit: int) -> None:
    with TemporaryDirectory() as directory:
        table = random_table(Random(1), Path(directory) / "table")
        grow(random, Path(directory) / "table")
        remote = engine_reads(InlineEngine, 0, limit).files
        for root in (f"file://{directory}/table", f"{directory}/table/", f"file:{directory}/no-such"):
            assert listed(table, root, remote) == listed(table, root)


def test_directories_that_disappear_meanwhile_have_no_files(tmp_path: Path) -> None:
    table = random_table(Random(1), tmp_path / "table")
    root = tmp_path / "root"
    for number in range(20):
        (root / f"d{number}" / "below").mkdir(parents=True)
        (root / f"d{number}" / "below" / "file").touch()
    usual = engine_reads(InlineEngine, 0, 4).files

    def removes_some(io: Any, place: str, parts: Sequence[PrefixPart], check: Any) -> Iterator[Any]:
        for part in parts[::2]:
            shutil.rmtree(root / part.directory)
        return usual.list_parts(io, place, parts, check)

    found = listed(table, str(root), RemoteListing(4, removes_some))
    assert 4 < len(found) < 20
    assert found == listed(table, str(root))
