"""The client on a real S3 server: objects, ranges, parts, copies, and what a failure leaves behind."""

import random
from contextlib import suppress

import pytest

from tests.servers.s3 import S3Server
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.client import RetryBudget
from tidyberg.storage.s3.part_plan import MB
from tidyberg.storage.s3.reading import RangeStream, S3InputFile, fetch
from tidyberg.storage.s3.responses import S3Error, WrongSize
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import S3Object, S3Store
from tidyberg.storage.s3.writing import S3OutputStream

NOISE = random.Random(1).randbytes(24 * MB)
KEYS = ["plain", "day=1%2F2/a b+c~ä€.parquet", "a/(b)'!*&=@:,;$?#[]/c.parquet", "ends with %"]


def content_of(store: S3Store, source: S3Object, size: int) -> bytes:
    return bytes(fetch(store, source, 0, size, size=size)[0])


@pytest.mark.parametrize("key", KEYS)
def test_any_key_is_written_read_copied_and_removed(store: S3Store, bucket: str, key: str) -> None:
    target = S3Object(bucket, key)
    store.put(target, NOISE[: 6 * MB])
    assert content_of(store, target, 6 * MB) == NOISE[: 6 * MB]
    copied = S3Object(bucket, f"copies/{key}")
    upload = store.begin(copied)
    etags = [store.copy_part(upload, 1, target, 10, 6 * MB - 1), store.upload_part(upload, 2, b"end")]
    store.complete(upload, etags, 6 * MB - 10 + 3)
    assert content_of(store, copied, 6 * MB - 7) == NOISE[10 : 6 * MB] + b"end"
    store.delete(target)
    store.delete(target)
    with pytest.raises(S3Error, match="NoSuchKey"):
        content_of(store, target, 6 * MB)


def test_a_wrong_secret_is_rejected_and_the_error_does_not_show_it(s3_server: S3Server, bucket: str) -> None:
    wrong = {**s3_server.properties, "s3.secret-access-key": "hush-hush-hush"}
    storage = Storage(StorageAccess(wrong))
    with pytest.raises(KernelFailure) as refused:
        storage.read_whole(storage.place(f"s3://{bucket}/x"), 10)
    assert refused.value.kind is FailureKind.DENIED
    assert "SignatureDoesNotMatch" in refused.value.message
    assert "hush" not in str(refused.value) + repr(storage.s3) + repr(S3Settings.of(wrong))


def test_virtual_hosts_are_addressed_and_signed(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server itself uses path style. The Host header is what a store with virtual hosts would see."""
    settings = S3Settings.of({**s3_server.properties, "s3.force-virtual-addressing": "true"})
    assert settings is not None
    assert settings.address(bucket, "r") == (False, f"{bucket}.127.0.0.1:{s3_server.port}", "")
    amazon = S3Settings.of({"s3.region": "eu-west-1", "s3.access-key-id": "a", "s3.secret-access-key": "b"})
    assert amazon is not None
    assert amazon.address("lake", "eu-west-1") == (True, "lake.s3.eu-west-1.amazonaws.com", "")
    assert amazon.address("my.lake", "cn-north-1") == (True, "s3.cn-north-1.amazonaws.com.cn", "/my.lake")


@pytest.mark.parametrize("size", [0, 1, 5 * MB, 5 * MB + 1, 10 * MB, 23 * MB + 17])
def test_streams_write_what_they_are_given(s3_server: S3Server, bucket: str, size: int) -> None:
    settings = S3Settings.of({**s3_server.properties, "s3.multipart.part-size-bytes": str(5 * MB)})
    assert settings is not None
    store, target = S3Store(settings), S3Object(bucket, "out")
    stream = S3OutputStream(store, target)
    for start in range(0, size, 3 * MB):
        stream.write(NOISE[start : min(size, start + 3 * MB)])
    assert stream.tell() == size
    stream.close()
    assert (s3_server.data / bucket / "out").read_bytes() == NOISE[:size]
    parts = -(-size // (5 * MB))
    expected = {"create": 1, "part": parts, "complete": 1} if parts > 1 else {"put": 1}
    assert store.requests.counts() == expected
    assert not s3_server.unfinished_uploads(bucket)


def test_an_abandoned_stream_leaves_nothing(s3_server: S3Server, store: S3Store, bucket: str) -> None:
    stream = S3OutputStream(store, S3Object(bucket, "out"))
    stream.write(NOISE)
    stream.write(NOISE)
    stream.abandon()
    stream.close()
    assert stream.closed
    assert not s3_server.objects(bucket)
    assert not s3_server.unfinished_uploads(bucket)


def test_parts_that_are_too_small_are_rejected_when_the_upload_ends(store: S3Store, bucket: str) -> None:
    """This is why `plan_parts` respects the minimum."""
    upload = store.begin(S3Object(bucket, "out"))
    etags = [store.upload_part(upload, number, b"short") for number in (1, 2)]
    with pytest.raises(S3Error, match="EntityTooSmall"):
        store.complete(upload, etags, 10)
    store.abort(upload)
    store.abort(upload)


def test_open_uploads_are_found_by_prefix(store: S3Store, bucket: str) -> None:
    keys = ["a/tidyberg-1-x y", "a/tidyberg-1-ä", "a/tidyberg-2", "b"]
    begun = {key: store.begin(S3Object(bucket, key)) for key in keys}
    found = list(store.uploads(bucket, "a/tidyberg-1-"))
    assert {upload.target.key for upload in found} == set(keys[:2])
    for upload in found:
        store.abort(upload)
    assert {upload.target.key for upload in store.uploads(bucket, "")} == set(keys[2:])
    assert begun[keys[0]] in found


def test_a_stream_of_ranges_costs_one_request(store: S3Store, bucket: str) -> None:
    target = S3Object(bucket, "in")
    store.put(target, NOISE)
    file = S3InputFile(store, target, len(NOISE), lambda _: None)
    got = [bytes(file.take(start, start + 4 * MB)) for start in range(4, 20 * MB, 4 * MB + 100)]
    assert got == [NOISE[start : start + 4 * MB] for start in range(4, 20 * MB, 4 * MB + 100)]
    file.close()
    assert store.requests.counts() == {"get": 1, "put": 1}


def test_an_object_that_is_replaced_is_not_read_any_further(store: S3Store, bucket: str) -> None:
    target = S3Object(bucket, "in")
    store.put(target, NOISE)
    file = S3InputFile(store, target, len(NOISE), lambda _: None)
    file.seek(-8, 2)
    file.read(8)
    store.put(target, NOISE[::-1])
    file.seek(0)
    with pytest.raises(S3Error, match="PreconditionFailed"):
        file.read(1000)


def test_an_object_of_another_size_is_reported(store: S3Store, bucket: str) -> None:
    target = S3Object(bucket, "in")
    store.put(target, NOISE[:1000])
    for size in (999, 1001):
        with pytest.raises(WrongSize, match=f"has 1000 bytes, expected {size}"):
            fetch(store, target, 0, size, size=size)


def test_a_copy_of_an_object_that_changed_is_refused(store: S3Store, bucket: str) -> None:
    source = S3Object(bucket, "in")
    store.put(source, NOISE[: 6 * MB])
    stream = RangeStream(store, source, 0, 8)
    stream.read_into(memoryview(bytearray(8)))
    store.put(source, NOISE[6 * MB : 12 * MB])
    upload = store.begin(S3Object(bucket, "out"))
    with pytest.raises(S3Error, match="PreconditionFailed"):
        store.copy_part(upload, 1, source, 0, 6 * MB - 1, stream.etag)
    store.abort(upload)


def test_ranges_of_other_buckets_are_copied(s3_server: S3Server, store: S3Store, bucket: str) -> None:
    s3_server.make_bucket(f"{bucket}-other")
    source = S3Object(f"{bucket}-other", "in")
    store.put(source, NOISE[: 6 * MB])
    upload = store.begin(S3Object(bucket, "out"))
    store.complete(upload, [store.copy_part(upload, 1, source, 5, 6 * MB - 6)], 6 * MB - 10)
    assert (s3_server.data / bucket / "out").read_bytes() == NOISE[5 : 6 * MB - 5]


def test_an_idle_connection_that_the_server_closed_is_no_failure(store: S3Store, bucket: str) -> None:
    target = S3Object(bucket, "in")
    store.put(target, b"content")
    for _, connection in store.client._idle[False, store.settings.address(bucket, "")[1]]:
        connection.sock.close()
    assert content_of(store, target, 7) == b"content"


def test_retries_end_with_their_budget(store: S3Store) -> None:
    settings = S3Settings.of(
        {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.retry.budget-seconds": "0.5",
         "s3.retry.min-wait-ms": "10", "s3.retry.num-retries": "1000"}
    )  # fmt: skip
    assert settings is not None
    budget = RetryBudget(settings)
    waits = 0
    with suppress(TimeoutError):
        while waits < 1000:
            budget.wait_after(TimeoutError("slow"))
            waits += 1
    assert 4 <= waits <= 12
