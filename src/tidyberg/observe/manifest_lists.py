"""Reads the manifest lists of many snapshots at once.

Neighbours share most of their manifests: a thousand lists can have a hundred thousand rows about a thousand manifests.
So rows are decoded with numpy, and each manifest becomes one Python object.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from tidyberg.avro.container import AvroError, blocks, decoding, open_container
from tidyberg.avro.values import column, is_null
from tidyberg.avro.walk import Fields, Wanted, walk
from tidyberg.errors import DamagedFile
from tidyberg.model.manifest import ManifestInfo
from tidyberg.observe.manifest_list import DATA, DELETES, read_manifest_list
from tidyberg.storage.table_files import read_bytes

_THREADS = 8
_READ_AHEAD = 64
_BUNDLE_BYTES = 8 * 1024 * 1024  # compressed, usually to a fifth
# By field id of the Iceberg specification. Version 1 has no content field and no sequence numbers.
_NUMBERS = {
    501: "length",
    502: "spec_id",
    517: "content",
    515: "sequence_number",
    503: "added_snapshot_id",
    520: "first_row_id",
}
_WANTED = Wanted(((500, "path"), (519, "key_metadata"), *_NUMBERS.items()))


def read_manifest_lists(
    io: FileIO, locations: Sequence[str], check: Callable[[], None], skip: Callable[[DamagedFile], None] | None = None
) -> dict[str, ManifestInfo]:
    """Returns the manifests on these lists, by path. `check` is called before each read, and ends it if it raises.

    `skip` is called about a damaged or missing list, which then adds nothing. Without it, that is an error.
    """
    found: dict[str, ManifestInfo] = {}

    def read(location: str) -> bytes:
        check()
        try:
            return read_bytes(io, location)
        except DamagedFile:
            return b""  # which cannot be decoded, and so is read once more

    for several in _bundles(locations, read):
        try:
            for info in _decode_together(list(several.values()), found):
                found[info.path] = info
        except AvroError:
            for location in several:
                found |= {info.path: info for info in _decode_alone(io, location, skip)}
    return found


def _bundles(locations: Sequence[str], read: Callable[[str], bytes]) -> Iterator[dict[str, bytes]]:
    """Yields lists to decode together: the more, the faster."""
    bundle: dict[str, bytes] = {}
    size = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lists") as pool:
        for start in range(0, len(locations), _READ_AHEAD):
            ahead = locations[start : start + _READ_AHEAD]
            for location, raw in zip(ahead, pool.map(read, ahead), strict=True):
                bundle[location] = raw
                size += len(raw)
                if size >= _BUNDLE_BYTES:
                    yield bundle
                    bundle, size = {}, 0
    if bundle:
        yield bundle


def _decode_alone(io: FileIO, location: str, skip: Callable[[DamagedFile], None] | None) -> list[ManifestInfo]:
    """Names the list in its error."""
    try:
        return read_manifest_list(io, location)
    except DamagedFile as error:
        if skip is None:
            raise
        skip(error)
        return []


def _decode_together(lists: Sequence[bytes], known: Collection[str]) -> Iterator[ManifestInfo]:
    """Yields each manifest once, without the known ones. Raises AvroError if a list is damaged or encrypted."""
    with decoding():
        by_schema: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        last = None
        for raw in lists:
            last = open_container(raw, last)
            by_schema[last.schema_text] += blocks(last)
        tables = [_rows(_distinct(walk(schema, _WANTED, held))) for schema, held in by_schema.items()]
    for table in tables:
        for row in table:
            if row["path"] not in known:
                content, sequence_number = row.pop("content") or DATA, row.pop("sequence_number") or 0
                yield ManifestInfo(**row, holds_deletes=content == DELETES, sequence_number=sequence_number)


def _distinct(fields: Fields) -> Fields:
    """Returns one row for each path. Comparing bytes is several times faster than making strings of all of them."""
    lengths, starts = fields.buffer.read_length(fields.positions["path"])
    content = fields.buffer.bytes.tobytes()
    ends = (starts + lengths).tolist()
    first = {content[start:end]: row for row, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True))}
    rows = np.fromiter(first.values(), np.int64, len(first))
    return Fields(fields.buffer, len(rows), {name: at[rows] for name, at in fields.positions.items()}, fields.kinds)


def _rows(fields: Fields) -> list[dict[str, Any]]:
    if pc.any(pc.invert(is_null(fields, "key_metadata"))).as_py():
        raise AvroError("a manifest is encrypted")
    values = [column(fields, name, pa.int64()) for name in _NUMBERS.values()]
    table = pa.table([column(fields, "path", pa.string()), *values], ["path", *_NUMBERS.values()])
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
