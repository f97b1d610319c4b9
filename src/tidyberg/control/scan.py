"""Finds outputs of tidyberg in a table's data locations that no snapshot references and no open run owns.

If the job store was lost, no recovery knows the runs that had begun to write. This scan finds their outputs by name. It
looks for nothing else, and removes nothing that is young, referenced or owned [I6].
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.table import Table

from tidyberg.commit.cleanup import referenced_paths
from tidyberg.commit.ownership import CUSTOM_PROVIDER, Ownership, name_of
from tidyberg.errors import AccessDenied, BadInput, StorageError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.task import OUTPUT_NAME, SCRATCH_NAME
from tidyberg.record.store import JobStore
from tidyberg.storage import table_files as objects
from tidyberg.storage.file_io import Listed

PREFIX = "tidyberg-"
HOUR_MS = 3_600_000
LEAST_AGE_HOURS = 24.0
_MOST_OPEN_RUNS = 10_000
_DIRECTORY = re.compile(r"[^/]+=[^/]*|[01]+")


@dataclass(frozen=True)
class Stray:
    """An output that no snapshot of its table references and no open run claims."""

    path: str
    size: int
    age_ms: int
    run_id: str


@dataclass(frozen=True)
class Scan:
    strays: tuple[Stray, ...]
    claimed: int  # outputs of open runs, which commit them, or recovery removes them
    removed: tuple[str, ...] = ()
    kept: int = 0  # too young to be removed


@dataclass(frozen=True)
class Scanner:
    store: JobStore
    now_ms: Callable[[], int]
    cancel: CancelToken

    def scan(self, table: Table) -> Scan:
        """Changes nothing. Lists files before it reads claims and references, so that no new output is a stray."""
        named = self._listed(table)
        claims = self._claims()
        claimed = {file.location for file in named if _run_of(file.location) in claims or file.location in claims}
        fresh = table.refresh()
        paths = [file.location for file in named if file.location not in claimed]
        referenced = referenced_paths(fresh, paths, None, self.cancel.raise_if_cancelled)
        now = self.now_ms()
        strays = [
            Stray(file.location, file.size, _age(file, now), _run_of(file.location))
            for file in named
            if file.location not in claimed and file.location not in referenced
        ]
        return Scan(tuple(sorted(strays, key=lambda stray: stray.path)), len(claimed))

    def remove(self, table: Table, min_age_hours: float) -> Scan:
        """Removes old strays. It scans again, because the result of an earlier scan may be out of date."""
        if min_age_hours < LEAST_AGE_HOURS:
            raise BadInput(
                f"Files younger than {LEAST_AGE_HOURS:g} hours are not removed: a run that the store forgot may live.",
                hint=f"Give at least {LEAST_AGE_HOURS:g}.",
            )
        found = self.scan(table)
        old = [stray for stray in found.strays if stray.age_ms >= min_age_hours * HOUR_MS]
        for stray in old:
            self.cancel.raise_if_cancelled()
            try:
                objects.delete(table.io, stray.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageError(f"Cannot remove {stray.path}: {error}.", hint="Try again.") from error
        return Scan(found.strays, found.claimed, tuple(stray.path for stray in old), len(found.strays) - len(old))

    def _listed(self, table: Table) -> list[Listed]:
        found: list[Listed] = []
        if CUSTOM_PROVIDER in table.metadata.properties:
            raise BadInput(f"{CUSTOM_PROVIDER} is set: where the table's files may lie is not known.")
        for root in Ownership.of(table, "").data_roots:
            try:
                for file in objects.files_in(table.io, root, PREFIX, recursive=True):
                    self.cancel.raise_if_cancelled()
                    if _is_ours(file.location[len(root) + 1 :]):
                        found.append(file)
            except PermissionError as error:
                raise AccessDenied(f"Cannot list {root}: {error}.", hint="Check the permissions on it.") from error
            except OSError as error:
                raise StorageError(
                    f"Cannot list {root}: {error}.", hint="Check the storage, then try again."
                ) from error
        return list({file.location: file for file in found}.values())

    def _claims(self) -> frozenset[str]:
        """Ids of open runs of all tables, and outputs that these runs adopted from others."""
        runs = self.store.find(unfinished=True, limit=_MOST_OPEN_RUNS)
        adopted = {
            path for run in runs if run.intent is not None for paths in run.intent.adopted.values() for path in paths
        }
        return frozenset({run.job_id for run in runs} | adopted)


def _is_ours(below: str) -> bool:
    """Returns True if the file has the name of an output and lies in a directory of partitions or hashes.

    Another table may lie below this table's location, with its own outputs.
    """
    *directories, name = below.split("/")
    is_named = OUTPUT_NAME.fullmatch(name) is not None or SCRATCH_NAME.fullmatch(name) is not None
    return is_named and all(map(_DIRECTORY.fullmatch, directories))


def _age(file: Listed, now_ms: int) -> int:
    """A file without a modification time counts as new."""
    return max(0, now_ms - file.modified_ms) if file.modified_ms > 0 else 0


def _run_of(path: str) -> str:
    name = OUTPUT_NAME.fullmatch(name_of(path)) or SCRATCH_NAME.fullmatch(name_of(path))
    assert name is not None, "only names of outputs are asked about"
    return name["run"]
