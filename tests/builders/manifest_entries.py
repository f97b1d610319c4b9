"""The live entries of a branch with every field, read without the code that rewrites manifests."""

from collections.abc import Iterable
from typing import Any

from pyiceberg.table import Table

from tidyberg.avro.records import AvroFile
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests
from tidyberg.storage.table_files import read_bytes

_DELETED, _ADDED = 2, 1
_DEPRECATED = (105, 106, 107, 111)


def listed(table: Table, branch: str = "main") -> list[ListedManifest]:
    head = table.refresh().metadata.snapshot_by_name(branch)
    return read_listed_manifests(table.io, head.manifest_list) if head is not None else []


def raw_entries(table: Table, manifest: ListedManifest) -> list[dict[int, Any]]:
    """All entries of a manifest by field id, as they are in the file."""
    return list(AvroFile.parse(read_bytes(table.io, manifest.path)).records())


def live_entries_of(table: Table, branch: str = "main", *, row_ids: bool = True) -> list[str]:
    """Every live entry with all its fields and its inherited values, without its status and its manifest."""
    return sorted(
        text for manifest in listed(table, branch) for text in _live(manifest, raw_entries(table, manifest), row_ids)
    )


def _live(manifest: ListedManifest, entries: Iterable[dict[int, Any]], row_ids: bool) -> Iterable[str]:
    next_row_id = manifest.first_row_id if manifest.content == 0 else None
    for entry in entries:
        if entry[0] == _DELETED:
            continue
        file = {number: value for number, value in entry[2].items() if number not in _DEPRECATED}
        own = file.pop(142, None)
        first_row_id = None
        if next_row_id is not None:
            first_row_id = own
            if own is None:
                first_row_id, next_row_id = next_row_id, next_row_id + file[103]
        inherits = entry[0] == _ADDED or manifest.sequence_number == 0
        numbers = [manifest.sequence_number if entry.get(n) is None and inherits else entry.get(n) for n in (3, 4)]
        file.setdefault(134, 0)
        known = sorted((number, repr(_sorted(value))) for number, value in file.items() if value not in (None, []))
        yield repr(
            (
                manifest.spec_id,
                manifest.content,
                manifest.added_snapshot_id if entry[1] is None else entry[1],
                numbers,
                first_row_id if row_ids else None,
                known,
            )
        )


def _sorted(value: Any) -> Any:
    """Maps are lists of pairs. Java writes them in another order."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(value, key=lambda pair: next(iter(pair.values())))
    return value
