"""Blocks that are walked in parallel give the same result as one by one, for valid and damaged bytes."""

import bz2
import contextlib
import lzma
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.manifest_values import METRICS
from tidyberg.avro import walk as walking
from tidyberg.avro.container import AvroError, blocks, open_container
from tidyberg.avro.values import column, list_lengths
from tidyberg.manifests.entries import ManifestError, read_entries
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, forge_static_table
from tidyberg.testing.avro import encode_bytes, encode_long
from tidyberg.varints import Buffer, VarintError


@pytest.fixture(scope="module")
def abreast() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "_FEWEST_LANES", 0)
        yield patch


@st.composite
def entries(draw: st.DrawFn, content: int = 0) -> ForgedEntry:
    values = draw(METRICS)
    if content == 2:
        values["equality_ids"] = draw(st.lists(st.integers(1, 300), max_size=3))
    if content == 1 and draw(st.booleans()):
        path = draw(st.text(max_size=90)).encode()
        values["lower_bounds"] = {3: b"x", 2147483546: path}
        values["upper_bounds"] = {2147483546: path if draw(st.booleans()) else path + b"z"}
    return ForgedEntry(
        draw(st.text(max_size=150)),
        status=draw(st.integers(0, 2)),
        records=draw(st.integers(0, 2**62)),
        size=draw(st.integers(-(2**63), 2**63 - 1)),
        content=content,
        sequence_number=draw(st.none() | st.integers(0, 2**40)),
        snapshot_id=draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
        values=values,
    )


@given(st.data())
@settings(max_examples=60)
def test_all_ways_of_walking_read_the_same(abreast: pytest.MonkeyPatch, data: st.DataObject) -> None:
    manifests = [
        ForgedManifest(data.draw(st.lists(entries(content), max_size=6)), content=min(content, 1), format_version=2)
        for content in data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    ]
    files = _files(manifests)
    together = dict(read_entries(files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "_FEWEST_LANES", 10**9)
        for name, raw, deletes in files:
            ((_, alone),) = read_entries([(name, raw, deletes)])
            assert together[name].table.to_pylist() == alone.table.to_pylist()
            assert together[name].partition_columns == alone.partition_columns
        patch.setattr(walking, "_FEWEST_LANES", data.draw(st.integers(1, 5)))
        for name, both in read_entries(files):
            assert both.table == together[name].table
    for name, few in read_entries(files, ("status", "content", "path", "size")):
        assert few.table == together[name].table.select(["status", "content", "path", "size"])


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_manifest_among_valid_ones_is_named(
    abreast: pytest.MonkeyPatch, changes: list[tuple[int, int]]
) -> None:
    header = _PLAIN.index(_SYNC) + len(_SYNC)
    raw = bytearray(_PLAIN)
    for at, byte in changes:
        raw[header + at % (len(raw) - header)] = byte
    files = [("a.avro", _PLAIN, False), ("b.avro", bytes(raw), False), ("c.avro", _PLAIN, False)]
    with contextlib.suppress(AvroError):
        list(read_entries(files[1:2]))
        found = dict(read_entries(files))
        assert found["a.avro"].table == found["c.avro"].table
        assert found["b.avro"].table.num_rows <= found["a.avro"].table.num_rows
        return
    with pytest.raises(ManifestError) as refused:
        list(read_entries(files))
    assert refused.value.name == "b.avro"


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_numbers_of_any_length_are_read_and_skipped(numbers: list[int]) -> None:
    encoded = [encode_long(number) for number in numbers]
    buffer = Buffer(encoded)
    assert buffer.read_varints(buffer.starts).tolist() == numbers
    assert buffer.skip_varints(buffer.starts).tolist() == buffer.ends.tolist()
    behind_each_other = Buffer([b"".join(encoded)])
    assert (
        behind_each_other.skip_varints(behind_each_other.starts, len(numbers)).tolist()
        == behind_each_other.ends.tolist()
    )


@pytest.mark.parametrize("lanes", [0, 10**9])
def test_array_blocks_with_a_length_in_bytes_are_read_and_must_have_that_length(
    monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    monkeypatch.setattr(walking, "_FEWEST_LANES", lanes)
    schema = '{"fields": [{"name": "x", "type": {"type": "array", "items": "long"}, "field-id": 1}]}'
    wanted = walking.Wanted(((1, "x"),))
    in_blocks = b"".join(map(encode_long, (-2, 2, 7, 8, 1, 9, -1, 2, 300, 0)))
    after = b"".join(map(encode_long, (1, 5, 0)))
    whole = walking.walk(schema, wanted, [(1, in_blocks), (1, after)])
    assert column(whole, "x", pa.list_(pa.int64())).to_pylist() == [[7, 8, 9, 300], [5]]
    assert list_lengths(whole, "x").to_pylist() == [4, 1]
    # One item more than the bytes hold: it would be read from the next block.
    too_many = walking.walk(schema, wanted, [(1, b"".join(map(encode_long, (-3, 2, 7, 8, 0)))), (1, after)])
    with pytest.raises(AvroError, match="do not fill it"):
        list_lengths(too_many, "x")


def test_a_number_of_more_than_64_bits_is_rejected() -> None:
    buffer = Buffer([b"\xff" * 9 + b"\x7f"])
    with pytest.raises(VarintError, match="64 bits"):
        buffer.read_varints(buffer.starts)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "snappy", "xz", "zstandard"])
def test_every_codec_of_avro_is_supported(codec: str) -> None:
    plain = b"".join(encode_long(number) for number in range(100))
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "null": bytes,
        "deflate": lambda raw: zlib.compress(raw)[2:-4],
        "bzip2": bz2.compress,
        "snappy": lambda raw: pa.compress(raw, "snappy", asbytes=True) + zlib.crc32(raw).to_bytes(4, "big"),
        "xz": lzma.compress,
        "zstandard": lambda raw: pa.compress(raw, "zstd", asbytes=True),
    }
    packed = compressors[codec](plain)
    header = {"avro.schema": "{}", "avro.codec": codec}
    content = b"Obj\x01" + encode_long(len(header))
    content += b"".join(encode_bytes(name.encode()) + encode_bytes(value.encode()) for name, value in header.items())
    content += b"\x00" + _SYNC + encode_long(100) + encode_bytes(packed) + _SYNC
    assert list(blocks(open_container(content))) == [(100, plain)]


def _container(name: str, sync: bytes) -> bytes:
    header = {"avro.schema": "{}", "name": name}
    content = b"Obj\x01" + encode_long(len(header))
    content += b"".join(encode_bytes(key.encode()) + encode_bytes(value.encode()) for key, value in header.items())
    return content + b"\x00" + sync + encode_long(1) + encode_bytes(name.encode()) + sync


def test_a_header_is_parsed_again_unless_it_is_equal_to_the_one_before() -> None:
    first = open_container(_container("one", b"a" * 16))
    same = open_container(_container("one", b"b" * 16), like=first)
    assert same.metadata is first.metadata
    assert same.sync == b"b" * 16
    assert list(blocks(same)) == [(1, b"one")]
    for name in ("two", "longer", "x"):
        other = open_container(_container(name, b"c" * 16), like=first)
        assert other.metadata["name"] == name.encode()
        assert list(blocks(other)) == [(1, name.encode())]
    for end in range(len(first.header), first.body):
        with pytest.raises(AvroError, match="not complete"):
            open_container(_container("one", b"d" * 16)[:end], like=first)


def _files(manifests: Sequence[ForgedManifest]) -> list[tuple[str, bytes, bool]]:
    with tempfile.TemporaryDirectory() as directory:
        forge_static_table(Path(directory), manifests, schema=SAMPLE_SCHEMA)
        return [
            (f"{number}", (Path(directory) / f"manifest-{number:05d}.avro").read_bytes(), manifest.content == 1)
            for number, manifest in enumerate(manifests)
        ]


_SYNC = b"tidyberg-testing"
_PLAIN = _files(
    [
        ForgedManifest(
            [ForgedEntry(f"f{n}", values={"column_sizes": {1: n}, "lower_bounds": {1: b"x"}}) for n in range(50)],
            codec="null",
        )
    ]
)[0][1]
