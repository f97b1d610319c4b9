"""Removes what a job wrote and no snapshot references. Deletes nothing that it cannot prove to be unreferenced [I6]."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.commit.manifests import read_manifest, read_manifest_list
from tidyberg.commit.objects import abort_uploads, delete
from tidyberg.model.job import Intent


@dataclass(frozen=True)
class Removal:
    removed: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]  # path and the storage's answer; recorded, not fatal


def referenced_paths(table: Table, candidates: set[str], written_after: int) -> set[str]:
    """Those of the candidates that some snapshot of a freshly loaded table references.

    Manifests of the plan's snapshot and older (by sequence number) cannot list what was written after it; v1 tables
    have no sequence numbers, so all their manifests are read.
    """
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)} & candidates
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        found |= {snapshot.manifest_list} & candidates
        for manifest in read_manifest_list(table.io, snapshot.manifest_list):
            if manifest.path in seen:
                continue
            seen.add(manifest.path)
            found |= {manifest.path} & candidates
            if (
                manifest.sequence_number > written_after
                or metadata.format_version == 1
                or manifest.sequence_number == 0
            ):
                found |= {entry.path for entry in read_manifest(table.io, manifest).entries} & candidates
    return found


def remove(io: FileIO, paths: Iterable[str], intent: Intent) -> Removal:
    """Remove these files, and what the intent's workers had begun to upload when they were killed."""
    removed, refused = [], []
    try:
        abort_uploads(io, intent.job_id, intent.directories.values())
    except OSError as error:
        refused.append((next(iter(intent.directories.values())), str(error)))
    for path in paths:
        try:
            delete(io, path)
            removed.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append((path, str(error)))
    return Removal(tuple(removed), tuple(refused))
