"""Reads the manifest list of a snapshot, in any format version: the fields that observing needs, or all of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO

from tidyberg.avro.container import AvroError, decoding
from tidyberg.avro.records import AvroFile
from tidyberg.errors import Unsupported
from tidyberg.model.manifest import ManifestInfo
from tidyberg.storage.table_files import damaged, read_bytes

# Field ids of the manifest list, from the Iceberg specification.
_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _SNAPSHOT, _KEY, _FIRST_ROW = 500, 501, 502, 517, 515, 503, 519, 520
_WANTED = frozenset({_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _SNAPSHOT, _KEY, _FIRST_ROW})
_ENCRYPTED = b"AGS1"  # how Iceberg's encrypted streams begin
# Version 1 has no content field and no sequence numbers: its manifests hold data files with sequence number 0.
_DEFAULTS = {_CONTENT: 0, _SEQUENCE: 0}

DATA = 0  # the content of a manifest of data files
DELETES = 1  # the content of a manifest of delete files and deletion vectors


@dataclass(frozen=True)
class ListedManifest:
    """One row of a manifest list with all its fields, by field id."""

    fields: Mapping[int, Any]

    @property
    def path(self) -> str:
        return str(self.fields[500])

    @property
    def length(self) -> int:
        return int(self.fields[501])

    @property
    def spec_id(self) -> int:
        return int(self.fields[502])

    @property
    def content(self) -> int:
        return int(self.fields.get(517) or DATA)

    @property
    def sequence_number(self) -> int:
        return int(self.fields.get(515) or 0)

    @property
    def added_snapshot_id(self) -> int:
        return int(self.fields[503])

    @property
    def first_row_id(self) -> int | None:
        found: int | None = self.fields.get(520)
        return found

    @property
    def may_have_live_files(self) -> bool:
        """False if all its entries are deleted. Lists of version 1 may lack the counts."""
        return self.fields.get(504) != 0 or self.fields.get(505) != 0


def read_manifest_list(io: FileIO, location: str) -> list[ManifestInfo]:
    """Decodes only the fields that observing needs."""
    with _reading(io, location) as raw:
        return [_info(_DEFAULTS | record) for record in AvroFile.parse(raw).records(_WANTED)]


def read_listed_manifests(io: FileIO, location: str) -> list[ListedManifest]:
    """Decodes every field, for a commit that copies rows of the list into its own."""
    with _reading(io, location) as raw:
        return [ListedManifest(record) for record in AvroFile.parse(raw).records()]


@contextmanager
def _reading(io: FileIO, location: str) -> Iterator[bytes]:
    raw = read_bytes(io, location)
    if raw.startswith(_ENCRYPTED):
        raise _encrypted(location)
    try:
        with decoding():
            yield raw
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
        added_snapshot_id=values[_SNAPSHOT],
        first_row_id=values.get(_FIRST_ROW),
    )


def _encrypted(location: str) -> Unsupported:
    return Unsupported(f"{location} is encrypted: encrypted tables are not supported.")
