"""A forged run in the job store cannot make recovery delete anything but that run's own leftovers [I6]."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tests.builders.control import make_control
from tests.builders.interrupted_jobs import go_on, kill
from tests.builders.job_stores import Place
from tests.builders.sales_table import REGIONS, regional
from tests.record.conftest import new_place as new_place
from tidyberg.commit.ownership import Ownership, manifest_name, metadata_file_id
from tidyberg.control.control import Control
from tidyberg.model.job import Intent, Job, JobStatus, SentCommit
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.model.task import output_name
from tidyberg.record.process import is_alive
from tidyberg.storage import table_files as objects
from tidyberg.storage.file_io import Listed
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

ATTACKED = TableRef("lab", ("db",), "attacked")
OWN = TableRef("lab", ("db",), "own")
OPTIONS = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@contextmanager
def control_on(warehouse: Warehouse, place: Place) -> Iterator[Control]:
    with make_control(warehouse, store=place.open(is_alive).store, sleep=lambda _: None) as control:
        yield control


@pytest.fixture
def attacked(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table("db.attacked"), 6, 20, files_per_commit=2)


@pytest.fixture
def own(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table("db.own"), 4, 20, files_per_commit=2)


def forged(genuine: Job, table: Table, intent: Intent, **changes: object) -> Job:
    ref = TableRef("lab", ("db",), table.name()[-1])
    forged = replace(
        genuine,
        table=ref,
        table_uuid=str(table.metadata.table_uuid),
        status=JobStatus.RUNNING,
        owner=None,
        heartbeat_ms=0,
        sent=None,
        commits=0,
        snapshot_id=None,
        finished_ms=None,
        intent=intent,
    )
    return replace(forged, **changes)  # type: ignore[arg-type]


def intent_of(job_id: str, directory: str, **changes: object) -> Intent:
    """As an attacker would have it: a sequence number that leaves no manifest to be read."""
    intent = Intent(job_id, 10**9, {0: directory}, 4, {0: 1}, 10**9)
    return replace(intent, **changes)  # type: ignore[arg-type]


def data_directory(table: Table) -> str:
    return f"{table.location()}/data"


def unharmed(warehouse: Warehouse, table: Table) -> bool:
    return warehouse.referenced_files(table) <= warehouse.files_on_disk(table)


def test_a_forged_run_that_names_live_files_of_another_table_deletes_none(
    warehouse: Warehouse,
    place: Place,
    attacked: Table,
    own: Table,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed: list[str] = []
    files_in = objects.files_in

    def noted(io: FileIO, directory: str, prefix: str = "") -> Iterator[Listed]:
        listed.append(directory)
        return files_in(io, directory, prefix)

    monkeypatch.setattr(objects, "files_in", noted)
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        victims = [file.path for file in warehouse.live_files(attacked)]
        metadata = [attacked.refresh().metadata_location, *(s.manifest_list for s in attacked.metadata.snapshots)]
        rows, on_disk = warehouse.rows(attacked), warehouse.files_on_disk(attacked)
        run = forged(genuine, own, intent_of(genuine.job_id, data_directory(attacked), adopted={1: tuple(victims)}))
        control.store.save(run)
        control.store.note_paths(run.job_id, [*victims, *metadata, "file:///etc/hosts"])
        listed.clear()
        (said,) = control.recover()
        assert warehouse.files_on_disk(attacked) == on_disk
        assert warehouse.rows(attacked) == rows
        assert "are not its own and were left alone" in said
        assert listed == [], "nor is it looked into"
        assert "Check who can write to the job store" in caplog.text
        found = control.store.get(run.job_id)
        assert found is not None
        assert not found.is_open, "it is settled once, not again and again"


@pytest.mark.parametrize("detour", ["{own}/../../attacked/data", "{own}/./../../attacked/data"])
def test_a_path_through_the_tables_location_to_another_table_is_refused(
    warehouse: Warehouse, place: Place, attacked: Table, own: Table, detour: str
) -> None:
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        (output,) = [file.path.rpartition("/")[2] for file in warehouse.live_files(attacked)]
        directory = detour.format(own=data_directory(own))
        run = forged(genuine, own, intent_of(genuine.job_id, directory, adopted={1: (f"{directory}/{output}",)}))
        control.store.save(run)
        control.store.note_paths(run.job_id, [f"{directory}/{output}"])
        control.recover()
    assert unharmed(warehouse, attacked)


def test_a_forged_record_of_a_committed_run_deletes_nothing_that_a_snapshot_references(
    warehouse: Warehouse, place: Place, attacked: Table
) -> None:
    """The very run that wrote the live files, said to have died before it sent a commit."""
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        own_names = [attacked.refresh().metadata_location, *(s.manifest_list for s in attacked.metadata.snapshots)]
        intent = intent_of(genuine.job_id, data_directory(attacked))
        control.store.save(forged(genuine, attacked, intent))
        control.store.note_paths(genuine.job_id, own_names)
        (said,) = control.recover()
        assert "0 leftovers removed" in said
    assert unharmed(warehouse, attacked)


def test_a_location_in_another_spelling_is_the_same_file(warehouse: Warehouse, place: Place, attacked: Table) -> None:
    """Manifests say `file:///…`; a record that says `file:/…` or `/…` must not hide that they mean the same."""
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        for spelled in (local_path(attacked.location()), f"file:{local_path(attacked.location())}"):
            control.store.save(forged(genuine, attacked, intent_of(genuine.job_id, f"{spelled}/data")))
            control.recover()
            assert unharmed(warehouse, attacked)


def test_files_that_tidyberg_did_not_name_stay_whatever_the_record_says(
    warehouse: Warehouse, place: Place, attacked: Table
) -> None:
    """Unreferenced all the same: an append that is under way, say."""
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        directory = Path(local_path(attacked.location()))
        others = [directory / "data" / "00000-0-append.parquet", directory / "metadata" / "00009-x.metadata.json"]
        for path in others:
            path.write_bytes(b"in the making")
        paths = tuple(f"file://{path}" for path in others)
        run = forged(genuine, attacked, intent_of(genuine.job_id, data_directory(attacked), adopted={1: paths}))
        control.store.save(run)
        control.store.note_paths(run.job_id, paths)
        control.recover()
        assert all(path.exists() for path in others)


def test_outputs_of_another_run_of_the_table_stay(warehouse: Warehouse, place: Place, attacked: Table) -> None:
    """Its directory is the same; its names are not."""
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        directory = Path(local_path(data_directory(attacked)))
        other, mine = (directory / output_name(run_id, 0, 0, 7) for run_id in ("another", genuine.job_id))
        other.write_bytes(b"half a file")
        mine.write_bytes(b"half a file")
        control.store.save(forged(genuine, attacked, intent_of(genuine.job_id, data_directory(attacked))))
        control.store.note_paths(genuine.job_id, [f"file://{other}"])
        (said,) = control.recover()
        assert "1 leftover removed" in said
        assert other.exists()
        assert not mine.exists()


def test_a_forged_run_of_a_table_that_does_not_exist_deletes_nothing(
    warehouse: Warehouse, place: Place, attacked: Table, own: Table
) -> None:
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        names = tuple(file.path for file in warehouse.live_files(attacked))
        run = forged(genuine, own, intent_of(genuine.job_id, data_directory(attacked), adopted={1: names}))
        control.store.save(replace(run, table=TableRef("lab", ("db",), "nowhere")))
        control.recover()
        assert unharmed(warehouse, attacked)
        control.store.save(replace(run, table_uuid="00000000-0000-0000-0000-000000000000"))
        control.recover()
    assert unharmed(warehouse, attacked)


def test_paths_noted_for_a_living_run_are_deleted_only_if_they_are_its_own(
    warehouse: Warehouse, place: Place, attacked: Table, own: Table
) -> None:
    """The record of a run that lives is in its memory; the paths it has noted are read from the store."""
    victims = [file.path for file in warehouse.live_files(attacked)]

    with control_on(warehouse, place) as control:
        note, commit_table = control.store.note_paths, warehouse.catalog.commit_table

        def refuse(*_: object) -> None:
            (job,) = control.store.find(table=OWN, unfinished=True)
            note(job.job_id, [*victims, attacked.metadata_location])
            raise ValueError("no commits today")

        warehouse.catalog.commit_table = refuse  # type: ignore[method-assign,assignment]
        try:
            with pytest.raises(Exception, match="no commits today"):
                control.compact(OWN, OPTIONS)
        finally:
            warehouse.catalog.commit_table = commit_table  # type: ignore[method-assign]
    assert unharmed(warehouse, attacked)


def test_the_table_decides_whether_a_recorded_commit_succeeded(
    warehouse: Warehouse, place: Place, attacked: Table
) -> None:
    with control_on(warehouse, place) as control:
        genuine = control.compact(ATTACKED, OPTIONS).job
        sent = SentCommit(0, 1, 2, (0,), sequence_number=1)
        run = forged(genuine, attacked, intent_of(genuine.job_id, data_directory(attacked)), sent=sent)
        control.store.save(run)
        control.recover()
        found = control.store.get(run.job_id)
        assert found is not None
        assert found.status is JobStatus.SUCCEEDED
    assert unharmed(warehouse, attacked)


def test_file_names_contain_the_run_that_owns_them(attacked: Table) -> None:
    ownership = Ownership.of(attacked, "run")
    data, metadata = f"{attacked.location()}/data", f"{attacked.location()}/metadata"
    assert ownership.owns(f"{data}/{output_name('run', 0, 0, 0)}")
    assert ownership.owns(f"{data}/region=eu/{output_name('run', 0, 0, 0, part=3)}")
    assert ownership.owns(f"{metadata}/{manifest_name('run', 0, 0)}")
    assert ownership.owns(f"{metadata}/00004-{metadata_file_id('run/0/1')}.metadata.json")
    assert ownership.owns(f"{metadata}/00004-{metadata_file_id('run/0/1')}.gz.metadata.json")
    for path in (
        f"{data}/{output_name('runs', 0, 0, 0)}",
        f"{data}/{output_name('another-run', 0, 0, 0)}",
        f"{metadata}/{output_name('run', 0, 0, 0)}",
        f"{attacked.location()}/{output_name('run', 0, 0, 0)}",
        f"{attacked.location()}-2/data/{output_name('run', 0, 0, 0)}",
        f"{data}/{manifest_name('run', 0, 0)}",
        f"{metadata}/{manifest_name('runs', 0, 0)}",
        f"{metadata}/00004-{metadata_file_id('runs/0/1')}.metadata.json",
        f"{metadata}/00004-7c9a5f0e-6f0f-4c55-9b52-0f3f7a0d7a11.metadata.json",
        f"{data}/tidyberg-run-",
    ):
        assert not ownership.owns(path), path


def test_a_forged_result_that_names_another_file_is_not_committed(warehouse: Warehouse) -> None:
    """The next job of a request commits what a dead one had finished: its own files only."""
    table = regional(warehouse, regions=REGIONS)
    before = warehouse.rows(table)
    kill(warehouse, calls=3)
    with make_control(warehouse) as control:
        (dead,) = control.history()
        finished = control.store.finished(dead.job_id)[0]
        (output,) = finished.result.outputs
        foreign = f"{table.location()}/data/elsewhere.parquet"
        shutil.copy(local_path(output.path), local_path(foreign))
        forged_output = replace(output, path=foreign)
        forged_result = replace(finished, result=replace(finished.result, outputs=(forged_output,)))
        control.store.save_finished(dead.job_id, forged_result)
    assert finished.result.group_id in go_on(warehouse)
    assert warehouse.rows(table) == before
    assert foreign not in {file.path for file in warehouse.live_files(table)}
