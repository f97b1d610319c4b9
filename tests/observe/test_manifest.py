import json
import struct
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import IcebergType

from tests.builders.inventories import inventory_of, our_view, pyiceberg_view
from tests.builders.manifest_values import METRICS, VALUES
from tidyberg.avro.records import AvroFile, reader
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, forge_static_table
from tidyberg.testing.avro import encode_bytes, encode_long


def partition_values(kind: IcebergType) -> st.SearchStrategy[Any]:
    return st.none() | VALUES[str(kind)]


@st.composite
def manifests(draw: st.DrawFn) -> tuple[PartitionSpec, list[ForgedManifest]]:
    sources = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]), unique=True, max_size=3))
    fields, strategies = [], []
    for number, source in enumerate(sources):
        kind = SAMPLE_SCHEMA.find_type(source)
        bucketed = source in (1, 6) and draw(st.booleans())
        transform: Transform[Any, Any] = BucketTransform(8) if bucketed else IdentityTransform()
        fields.append(PartitionField(source, 1000 + number, transform, f"part {number}"))
        strategies.append(st.none() | st.integers(0, 7) if bucketed else partition_values(kind))
    found = []
    for number in range(draw(st.integers(1, 3))):
        entries = [
            ForgedEntry(
                f"file-{number}-{index}",
                status=status,
                records=draw(st.integers(0, 2**40)),
                size=draw(st.integers(0, 2**50)),
                partition=tuple(draw(strategy) for strategy in strategies),
                snapshot_id=draw(st.none() | st.integers(1, 2**62)),
                sequence_number=draw(st.integers(0, 50) | st.none()) if status == 1 else draw(st.integers(0, 50)),
                file_sequence_number=None if status == 1 else draw(st.integers(0, 50)),
                values=draw(METRICS),
            )
            for index, status in enumerate(draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=6)))
        ]
        codec = draw(st.sampled_from(["deflate", "null"]))
        numbers = draw(st.tuples(st.integers(1, 2**62), st.integers(1, 99)))
        found.append(ForgedManifest(entries, *numbers, codec=codec))
    return PartitionSpec(*fields, spec_id=0), found


@settings(max_examples=120)
@given(manifests())
def test_random_manifests_read_as_pyiceberg_reads_them(drawn: tuple[PartitionSpec, list[ForgedManifest]]) -> None:
    spec, written = drawn
    with tempfile.TemporaryDirectory() as directory:
        table = forge_static_table(Path(directory), written, schema=SAMPLE_SCHEMA, specs=[spec])
        inventory = inventory_of(table)
        assert our_view(inventory) == pyiceberg_view(table)
    live = [entry for manifest in written for entry in manifest.entries if entry.status != 2]
    rows = inventory.data_files.to_pylist()
    assert [inventory.partitions[row["partition"]].values for row in rows] == [entry.partition for entry in live]
    assert [row["encrypted"] for row in rows] == ["key_metadata" in entry.values for entry in live]
    assert [row["sort_order_id"] for row in rows] == [entry.values.get("sort_order_id") for entry in live]
    assert [row["row_groups"] for row in rows] == [len(entry.values.get("split_offsets", ())) or None for entry in live]
    assert len({(one.spec_id, repr(one.values)) for one in inventory.partitions}) == len(inventory.partitions)


def container_of(schema: dict[str, Any], blocks: list[tuple[int, bytes]]) -> bytes:
    """A container with a header in two chunks, one of them with a byte count, as the Avro specification allows."""
    sync = b"0123456789abcdef"
    text = encode_bytes(b"avro.schema") + encode_bytes(json.dumps(schema).encode())
    codec = encode_bytes(b"avro.codec") + encode_bytes(b"null")
    header = b"Obj\x01" + encode_long(-1) + encode_bytes(text)[: len(encode_long(len(text)))] + text
    header += encode_long(1) + codec + b"\x00" + sync
    return header + b"".join(encode_long(count) + encode_bytes(body) + sync for count, body in blocks)


def test_avro_features_of_other_writers_are_supported() -> None:
    """Unions with null last, types used again by name, real maps, and blocks that state their size in bytes."""
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "field-id": 1, "type": ["long", "null"]},
            {"name": "b", "field-id": 2, "type": {"type": "fixed", "name": "two", "size": 2}},
            {"name": "c", "field-id": 3, "type": ["null", "two"]},
            {"name": "d", "field-id": 4, "type": {"type": "map", "values": "double"}},
            {"name": "e", "field-id": 5, "type": {"type": "array", "items": "long"}},
            {"name": "f", "field-id": 6, "type": {"type": "array", "items": "string"}},
            {"name": "g", "field-id": 7, "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    sized = encode_long(-2) + encode_long(2) + encode_long(5) + encode_long(6) + b"\x00"
    entry = encode_long(1) + encode_bytes(b"key") + b"\x00" * 8 + b"\x00"
    words = encode_long(1) + encode_bytes(b"word") + b"\x00"
    record = b"\x00" + encode_long(-7) + b"xy" + b"\x02zz" + entry + sized + words + encode_long(3)
    other = b"\x02" + b"uv" + b"\x00" + b"\x00" + b"\x00" + b"\x00" + encode_long(4)
    file = AvroFile.parse(container_of(schema, [(1, record), (0, b""), (1, other)]))
    every = frozenset(range(1, 8))
    expected: list[dict[int, Any]] = [
        {1: -7, 2: b"xy", 3: b"zz", 4: {"key": 0.0}, 5: [5, 6], 6: ["word"], 7: 3},
        {1: None, 2: b"uv", 3: None, 4: {}, 5: [], 6: [], 7: 4},
    ]
    assert list(file.records()) == list(file.records(every)) == expected
    for field_id in every:
        assert list(file.records(frozenset({field_id}))) == [{field_id: values[field_id]} for values in expected]


@given(st.floats(width=64))
def test_doubles_are_read_to_the_last_bit(value: float) -> None:
    content = struct.pack("<d", value)
    assert struct.pack("<d", reader("double")(new_decoder(content))) == content
