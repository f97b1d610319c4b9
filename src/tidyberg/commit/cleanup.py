"""Removes files that a job wrote and that no snapshot references. Deletes a file only with proof of that [I6]."""

import re
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.commit.manifests import read_manifest
from tidyberg.commit.ownership import Ownership, name_of
from tidyberg.model.job import Intent
from tidyberg.model.task import output_prefix
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests
from tidyberg.storage.table_files import abort_uploads, delete

AT_A_TIME = 16
# The names of tidyberg's manifests, manifest lists and metadata files. No manifest lists such a file. The ending alone
# would not do, because data files may be in Avro too. A name of any other form is looked up in the manifests.
_METADATA_NAME = re.compile(r".+-c\d+-m\d+\.avro|snap-\d+-\d+-.+\.avro|.+\.metadata\.json(?:\.gz)?")


def _never() -> None:
    return None


@dataclass(frozen=True)
class Removal:
    removed: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]  # path and the storage's answer; recorded, not fatal
    foreign: tuple[str, ...] = ()  # files that are not the job's, although its record names them; they are kept


def referenced_paths(
    table: Table, candidates: Collection[str], written_after: int | None, check: Callable[[], None] = _never
) -> set[str]:
    """Returns the candidates that some snapshot references. The table must be freshly loaded.

    Manifests of the plan's snapshot and older (by sequence number) cannot list what was written after it. A
    caller that knows this number only from a record passes None. Then all manifests are read, as in v1 tables, which
    have no such numbers.

    Files are compared by name, which is unique: one location has several spellings (`s3://`, `s3a://`, `file:/`).
    """
    wanted = {name_of(path) for path in candidates}
    if not wanted:
        return set()
    metadata = table.metadata
    names = {name_of(path) for path in (table.metadata_location, *(log.metadata_file for log in metadata.metadata_log))}
    names |= {name_of(snapshot.manifest_list) for snapshot in metadata.snapshots}
    manifests: dict[str, ListedManifest] = {}

    def listed(path: str) -> list[ListedManifest]:
        check()
        return read_listed_manifests(table.io, path)

    def entries(manifest: ListedManifest) -> set[str]:
        check()
        return wanted & {name_of(entry.path) for entry in read_manifest(table.io, manifest).entries}

    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        for several in pool.map(listed, [snapshot.manifest_list for snapshot in metadata.snapshots]):
            manifests.update((manifest.path, manifest) for manifest in several)
        names |= {name_of(path) for path in manifests}
        if all(_METADATA_NAME.fullmatch(name) for name in wanted):
            return {path for path in candidates if name_of(path) in names}  # manifests list no metadata files
        relevant = [
            manifest
            for manifest in manifests.values()
            if written_after is None
            or manifest.sequence_number > written_after
            or metadata.format_version == 1
            or manifest.sequence_number == 0
        ]
        for several_names in pool.map(entries, relevant):
            names |= several_names
    return {path for path in candidates if name_of(path) in names}


def remove(
    io: FileIO,
    paths: Collection[str],
    intent: Intent,
    ownership: Ownership,
    *,
    check: Callable[[], None] = _never,
    progress: Callable[[int], None] = lambda _: None,
) -> Removal:
    """Removes these files, and uploads that killed workers had begun.

    `check` is called before each file, and stops the removal if it raises. `progress` gets the number of files so far.
    """
    adopted = frozenset(path for several in intent.adopted.values() for path in several)
    own = [path for path in sorted(paths) if ownership.owns(path, adopted)]
    foreign = sorted(set(paths) - set(own))
    written_to = (*intent.directories.values(), *intent.joins.values())
    directories = [directory for directory in written_to if ownership.holds(directory)]
    removed, refused = [], []
    check()
    try:
        abort_uploads(io, (f"{directory}/{output_prefix(ownership.run_id)}" for directory in directories))
    except OSError as error:
        refused.append((directories[0], str(error)))

    def deleted(path: str) -> OSError | bool:
        check()
        try:
            delete(io, path)
        except FileNotFoundError:
            return False
        except OSError as error:
            return error
        return True

    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        for number, (path, answer) in enumerate(zip(own, pool.map(deleted, own), strict=True), start=1):
            if isinstance(answer, OSError):
                refused.append((path, str(answer)))
            elif answer:
                removed.append(path)
            progress(number)
    return Removal(tuple(removed), tuple(refused), tuple(foreign))
