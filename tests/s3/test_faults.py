"""A store that throttles, drops connections and responds late: requests are retried, and jobs succeed."""

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, noise, properties_of
from tests.seed import SEED
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Asked, Break, Delay, Error, Fault, S3Proxy
from tidyberg.errors import CredentialsExpired, StorageError
from tidyberg.execute.inline import InlineEngine
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import RewriteMode
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.part_plan import MB
from tidyberg.storage.s3.reading import fetch
from tidyberg.storage.s3.responses import S3Error
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import CannotCopyParts, S3Object, S3Store

CONTENT = random.Random(2).randbytes(6 * MB)
PATIENT = {"s3.retry.min-wait-ms": "5", "s3.retry.max-wait-ms": "100"}


def store_behind(proxy: S3Proxy, server: S3Server, **properties: str) -> S3Store:
    settings = S3Settings.of({**server.properties, "s3.endpoint": proxy.endpoint, **PATIENT, **properties})
    assert settings is not None
    return S3Store(settings)


def once(fault: Fault, method: str = "", part: str = "") -> Callable[[Asked], Fault]:
    """Fails the first request that matches."""
    spoiled = threading.Event()

    def choose(asked: Asked) -> Fault:
        if spoiled.is_set() or method not in asked.method or part not in asked.path:
            return None
        spoiled.set()
        return fault

    return choose


def often(seed: int) -> Callable[[Asked], Fault]:
    """Throttles the first request and a fifth of the others. Some connections break in every way, some are slow."""
    drawn = random.Random(seed)
    lock = threading.Lock()
    first = iter([0.0])

    def choose(_: Asked) -> Fault:
        with lock:
            number = next(first, None)
            number = drawn.random() if number is None else number
        if number < 0.2:
            return Error(503, "SlowDown")
        breaks: list[Fault] = [Break("before"), Break("after"), Break("within"), Delay(0.3)]
        return breaks[int((number - 0.2) / 0.03)] if number < 0.32 else None

    return choose


@pytest.mark.slow
@pytest.mark.parametrize("mode", [RewriteMode.ENCODE, RewriteMode.COPY])
def test_a_job_succeeds_on_a_store_that_fails_every_third_request(
    tmp_path: Path, s3_server: S3Server, bucket: str, mode: RewriteMode
) -> None:
    with S3Proxy(s3_server.port) as proxy:
        lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket, proxy.endpoint))
        lake.catalog.properties.update(PATIENT)
        with lake:
            table = lake.create_table(schema=noise(1, 0).schema)
            rows = 200_000 if mode is RewriteMode.COPY else 20_000
            lake.append_files(table, 4, rows=lambda number: noise(rows, number))
            expected = table.scan().to_arrow().sort_by("id")
            proxy.fault = often(SEED)
            with make_control(lake, InlineEngine()) as control:
                control.compact(REF, replace(OPTIONS, mode=mode))
            proxy.fault = lambda _: None
            assert proxy.answers[503]
            assert table.refresh().scan().to_arrow().sort_by("id") == expected
            assert len(lake.live_files(table)) == 1
            assert s3_server.objects(bucket) == lake.referenced(table)
            assert not s3_server.unfinished_uploads(bucket)


@pytest.mark.parametrize(
    "fault", [Error(503, "SlowDown"), Error(500, "InternalError"), Break("before"), Break("within")]
)
def test_a_read_resumes_where_it_broke(s3_server: S3Server, bucket: str, fault: Fault) -> None:
    with S3Proxy(s3_server.port, once(fault, "GET")) as proxy:
        store = store_behind(proxy, s3_server)
        target = S3Object(bucket, "in")
        store.put(target, CONTENT)
        assert bytes(fetch(store, target, 0, len(CONTENT))[0]) == CONTENT
        dropped = fault == Break("before")  # looks like an idle connection that the store closed: not counted
        assert store.requests.counts() == {"get": 1 if dropped else 2, "put": 1}
        if fault == Break("within"):
            assert proxy.received["in"] == len(CONTENT) * 3 // 2, "the second request asks for the rest only"


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        (Error(200, "InternalError"), "uploadId="),  # status 200 with an error in the body
        (Break("after"), "uploads"),
        (Break("after"), "partNumber"),
        (Break("after"), "?uploadId="),
        (Error(404, "NoSuchUpload"), "?uploadId="),
    ],
)
def test_an_upload_survives(s3_server: S3Server, bucket: str, fault: Fault, part: str) -> None:
    """With the last fault, the store has completed the upload, but its response was lost."""
    with S3Proxy(s3_server.port) as proxy:
        store = store_behind(proxy, s3_server)
        source, target = S3Object(bucket, "in"), S3Object(bucket, "out")
        store.put(source, CONTENT)
        lost_end = fault == Error(404, "NoSuchUpload")
        proxy.fault = once(Break("after") if lost_end else fault, "", part)
        if lost_end:
            ends = Counter[str]()

            def end_is_lost(asked: Asked) -> Fault:
                if asked.method != "POST" or part not in asked.path:
                    return None
                ends["seen"] += 1
                return Break("after") if ends["seen"] == 1 else Error(404, "NoSuchUpload")

            proxy.fault = end_is_lost
        upload = store.begin(target)
        etags = [store.copy_part(upload, 1, source, 0, len(CONTENT) - 1), store.upload_part(upload, 2, b"end")]
        store.complete(upload, etags, len(CONTENT) + 3)
        assert (s3_server.data / bucket / "out").read_bytes() == CONTENT + b"end"


def test_an_upload_that_is_gone_and_left_nothing_is_a_failure(s3_server: S3Server, bucket: str) -> None:
    with S3Proxy(s3_server.port, once(Error(404, "NoSuchUpload"), "POST", "uploadId")) as proxy:
        store = store_behind(proxy, s3_server)
        upload = store.begin(S3Object(bucket, "out"))
        etag = store.upload_part(upload, 1, b"end")
        with pytest.raises(S3Error, match="NoSuchUpload"):
            store.complete(upload, [etag], 3)


def test_an_exhausted_retry_budget_is_a_transient_failure(s3_server: S3Server, bucket: str) -> None:
    with S3Proxy(s3_server.port, lambda _: Error(503, "SlowDown")) as proxy:
        properties = {
            **s3_server.properties,
            "s3.endpoint": proxy.endpoint,
            **PATIENT,
            "s3.retry.budget-seconds": "0.5",
        }
        storage = Storage(StorageAccess(properties))
        with pytest.raises(KernelFailure) as failed:
            storage.read_whole(storage.place(f"s3://{bucket}/in"), 10)
        assert failed.value.kind is FailureKind.STORAGE
        assert "SlowDown" in failed.value.message
        assert 3 < proxy.answers[503] < 100


@pytest.mark.parametrize("answer", [Error(501, "NotImplemented"), Error(405, "MethodNotAllowed")])
def test_a_store_that_cannot_copy_is_written_to_instead(
    tmp_path: Path, s3_server: S3Server, bucket: str, answer: Error
) -> None:
    tried = Counter[str]()

    def refuse(asked: Asked) -> Fault:
        if "x-amz-copy-source" not in asked.headers:
            return None
        tried["copies"] += 1
        return answer

    with S3Proxy(s3_server.port, refuse) as proxy:
        lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket, proxy.endpoint))
        with lake:
            table = lake.create_table(schema=noise(1, 0).schema)
            lake.append_files(table, 2, rows=lambda number: noise(200_000, number))
            expected = table.scan().to_arrow().sort_by("id")
            with make_control(lake, InlineEngine()) as control:
                control.compact(REF, replace(OPTIONS, mode=RewriteMode.COPY))
                first = tried["copies"]
                lake.append_files(table, 2, rows=lambda number: noise(200_000, 2 + number))
                control.compact(REF, replace(OPTIONS, mode=RewriteMode.COPY))
            assert tried["copies"] == first <= 2, "asked once in a process"
            found = table.refresh().scan().to_arrow().sort_by("id")
            assert found.slice(0, expected.num_rows) == expected
            assert found.num_rows == 2 * expected.num_rows
            assert s3_server.objects(bucket) == lake.referenced(table)
            assert not s3_server.unfinished_uploads(bucket)
        store = store_behind(proxy, s3_server)
        upload = store.begin(S3Object(bucket, "x"))
        with pytest.raises(CannotCopyParts):
            store.copy_part(upload, 1, S3Object(bucket, "in"), 0, 1)
        store.abort(upload)


def test_credentials_that_expire_during_a_job_are_reported_and_the_job_can_be_run_again(
    tmp_path: Path, s3_server: S3Server, bucket: str
) -> None:
    with S3Proxy(s3_server.port) as proxy:
        lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket, proxy.endpoint))
        with lake:
            table = lake.create_table(schema=noise(1, 0).schema)
            lake.append_files(table, 3, rows=lambda number: noise(1000, number))
            expired = Error(400, "ExpiredToken", "The provided token has expired.")
            proxy.fault = lambda asked: expired if "/data/" in asked.path and asked.method == "GET" else None
            with make_control(lake, InlineEngine()) as control:
                with pytest.raises(CredentialsExpired, match="expired") as raised:
                    control.compact(REF, OPTIONS)
                assert isinstance(raised.value, StorageError)
                assert s3_server.secret_key not in str(raised.value)
                proxy.fault = lambda _: None
                control.compact(REF, OPTIONS)
            assert len(lake.live_files(table)) == 1


def test_a_slow_link_has_time_for_a_large_body() -> None:
    """The timeout applies to each block that is sent, not to the whole part."""
    body, taken = bytes(24 * MB), 0
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            nonlocal taken
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as stream:
                while stream.readline().strip():
                    pass
                while taken < len(body) and (piece := stream.read(MB)):
                    taken += len(piece)
                    time.sleep(0.1)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b"}
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = S3Settings.of(
            {"s3.endpoint": endpoint, "s3.request-timeout": "1.5", "s3.retry.num-retries": "0", **keys}
        )
        assert settings is not None
        S3Store(settings).put(S3Object("bucket", "key"), body)
        thread.join()
    assert taken == len(body)
