"""Bulk deletes on an S3 store: a thousand objects in a request, refusals by key, and an expiry that uses them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from tests.builders.aged_tables import DAY_MS
from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tidyberg.model.expiry import ExpireOptions
from tidyberg.record.clock import wall_clock_ms
from tidyberg.storage import s3_files
from tidyberg.storage.s3.client import S3Client, S3Request
from tidyberg.storage.s3.responses import S3Error, S3Response
from tidyberg.storage.s3.store import S3Object, S3Store
from tidyberg.storage.s3_files import S3Files
from tidyberg.storage.table_files import delete_many

DENIED = "<Error><Key>{key}</Key><Code>{code}</Code><Message>no\n way</Message></Error>"


def result(*errors: str) -> bytes:
    return f'<?xml version="1.0"?><DeleteResult xmlns="x">{"".join(errors)}</DeleteResult>'.encode()


@pytest.fixture
def warehouse(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    made = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with made:
        yield made


def rows_of(table: Table) -> list[str]:
    return sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


def live(warehouse: S3Warehouse, table: Table) -> set[str]:
    """Everything that is referenced, without the files that manifests only record as deleted."""
    removed = {
        entry.data_file.file_path
        for snapshot in table.refresh().metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED
    }
    return warehouse.referenced(table) - removed


def test_objects_of_any_name_are_deleted_a_thousand_in_a_request(
    store: S3Store, s3_server: S3Server, bucket: str
) -> None:
    odd = ["a b/ü&<>\"'+%2F=.parquet", "x//y", "plus+plus"]
    keys = [*odd, *(f"many/{number:05d}" for number in range(1100))]
    for key in (*keys, "stays"):
        store.put(S3Object(bucket, key), b"")
    refused = S3Files(store).delete_many([f"s3://{bucket}/{key}" for key in (*keys, "never was")])
    assert refused == {}
    assert store.requests.counts()["delete_many"] == 2
    assert [one.key for one in store.objects(bucket, "", recursive=True)] == ["stays"]


class Answers:
    """A client that answers bulk deletions by a script, and notes the keys that it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: S3Response | OSError) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        monkeypatch.setattr(S3Client, "call", self._call)
        monkeypatch.setattr(s3_files, "_PAUSE_SECONDS", 0.0)

    def _call(self, request: S3Request, *_: Any) -> S3Response:
        self.asked.append(f"{request.kind} {request.key}" if request.kind == "delete" else bytes(request.body).decode())
        answer = self._answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        assert not answer.is_error, "errors of single objects are no error of the request"
        return answer


def test_each_object_that_the_store_refuses_is_reported(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said = result(DENIED.format(key="b", code="AccessDenied"), DENIED.format(key="gone", code="NoSuchKey"))
    Answers(monkeypatch, S3Response(200, {}, said))
    refused = S3Files(store).delete_many(["s3://x/a", "s3://x/b", "s3://x/gone"])
    assert refused == {"s3://x/b": "AccessDenied: no way"}


def test_objects_that_were_throttled_are_deleted_again(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = result(DENIED.format(key="b", code="SlowDown"), DENIED.format(key="c", code="AccessDenied"))
    answers = Answers(monkeypatch, S3Response(200, {}, busy), S3Response(200, {}, result()))
    refused = S3Files(store).delete_many(["s3://x/a", "s3://x/b", "s3://x/c"])
    assert refused == {"s3://x/c": "AccessDenied: no way"}
    assert ["<Key>a</Key>" in body for body in answers.asked] == [True, False]


def test_objects_that_stay_throttled_are_reported_once(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = S3Response(200, {}, result(DENIED.format(key="b", code="SlowDown")))
    answers = Answers(monkeypatch, *([busy] * 5))
    assert S3Files(store).delete_many(["s3://x/b"]) == {"s3://x/b": "SlowDown: no way"}
    assert len(answers.asked) == 5


def test_an_answer_that_ends_early_counts_as_refusal(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, S3Response(200, {}, result()[:-5]))
    (said,) = S3Files(store).delete_many(["s3://x/b"]).values()
    assert "not complete" in said


def test_a_store_without_bulk_deletion_gets_one_request_for_each_object(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unable = S3Error(S3Response(501, {}, b"<Error><Code>NotImplemented</Code></Error>"), "delete_many")
    denied = S3Error(S3Response(403, {}, b"<Error><Code>AccessDenied</Code></Error>"), "delete")
    answers = Answers(monkeypatch, unable, S3Response(204, {}), denied)
    (path,) = S3Files(store).delete_many(["s3://x/a", "s3://x/b"])
    assert (path, answers.asked[1:]) == ("s3://x/b", ["delete a", "delete b"])


def test_a_request_that_fails_as_a_whole_refuses_all_its_objects(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, S3Error(S3Response(403, {}, b"<Error><Code>AccessDenied</Code></Error>"), "delete_many"))
    assert set(S3Files(store).delete_many(["s3://x/a", "s3://x/b"])) == {"s3://x/a", "s3://x/b"}


def test_a_key_that_no_xml_can_carry_is_deleted_alone(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, S3Response(200, {}, result()), S3Response(204, {}))
    assert S3Files(store).delete_many(["s3://x/a", "s3://x/b\x01"]) == {}
    assert answers.asked[1] == "delete b\x01"


def test_an_expiry_deletes_in_bulk_and_leaves_exactly_what_is_referenced(
    warehouse: S3Warehouse, s3_server: S3Server, bucket: str
) -> None:
    table = warehouse.append_files(warehouse.create_table(), 6, 20, files_per_commit=1)
    with make_control(warehouse) as control:
        control.compact(REF, OPTIONS)
        rows = rows_of(table)
        control.now_ms = lambda: wall_clock_ms() + 10 * DAY_MS
        result = control.expire(REF, ExpireOptions())
        assert (result.outcome, result.snapshots_expired, result.files.data_files) == ("expired", 6, 6)
        assert result.verified
    assert rows_of(table) == rows
    assert s3_server.objects(bucket) == live(warehouse, table)
    asked = [line for line in s3_server.asked(bucket) if "delete" in str(line).lower()]
    assert len(asked) < 6


def test_an_expiry_reports_keys_that_the_store_refuses_and_recovery_deletes_them(
    warehouse: S3Warehouse, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.append_files(warehouse.create_table(), 4, 20, files_per_commit=1)
    whole = S3Store.delete_many

    def refusing(self: S3Store, bucket: str, keys: Any) -> dict[str, tuple[str, str]]:
        allowed = [key for key in keys if not key.endswith(".parquet")]
        found = whole(self, bucket, allowed) if allowed else {}
        return found | {key: ("AccessDenied", "") for key in keys if key not in allowed}

    with make_control(warehouse) as control:
        control.compact(REF, OPTIONS)
        control.now_ms = lambda: wall_clock_ms() + 10 * DAY_MS
        monkeypatch.setattr(S3Store, "delete_many", refusing)
        result = control.expire(REF, ExpireOptions())
        assert (result.outcome, result.refused) == ("partly", 4)
        monkeypatch.setattr(S3Store, "delete_many", whole)
        (said,) = control.recover()
        assert "of its list are gone now" in said
    assert s3_server.objects(bucket) == live(warehouse, table)


def test_paths_of_several_kinds_of_storage_can_be_deleted_together(
    warehouse: S3Warehouse, store: S3Store, bucket: str, tmp_path: Path
) -> None:
    table = warehouse.create_table()
    store.put(S3Object(bucket, "one"), b"")
    local = tmp_path / "local"
    local.write_bytes(b"")
    assert delete_many(table.io, [f"s3://{bucket}/one", str(local), str(tmp_path / "never")]) == {}
    assert not local.exists()
