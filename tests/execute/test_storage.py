"""Locations, local and remote, and what storage refuses."""

import socket
from pathlib import Path

import pytest
from pyarrow import fs

from tidyberg.failures import FailureKind, KernelFailure, find_failure, redact
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage, _split


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("/a/b c.parquet", ("file", "", "/a/b c.parquet")),
        ("file:/a/b.parquet", ("file", "", "/a/b.parquet")),
        ("file:///a/day=1%2F2/b.parquet", ("file", "", "/a/day=1%2F2/b.parquet")),
        ("s3://bucket/a/b#c?.parquet", ("s3", "bucket", "bucket/a/b#c?.parquet")),
        ("s3a://bucket/a", ("s3a", "bucket", "bucket/a")),
        ("gs://bucket/a", ("gs", "bucket", "bucket/a")),
        ("abfss://box@account.dfs.core.windows.net/a/b", ("abfss", "box@account.dfs.core.windows.net", "box/a/b")),
        ("hdfs://name:8020/a/b", ("hdfs", "name:8020", "/a/b")),
    ],
)
def test_locations_are_split_without_touching_their_text(location: str, parts: tuple[str, str, str]) -> None:
    assert _split(location) == parts


def test_filesystems_are_opened_once_per_set_of_properties() -> None:
    properties = {"s3.endpoint": "http://127.0.0.1:1", "s3.region": "us-east-1", "s3.access-key-id": "a",
                  "s3.secret-access-key": "b"}  # fmt: skip
    first = Storage(StorageAccess(properties)).place("s3://bucket/x")
    again = Storage(StorageAccess(properties)).place("s3a://other/x")
    same = Storage(StorageAccess(properties)).place("s3://other/x")
    renewed = Storage(StorageAccess({**properties, "s3.secret-access-key": "c"})).place("s3://bucket/x")
    assert first.filesystem is same.filesystem
    assert first.filesystem is not renewed.filesystem
    assert isinstance(again.filesystem, fs.S3FileSystem)


def test_an_unknown_scheme_says_so() -> None:
    with pytest.raises(KernelFailure, match="'ftp' is not supported"):
        Storage(StorageAccess()).place("ftp://host/x")


def test_outputs_create_their_directory_and_delete_is_idempotent(tmp_path: Path) -> None:
    storage = Storage(StorageAccess())
    place = storage.place(str(tmp_path / "a" / "b" / "c.bin"))
    with storage.open_output(place) as sink:
        sink.write(b"x")
    assert (tmp_path / "a" / "b" / "c.bin").read_bytes() == b"x"
    storage.delete(place)
    storage.delete(place)
    assert not (tmp_path / "a" / "b" / "c.bin").exists()


def test_an_unreachable_store_is_a_storage_failure_without_secrets() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    access = StorageAccess(
        {"s3.endpoint": f"http://127.0.0.1:{port}", "s3.region": "us-east-1", "s3.access-key-id": "AKIAKEY",
         "s3.secret-access-key": "hush-hush", "s3.connect-timeout": "1"}
    )  # fmt: skip
    storage = Storage(access)
    with pytest.raises(KernelFailure) as raised:
        storage.open_input(storage.place("s3://bucket/x.parquet"))
    assert raised.value.kind is FailureKind.STORAGE
    assert "s3://bucket/x.parquet" in raised.value.message
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(storage) + repr(access)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(13, "Permission denied"), FailureKind.DENIED),
        (OSError("AWS Error ACCESS_DENIED during PutObject: hush-hush"), FailureKind.DENIED),
        (OSError(30, "Read-only file system"), FailureKind.DENIED),
        (OSError(28, "No space left on device"), FailureKind.STORAGE),
        (OSError("AWS Error SLOW_DOWN"), FailureKind.STORAGE),
        (FileNotFoundError("Path does not exist 'b/x'"), FailureKind.DAMAGED),
    ],
)
def test_storage_errors_get_a_failure_kind(error: OSError, kind: FailureKind) -> None:
    storage = Storage(StorageAccess({"s3.secret-access-key": "hush-hush"}))
    with pytest.raises(KernelFailure) as raised, storage.guard("s3://b/x"):
        raise error
    assert raised.value.kind is kind
    assert "s3://b/x" in raised.value.message
    assert "hush" not in raised.value.message


def test_failures_survive_as_text() -> None:
    failure = KernelFailure(FailureKind.DAMAGED, 'file "a" <broken>\nsecond line')
    found = find_failure(f"org.apache.spark.SparkException: ... {failure} at java.lang...")
    assert found is not None
    assert (found.kind, found.message) == (failure.kind, failure.message)
    assert find_failure("java.lang.OutOfMemoryError") is None
    assert find_failure("<tidyberg-failure>{}</tidyberg-failure>") is None


def test_redaction() -> None:
    assert redact("key abcd and abcd", ("abcd",)) == "key *** and ***"


@pytest.mark.parametrize(
    ("location", "properties", "kind"),
    [
        ("s3n://b/x", {"client.region": "r", "s3.anonymous": "true", "s3.request-timeout": "5"}, "S3FileSystem"),
        (
            "gs://b/x",
            {"gcs.oauth2.token": "t", "gcs.service.host": "http://127.0.0.1:1", "gcs.default-bucket-location": "EU"},
            "GcsFileSystem",
        ),
        (
            "abfss://box@account.dfs.core.windows.net/x",
            {"adls.account-key": "aGVsbG8gd29ybGQ="},
            "AzureFileSystem",
        ),
    ],
)
def test_cloud_filesystems_open_from_pyicebergs_property_names(
    location: str, properties: dict[str, str], kind: str
) -> None:
    place = Storage(StorageAccess(properties)).place(location)
    assert type(place.filesystem).__name__ == kind
    assert not place.is_local
