"""Files that are not what the table says they are: the error names the file and what to do."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import StaticTable

from tests.builders.inventories import SCHEMA, inventory_of
from tidyberg.avro.container import AvroError
from tidyberg.errors import AccessDenied, DamagedFile, StorageError, Unsupported
from tidyberg.manifests.entries import ManifestEntries, read_entries
from tidyberg.storage.table_files import read_bytes
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table
from tidyberg.testing.avro import encode_long


@pytest.fixture
def table(tmp_path: Path) -> StaticTable:
    return forge_static_table(tmp_path, [ForgedManifest([ForgedEntry(f"f{n}") for n in range(50)])], schema=SCHEMA)


@pytest.mark.parametrize("name", ["manifest-list.avro", "manifest-00000.avro"])
def test_a_missing_file_is_named(tmp_path: Path, table: StaticTable, name: str) -> None:
    (tmp_path / name).unlink()
    with pytest.raises(DamagedFile, match=rf"{name} does not exist.*roll back"):
        inventory_of(table)


@pytest.mark.parametrize("name", ["manifest-list.avro", "manifest-00000.avro"])
def test_a_truncated_file_is_named(tmp_path: Path, table: StaticTable, name: str) -> None:
    raw = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(raw[:-20])
    with pytest.raises(DamagedFile, match=rf"{name} is damaged"):
        inventory_of(table)


@pytest.mark.parametrize("name", ["manifest-list.avro", "manifest-00000.avro"])
def test_a_file_that_is_no_avro_is_named(tmp_path: Path, table: StaticTable, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>" * 1000)
    with pytest.raises(DamagedFile, match=rf"{name} is damaged.*does not begin like an Avro file"):
        inventory_of(table)


def test_an_encrypted_manifest_list_is_not_reported_as_damage(tmp_path: Path, table: StaticTable) -> None:
    (tmp_path / "manifest-list.avro").write_bytes(b"AGS1" + bytes(1000))
    with pytest.raises(Unsupported, match=r"manifest-list.avro is encrypted"):
        inventory_of(table)


def test_an_encrypted_manifest_is_not_reported_as_damage(tmp_path: Path) -> None:
    manifest = ForgedManifest([ForgedEntry("f")], key_metadata=b"key")
    with pytest.raises(Unsupported, match=r"manifest-00000.avro is encrypted"):
        inventory_of(forge_static_table(tmp_path, [manifest], schema=SCHEMA))


def test_an_unknown_partition_spec_is_damage(tmp_path: Path) -> None:
    table = forge_static_table(tmp_path, [ForgedManifest([ForgedEntry("f")], spec_id=9)], schema=SCHEMA)
    with pytest.raises(DamagedFile, match="no partition spec 9"):
        inventory_of(table)


def test_an_existing_entry_without_a_sequence_number_is_damage(tmp_path: Path) -> None:
    table = forge_static_table(tmp_path, [ForgedManifest([ForgedEntry("f", status=0)])], schema=SCHEMA)
    with pytest.raises(DamagedFile, match=r"manifest-00000.avro is damaged: f has no sequence number"):
        inventory_of(table)


@given(st.data())
def test_a_manifest_cut_anywhere_is_refused(data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(_WHOLE) - 1).filter(lambda at: at not in _BLOCK_ENDS))
    with pytest.raises(AvroError):
        _entries(_WHOLE[:cut])


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_overwritten_bytes_are_refused_or_harmless_but_never_another_error(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(_WHOLE)
    for at, byte in changes:
        raw[at % len(raw)] = byte
    with contextlib.suppress(AvroError):
        assert _entries(bytes(raw)).table.num_rows <= 50


def test_a_block_that_claims_too_many_records_is_refused() -> None:
    header = _WHOLE.index(_SYNC) + len(_SYNC)
    (claimed,) = encode_long(50)
    assert _WHOLE[header] == claimed
    with pytest.raises(AvroError, match="claims 99999999 records"):
        _entries(_WHOLE[:header] + encode_long(99999999) + _WHOLE[header + 1 :])


def _entries(raw: bytes) -> ManifestEntries:
    ((_, entries),) = read_entries([("m.avro", raw, False)])
    return entries


def _manifest() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        entries = [ForgedEntry(f"f{n}") for n in range(50)]
        forge_static_table(Path(directory), [ForgedManifest(entries)], schema=SCHEMA)
        return (Path(directory) / "manifest-00000.avro").read_bytes()


_SYNC = b"tidyberg-testing"
_WHOLE = _manifest()
# Cut exactly behind the header or a block, a container is whole; then only the length in the list can tell.
_BLOCK_ENDS = {at + len(_SYNC) for at in range(len(_WHOLE)) if _WHOLE.startswith(_SYNC, at)}


class RefusingIO(FileIO):
    """Storage whose every read fails in one way."""

    def __init__(self, error: OSError) -> None:
        super().__init__({})
        self._error = error

    def new_input(self, location: str) -> InputFile:
        raise self._error

    def new_output(self, location: str) -> OutputFile:
        raise AssertionError("observe never writes")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise AssertionError("observe never deletes")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError("Permission denied"), AccessDenied),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."), AccessDenied),
        (OSError("AWS Error NETWORK_CONNECTION during GetObject operation"), StorageError),
        (FileNotFoundError("gone"), DamagedFile),
    ],
)
def test_errors_of_storage_give_the_reason(error: OSError, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"s3://bucket/m.avro"):
        read_bytes(RefusingIO(error), "s3://bucket/m.avro")
