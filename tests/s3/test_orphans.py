"""Orphans on an S3 store: parallel listings, bulk deletes, refusals, quarantine."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetLocationUpdate

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tidyberg.control import engine_reads
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.orphans import OrphanOptions
from tidyberg.storage import listing, moving
from tidyberg.storage.listing import RemoteListing, files_below
from tidyberg.storage.s3.responses import S3Response, TruncatedResponse
from tidyberg.storage.s3.store import S3Object, S3Store

NOW = OrphanOptions(now=True)


@pytest.fixture
def warehouse(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    made = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with made:
        yield made


@pytest.fixture
def table(warehouse: S3Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 2, 20)


@pytest.fixture
def control(warehouse: S3Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as opened:
        yield opened


def age(server: S3Server, bucket: str) -> None:
    for path in (server.data / bucket).rglob("*"):
        if path.is_file():
            os.utime(path, (1.6e9, 1.6e9))


def put(store: S3Store, table: Table, names: Sequence[str]) -> set[str]:
    made = {f"{table.location()}/{name}" for name in names}
    for path in made:
        store.put(S3Object.of(path), b"orphan")
    return made


def test_orphans_are_deleted_and_quarantined_ones_come_back(
    warehouse: S3Warehouse, table: Table, control: Control, store: S3Store, s3_server: S3Server, bucket: str
) -> None:
    rows = table.scan().to_arrow().num_rows
    before = s3_server.objects(bucket)
    lost = put(store, table, ["data/lost.parquet", "data/a b/ü&+%2F=.parquet", "metadata/lost.avro"])
    assert control.remove_orphans(REF, NOW).outcome == "nothing", "they are young"
    age(s3_server, bucket)
    moved = control.remove_orphans(REF, replace(NOW, quarantine=True))
    assert (moved.outcome, moved.files.files) == ("quarantined", 3)
    assert not lost & s3_server.objects(bucket)
    assert control.restore_orphans(REF).files == 3
    assert lost | before == s3_server.objects(bucket)
    age(s3_server, bucket)
    assert control.remove_orphans(REF, NOW).files.files == 3
    assert s3_server.objects(bucket) == before
    assert table.refresh().scan().to_arrow().num_rows == rows


def test_objects_that_the_store_refuses_to_delete_are_left_for_the_next_run(
    table: Table,
    control: Control,
    store: S3Store,
    s3_server: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = put(store, table, ["data/lost.parquet", "data/stuck.parquet"])
    age(s3_server, bucket)
    delete_many = S3Store.delete_many

    def refuse(self: S3Store, name: str, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
        stuck = {key: ("AccessDenied", "no") for key in keys if key.endswith("stuck.parquet")}
        return stuck | delete_many(self, name, [key for key in keys if key not in stuck])

    with monkeypatch.context() as patched:
        patched.setattr(S3Store, "delete_many", refuse)
        result = control.remove_orphans(REF, NOW)
    assert (result.outcome, result.files.files, result.refused) == ("partly", 1, 1)
    assert result.failure is not None
    assert result.failure.exit_code == 5
    assert len(lost & s3_server.objects(bucket)) == 1
    assert control.remove_orphans(REF, NOW).outcome == "deleted"


def test_references_with_an_equal_scheme_are_referenced(
    warehouse: S3Warehouse, control: Control, s3_server: S3Server, bucket: str
) -> None:
    data = f"s3a://{bucket}/warehouse/db/events/data"
    table = warehouse.append_files(warehouse.create_table(properties={"write.data.path": data}), 2, 20)
    assert table.location().startswith("s3://")
    age(s3_server, bucket)
    assert control.remove_orphans(REF, NOW).outcome == "nothing"
    with pytest.raises(BadInput, match="another scheme or authority"):
        control.remove_orphans(REF, replace(NOW, equal_schemes=()))
    assert table.refresh().scan().to_arrow().num_rows == 40


def test_every_range_of_a_listing_is_listed_once(
    table: Table, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_RANGES", 5)
    names = [f"p={number % 7}/q={number % 3}/{number:04d}" for number in range(60)]
    names += ["p", "p=", "p=3-", "p=30/x", "zz/ü", "zz/y", "~", "0"]
    for name in names:
        store.put(S3Object(bucket, f"many/{name}"), b"")
    store.put(S3Object(bucket, "many-more/x"), b"")
    found = [path for piece in files_below(table.io, f"s3://{bucket}/many/") for path in piece["path"].to_pylist()]
    assert sorted(found) == sorted(f"s3://{bucket}/many/{name}" for name in names)


@pytest.mark.parametrize("limit", [-1, 0, 9, 40, 1_000])
def test_tasks_list_the_objects_that_this_process_lists(
    table: Table, store: S3Store, bucket: str, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Pages are small, so that ranges are left in the middle. Some objects disappear meanwhile."""
    monkeypatch.setattr(listing, "_RANGES", 5)
    monkeypatch.setattr(engine_reads, "_TASK_FILES", 7)
    monkeypatch.setattr(S3Store, "_pages", small_pages)
    names = [f"p={number % 7}/q={number % 3}/{number:04d}" for number in range(60)]
    names += ["p", "p=3-", "zz/ü", "_hidden/x", ".hidden", "a/b", "~", "empty/", "p=1/empty/"]
    for name in names:
        store.put(S3Object(bucket, f"many/{name}"), b"")
    usual = engine_reads.engine_reads(InlineEngine, 0, limit).files

    def removes_some(io: Any, root: str, parts: Any, check: Any) -> Iterator[Any]:
        for number in range(4):
            store.delete(S3Object(bucket, f"many/p=6/q={number % 3}/{6 + 7 * number:04d}"))
        return usual.list_parts(io, root, parts, check)

    def found(remote: RemoteListing | None) -> list[str]:
        pieces = files_below(table.io, f"s3://{bucket}/many/", remote=remote)
        return sorted(path for piece in pieces for path in piece["path"].to_pylist())

    expected = sorted(f"s3://{bucket}/many/{name}" for name in names if not name.endswith("/"))
    assert found(usual) == expected == found(None)
    assert set(found(RemoteListing(limit, removes_some))) >= set(found(None))


def small_pages(self: S3Store, bucket: str, prefix: str, more: Sequence[tuple[str, str]]) -> Iterator[Any]:
    for page in PAGES(self, bucket, prefix, more):
        for start in range(0, len(page), 4):
            yield page[start : start + 4]


PAGES = S3Store._pages


def test_large_objects_are_copied_in_parts(
    table: Table, control: Control, store: S3Store, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_BYTES_IN_ONE_COPY", 6 * 1024**2)
    monkeypatch.setattr(moving, "_PART_BYTES", 5 * 1024**2)
    content = os.urandom(7 * 1024**2)
    path = f"{table.location()}/data/large.parquet"
    store.put(S3Object.of(path), content)
    age(s3_server, bucket)
    assert control.remove_orphans(REF, replace(NOW, quarantine=True)).files.bytes == len(content)
    assert control.restore_orphans(REF).files == 1
    assert (s3_server.data / path.removeprefix("s3://")).read_bytes() == content


def test_a_page_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(TruncatedResponse):
        S3Response(200, {}, b"<ListBucketResult><Contents>").page()


def test_a_listing_that_fails_deletes_nothing(
    table: Table, control: Control, store: S3Store, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, table, ["data/lost.parquet"])
    age(s3_server, bucket)
    before = s3_server.objects(bucket)

    def fail(*_: Any, **__: Any) -> Any:
        raise PermissionError("listing is denied")

    monkeypatch.setattr(S3Store, "pages", fail)
    with pytest.raises(Exception, match="Cannot list"):
        control.remove_orphans(REF, NOW)
    assert s3_server.objects(bucket) == before


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_table_at_the_root_of_a_bucket_is_listed(
    warehouse: S3Warehouse, control: Control, store: S3Store, s3_server: S3Server, bucket: str, slash: str
) -> None:
    made = warehouse.create_table(properties={"write.metadata.path": f"s3://{bucket}/metadata"})
    location = f"s3://{bucket}{slash}"
    moved = {"write.data.path": f"s3://{bucket}/data"}
    with made.transaction() as transaction:
        transaction.set_properties(moved)
    warehouse.catalog.commit_table(made, (), (SetLocationUpdate(location=location),))
    table = warehouse.append_files(made.refresh(), 2, 20)
    assert table.location().rstrip("/") == f"s3://{bucket}"
    for name in ("data/lost.parquet", "lost.parquet"):
        store.put(S3Object(bucket, name), b"orphan")
    age(s3_server, bucket)
    before = table.scan().to_arrow().num_rows
    moved_away = control.remove_orphans(REF, replace(NOW, quarantine=True))
    assert moved_away.quarantine == f"s3://{bucket}/_tidyberg/quarantine/{control.history(REF)[0].job_id}"
    names = {path.removeprefix(f"s3://{bucket}/") for path in s3_server.objects(bucket)}
    assert not {"data/lost.parquet", "lost.parquet"} & names
    restored = control.restore_orphans(REF)
    assert restored.files == moved_away.files.files
    age(s3_server, bucket)
    assert control.remove_orphans(REF, NOW).files.files == restored.files
    assert table.refresh().scan().to_arrow().num_rows == before == 40
    assert not warehouse.referenced(table) - s3_server.objects(bucket)
