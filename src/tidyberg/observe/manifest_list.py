"""A snapshot's manifest list, in any format version."""

from pyiceberg.io import FileIO

from tidyberg.model.inventory import ManifestInfo
from tidyberg.observe.avro import AvroError, open_container, read_columns
from tidyberg.observe.storage import damaged, read_bytes

# Field ids of the manifest list, from the Iceberg specification.
_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _MIN_SEQUENCE, _SNAPSHOT, _FIRST_ROW = (
    500, 501, 502, 517, 515, 516, 503, 520,
)  # fmt: skip
_WANTED = frozenset({_PATH, _LENGTH, _SPEC_ID, _CONTENT, _SEQUENCE, _MIN_SEQUENCE, _SNAPSHOT, _FIRST_ROW})
# Version 1 has no content and no sequence numbers: data files, written before numbers were counted.
_DEFAULTS = {_CONTENT: 0, _SEQUENCE: 0, _MIN_SEQUENCE: 0}


def read_manifest_list(io: FileIO, location: str) -> list[ManifestInfo]:
    raw = read_bytes(io, location)
    manifests = []
    try:
        for rows, columns in read_columns(open_container(raw), _WANTED):
            for row in range(rows):
                value = _DEFAULTS | {field_id: values[row] for field_id, values in columns.items()}
                manifests.append(
                    ManifestInfo(
                        path=value[_PATH],
                        length=value[_LENGTH],
                        spec_id=value[_SPEC_ID],
                        holds_deletes=value[_CONTENT] == 1,
                        sequence_number=value[_SEQUENCE],
                        min_sequence_number=value[_MIN_SEQUENCE],
                        added_snapshot_id=value[_SNAPSHOT],
                        first_row_id=value.get(_FIRST_ROW),
                    )
                )
    except (AvroError, KeyError) as error:
        raise damaged(location, f"as a manifest list, {error}") from error
    return manifests
