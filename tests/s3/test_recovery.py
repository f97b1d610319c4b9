"""On an S3 store, a listing finds leftovers in any layout, and only those of the run are deleted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tidyberg.control.control_base import DAY_MS
from tidyberg.model.job import Intent, JobStatus
from tidyberg.model.task import output_name
from tidyberg.record.clock import wall_clock_ms
from tidyberg.storage import table_files as objects
from tidyberg.storage.s3.store import S3Object, S3Store

MANY = 1100  # more than a page of a listing


@pytest.fixture
def warehouse(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    made = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with made:
        yield made


@pytest.fixture(params=[False, True], ids=["plain", "object store layout"])
def table(request: pytest.FixtureRequest, warehouse: S3Warehouse) -> Table:
    layout = {"write.object-storage.enabled": "true"} if request.param else {}
    return warehouse.append_files(warehouse.create_table(properties=layout), 6, 20)


def put(store: S3Store, path: str) -> None:
    store.put(S3Object.of(path), b"x")


def test_a_listing_reads_all_pages_and_stays_in_its_directory(store: S3Store, bucket: str) -> None:
    for number in range(MANY):
        store.put(S3Object(bucket, f"a dir/x+y=%2F&/run-{number:05d}"), b"")
    store.put(S3Object(bucket, "a dir/x+y=%2F&/run-/deeper"), b"")
    store.put(S3Object(bucket, "a dir/x+y=%2F&/other"), b"four")
    found = list(store.objects(bucket, "a dir/x+y=%2F&/run-"))
    assert [one.key for one in found] == [f"a dir/x+y=%2F&/run-{number:05d}" for number in range(MANY)]
    everything = list(store.objects(bucket, "a dir/", recursive=True))
    assert len(everything) == MANY + 2
    (other,) = [one for one in everything if one.key.endswith("other")]
    assert other.size == 4
    assert abs(other.modified_ms - wall_clock_ms()) < 600_000


def test_a_forged_record_deletes_the_runs_leftovers_and_nothing_else(
    warehouse: S3Warehouse, table: Table, store: S3Store
) -> None:
    another = warehouse.append_files(warehouse.create_table("db.another"), 4, 20)
    with make_control(warehouse, sleep=lambda _: None) as control:
        done = control.compact(REF, OPTIONS).job
        victims = [file.path for file in warehouse.live_files(another)]
        (live,) = [file.path for file in warehouse.live_files(table)]
        directory = live.rpartition("/")[0]
        left = [f"{directory}/{output_name(done.job_id, 0, attempt, 5)}" for attempt in range(3)]
        for path in left:
            put(store, path)
        intent = Intent(
            done.job_id,
            10**9,
            {0: directory, 1: f"{another.location()}/data"},
            1,
            {0: 1, 1: 1},
            0.0,
            adopted={2: tuple(victims)},
        )
        control.store.save(replace(done, status=JobStatus.RUNNING, commits=0, snapshot_id=None, intent=intent))
        control.store.note_paths(done.job_id, victims)
        (said,) = control.recover()
        assert "3 leftovers removed" in said
        assert "left alone" in said
    for one in (table, another):
        assert all(objects.exists(one.io, path) for path in warehouse.referenced(one))
    assert not any(objects.exists(table.io, path) for path in left)


def test_strays_of_a_lost_store_are_listed_and_old_ones_removed(
    warehouse: S3Warehouse, table: Table, store: S3Store
) -> None:
    with make_control(warehouse, now_ms=lambda: wall_clock_ms() + DAY_MS + 600_000) as control:
        assert control.compact(REF, OPTIONS).outcome == "committed"
        provider = table.location_provider()
        ours = provider.new_data_location(output_name("lost", 0, 0, 0))
        other = f"{provider.data_path}/00000-append.parquet"
        for path in (ours, other):
            put(store, path)
        assert [stray.path for stray in control.scan(REF).strays] == [ours]
        assert control.scan(REF, remove_after_hours=24).removed == (ours,)
        assert control.scan(REF).strays == ()
    assert objects.exists(table.io, other)
    assert all(objects.exists(table.io, path) for path in warehouse.referenced(table))
