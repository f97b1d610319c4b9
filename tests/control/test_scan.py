"""After a store was lost, outputs of dead runs are found by their names, and no other file is removed."""

import os
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, leftovers, make_control
from tests.builders.events_table import REF, eight_files
from tests.builders.interrupted_jobs import dead_job
from tidyberg.control.control_base import DAY_MS
from tidyberg.errors import BadInput
from tidyberg.model.job import Job
from tidyberg.model.task import output_name
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path


@pytest.fixture(autouse=True)
def table(warehouse: Warehouse) -> Table:
    return eight_files(warehouse)


@pytest.fixture
def dead(warehouse: Warehouse) -> Job:
    return dead_job(warehouse, "execution")


def lose_the_store(warehouse: Warehouse) -> None:
    for path in warehouse.directory.glob("jobs.db*"):
        path.unlink()


def in_a_day() -> int:
    return wall_clock_ms() + DAY_MS + 60_000


def test_outputs_of_a_dead_run_are_found_although_the_store_lost_its_record(
    warehouse: Warehouse, table: Table, dead: Job
) -> None:
    lose_the_store(warehouse)
    with make_control(warehouse, now_ms=in_a_day) as control:
        assert control.recover() == [], "nobody knows of it"
        found = control.scan(REF)
        assert [(stray.run_id, local_path(stray.path)) for stray in found.strays] == [
            (dead.job_id, path) for path in leftovers(warehouse, table)
        ]
        assert found.strays[0].age_ms >= DAY_MS
        assert (found.claimed, found.removed) == (0, ())
        assert leftovers(warehouse, table), "a list changes nothing"

        assert len(control.scan(REF, remove_after_hours=24).removed) == 1
        assert not leftovers(warehouse, table)
        assert control.scan(REF).strays == ()


def test_outputs_of_a_run_in_the_store_are_not_strays(warehouse: Warehouse, table: Table, dead: Job) -> None:
    with make_control(warehouse, now_ms=in_a_day) as control:
        found = control.scan(REF, remove_after_hours=24)
        assert (found.strays, found.removed, found.claimed) == ((), (), 1)
    assert leftovers(warehouse, table)


def test_young_files_stay(warehouse: Warehouse, table: Table, dead: Job) -> None:
    lose_the_store(warehouse)
    with make_control(warehouse) as control:
        found = control.scan(REF, remove_after_hours=24)
        assert (len(found.strays), found.removed, found.kept) == (1, (), 1)
        with pytest.raises(BadInput, match="younger than 24 hours"):
            control.scan(REF, remove_after_hours=23.9)
    assert leftovers(warehouse, table)


def test_nothing_else_is_found(warehouse: Warehouse, table: Table) -> None:
    """Live outputs, older snapshots' files, other names, other places, a table that lies below this one."""
    rows = warehouse.rows(table)
    with make_control(warehouse, now_ms=in_a_day) as control:
        assert control.compact(REF, AT_ONCE).outcome == "committed"
        data = Path(local_path(f"{table.location()}/data"))
        others = [
            data / "00000-orphan.parquet",
            data / "tidyberg-notes.txt",
            data / f"{output_name('run', 0, 0, 0)}.crc",
            data / "nested" / "data" / output_name("run", 0, 0, 0),
            data.parent / output_name("run", 0, 0, 0),
            data.parent / "metadata" / output_name("run", 0, 0, 0),
        ]
        ours = [data / output_name("run", 0, 0, 1), data / "region=eu" / output_name("run", 0, 0, 2)]
        for path in (*others, *ours):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        found = control.scan(REF, remove_after_hours=24)
        assert sorted(local_path(stray.path) for stray in found.strays) == sorted(map(str, ours))
        assert len(found.removed) == 2
    assert all(path.exists() for path in others)
    assert not any(path.exists() for path in ours)
    assert warehouse.rows(table) == rows
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)


def test_a_file_without_a_modification_time_counts_as_new(warehouse: Warehouse, table: Table, dead: Job) -> None:
    lose_the_store(warehouse)
    for path in leftovers(warehouse, table):
        os.utime(path, (0, 0))
    with make_control(warehouse, now_ms=in_a_day) as control:
        assert control.scan(REF, remove_after_hours=24).removed == ()
