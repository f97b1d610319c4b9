"""Copies inside the store: the data stays there, and hardly any bytes pass through the worker."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.builders.control import make_control
from tests.builders.engines import Watched
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, noise, properties_of
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import S3Proxy
from tidyberg.model.options import RewriteMode

COPY = replace(OPTIONS, mode=RewriteMode.COPY)


def test_row_groups_are_copied_by_the_store(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    with S3Proxy(s3_server.port) as proxy:
        lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket, proxy.endpoint))
        with lake:
            table = lake.create_table(schema=noise(1, 0).schema)
            lake.append_files(table, 4, rows=lambda number: noise(400_000, number))
            keys = [file.path.partition(f"{bucket}/")[2] for file in lake.live_files(table)]
            inputs = {key: (s3_server.data / bucket / key).stat().st_size for key in keys}
            expected = table.scan().to_arrow().sort_by("id")
            proxy.sent.clear()
            proxy.received.clear()
            before, engine = len(s3_server.asked(bucket)), Watched()
            with make_control(lake, engine) as control:
                control.compact(REF, COPY)
            data = [(what, key) for what, key in s3_server.asked(bucket)[before:] if "/data/" in key]
            through = sum(size for key, size in (proxy.sent + proxy.received).items() if "/data/" in key)
            (output,) = (file.path.partition(f"{bucket}/")[2] for file in lake.live_files(table))
            assert table.refresh().scan().to_arrow().sort_by("id") == expected
            assert s3_server.objects(bucket) == lake.referenced(table)
    size = sum(inputs.values())
    assert size > 4 * 10 * 2**20
    assert through < 0.02 * size, "of the inputs' bytes, read or written, crossed the worker"
    asked = Counter(what for what, key in data if key in inputs)
    assert asked == {"GetObject": 4}, "one request an input, for its footer"
    (result,) = engine.results
    assert result.mode == "copy"
    assert result.bytes_moved > 0.99 * size
    # The task and the server count the same. The check of the output before the commit is not part of the task.
    served = Counter(what for what, _ in data) - Counter({"HeadObject": 1})
    assert result.requests == {
        "get": served["GetObject"],
        "part_copy": served["UploadPartCopy"],
        "part": served["UploadPart"],
        "create": served["CreateMultipartUpload"],
        "complete": served["CompleteMultipartUpload"],
    }
    assert served["UploadPartCopy"] == 4
    assert Counter(what for what, key in data if key == output)["HeadObject"] == 1


def test_small_row_groups_are_sent_between_copied_ones(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    sizes = [3_000, 300_000, 1_000, 20_000, 250_000, 100]
    with lake:
        table = lake.create_table(schema=noise(1, 0).schema)
        for number, rows in enumerate(sizes):
            lake.append_files(table, 1, rows=lambda _, n=number, r=rows: noise(r, n))  # type: ignore[misc]
        expected = table.scan().to_arrow().sort_by([("id", "ascending"), ("a", "ascending")])
        engine = Watched()
        with make_control(lake, engine) as control:
            control.compact(REF, COPY)
        found = table.refresh().scan().to_arrow().sort_by([("id", "ascending"), ("a", "ascending")])
        assert found == expected
        (result,) = engine.results
        assert result.mode == "copy"
        assert result.requests["part_copy"] >= 2
        assert 0 < result.bytes_moved < result.bytes_written
        assert not s3_server.unfinished_uploads(bucket)


def test_files_too_small_for_parts_are_sent_as_a_whole(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with lake:
        table = lake.create_table(schema=noise(1, 0).schema)
        lake.append_files(table, 3, rows=lambda number: noise(1_000, number))
        expected = table.scan().to_arrow().sort_by("id")
        engine = Watched()
        with make_control(lake, engine) as control:
            control.compact(REF, COPY)
        assert table.refresh().scan().to_arrow().sort_by("id") == expected
        (result,) = engine.results
        assert (result.mode, result.bytes_moved, result.requests.get("put")) == ("copy", 0, 1)
