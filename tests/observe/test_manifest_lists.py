"""Manifest lists that are read together say the same as each of them alone."""

from pathlib import Path

import pyarrow as pa
import pytest

from tidyberg.errors import DamagedFile, Unsupported
from tidyberg.observe import manifest_lists
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.manifest_lists import read_manifest_lists
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, Warehouse, forge_static_table


def forged(directory: Path, format_version: int, *, key_metadata: bytes | None = None) -> str:
    """Returns the location of a list of three manifests."""
    manifests = [
        ForgedManifest(
            [ForgedEntry(f"file:///{number}", content=number % 2)],
            content=number % 2 if format_version > 1 else 0,
            key_metadata=key_metadata if number == 1 else None,
        )
        for number in range(3)
    ]
    table = forge_static_table(directory, manifests, schema=SAMPLE_SCHEMA, format_version=format_version)
    return str(table.metadata.snapshots[0].manifest_list)


@pytest.mark.parametrize("bundle_bytes", [1, 8 * 1024 * 1024], ids=["one by one", "together"])
def test_lists_of_all_versions_that_share_manifests_are_read_as_each_alone(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, bundle_bytes: int
) -> None:
    monkeypatch.setattr(manifest_lists, "_BUNDLE_BYTES", bundle_bytes)
    directory = warehouse.directory / "forged"
    locations = [forged(directory / str(version), version) for version in (1, 2, 3)]
    rows = pa.table({"n": [1]})
    table = warehouse.create_table("db.t", rows.schema)
    for _ in range(20):
        table.append(rows)
    locations += [snapshot.manifest_list for snapshot in table.metadata.snapshots]
    alone = {info.path: info for location in locations for info in read_manifest_list(table.io, location)}
    assert len(alone) == 3 * 3 + 20
    assert read_manifest_lists(table.io, locations, lambda: None) == alone


@pytest.mark.parametrize("damage", ["cut off", "no Avro", "missing"])
def test_each_damaged_list_is_named_and_the_others_are_read(warehouse: Warehouse, damage: str) -> None:
    io = warehouse.catalog._load_file_io()
    locations = [forged(warehouse.directory / str(number), 2) for number in range(5)]
    for number in (1, 4):
        broken = Path(locations[number].removeprefix("file://"))
        match damage:
            case "cut off":
                broken.write_bytes(broken.read_bytes()[:-20])
            case "no Avro":
                broken.write_bytes(b"<html>")
            case _:
                broken.unlink()
    said: list[str] = []
    found = read_manifest_lists(io, locations, lambda: None, lambda error: said.append(error.message))
    assert [locations[1] in said[0], locations[4] in said[1], len(said)] == [True, True, 2]
    assert {Path(path).parent.name for path in found} == {"0", "2", "3"}
    with pytest.raises(DamagedFile, match=locations[1]):
        read_manifest_lists(io, locations, lambda: None)


def test_encrypted_manifests_are_refused(warehouse: Warehouse) -> None:
    io = warehouse.catalog._load_file_io()
    plain = forged(warehouse.directory / "plain", 2)
    with pytest.raises(Unsupported, match=r"manifest-00001\.avro is encrypted"):
        read_manifest_lists(io, [plain, forged(warehouse.directory / "keys", 2, key_metadata=b"k")], lambda: None)
    Path(plain.removeprefix("file://")).write_bytes(b"AGS1" + bytes(1000))
    with pytest.raises(Unsupported, match=r"manifest-list\.avro is encrypted"):
        read_manifest_lists(io, [plain], lambda: None)
