"""A snapshot's manifest list, in any format version."""

from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO

from tidyberg.avro.container import AvroError, decoding
from tidyberg.avro.records import AvroFile
from tidyberg.errors import Unsupported
from tidyberg.model.manifest import ManifestInfo
from tidyberg.storage.table_files import damaged, read_bytes

# Field ids of the manifest list, from the Iceberg specification.
_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _MIN_SEQUENCE, _SNAPSHOT, _KEY, _FIRST_ROW = (
    500, 501, 502, 517, 515, 516, 503, 519, 520,
)  # fmt: skip
_WANTED = frozenset({_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _MIN_SEQUENCE, _SNAPSHOT, _KEY, _FIRST_ROW})
_ENCRYPTED = b"AGS1"  # how Iceberg's encrypted streams begin
# Version 1 has no content and no sequence numbers: data files, written before numbers were counted.
_DEFAULTS = {_CONTENT: 0, _SEQUENCE: 0, _MIN_SEQUENCE: 0}


def read_manifest_list(io: FileIO, location: str) -> list[ManifestInfo]:
    raw = read_bytes(io, location)
    if raw.startswith(_ENCRYPTED):
        raise _encrypted(location)
    try:
        with decoding():
            return [_info(_DEFAULTS | record) for record in AvroFile.parse(raw).records(_WANTED)]
    except AvroError as error:
        raise damaged(location, f"as a manifest list, {error}") from error


def _info(values: Mapping[int, Any]) -> ManifestInfo:
    if values.get(_KEY) is not None:
        raise _encrypted(values[_PATH])
    return ManifestInfo(
        path=values[_PATH],
        length=values[_LENGTH],
        spec_id=values[_SPEC_ID],
        holds_deletes=values[_CONTENT] == 1,
        sequence_number=values[_SEQUENCE],
        min_sequence_number=values[_MIN_SEQUENCE],
        added_snapshot_id=values[_SNAPSHOT],
        first_row_id=values.get(_FIRST_ROW),
    )


def _encrypted(location: str) -> Unsupported:
    return Unsupported(f"{location} is encrypted: encrypted tables are not supported.")
