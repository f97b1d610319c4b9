"""The files a job wrote, looked up in storage: before they are committed, and to find what was left behind."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from pyiceberg.io import FileIO

from tidyberg.commit import objects
from tidyberg.errors import AccessDenied, DamagedFile, StorageError, TidybergError
from tidyberg.model.job import Intent
from tidyberg.model.task import TaskResult, WrittenFile, output_name

LOOKUPS = 16  # at a time
SPARE_OUTPUTS = 2  # a writer may roll once or twice more often than planned when data compress worse than before


def check_outputs(io: FileIO, results: Sequence[TaskResult]) -> None:
    """Before any commit every output is looked up: it exists and has the size its writer reported."""
    files = [file for result in results for file in result.outputs]
    with ThreadPoolExecutor(max_workers=LOOKUPS) as pool:
        list(pool.map(lambda file: _check_output(io, file), files))


def _check_output(io: FileIO, file: WrittenFile) -> None:
    try:
        size = _size(io, file.path)
    except FileNotFoundError as error:
        raise DamagedFile(
            f"{file.path} vanished before it was committed.",
            hint="Another tool may remove files it takes for orphans; raise its minimum age.",
        ) from error
    if size != file.size:
        raise DamagedFile(f"{file.path} has {size} bytes where its writer reported {file.size}.")


def _size(io: FileIO, path: str) -> int:
    """Asked again when storage did not answer: a whole job's work hangs on it."""
    for wait in (0.1, 0.4, None):
        try:
            return objects.size_of(io, path)
        except FileNotFoundError:
            raise
        except OSError as error:
            if wait is None or isinstance(error, PermissionError):
                raise _no_answer(path, error) from error
            time.sleep(wait)
    raise AssertionError("the last round returns or raises")


def existing_outputs(io: FileIO, intent: Intent) -> list[str]:
    """The outputs that are really there, those taken over from a dead job among them."""
    with ThreadPoolExecutor(max_workers=LOOKUPS) as pool:
        found = pool.map(lambda group_id: _existing_of(io, intent, group_id), sorted(intent.groups))
        return [path for paths in found for path in paths]


def _existing_of(io: FileIO, intent: Intent, group_id: int) -> list[str]:
    found = [path for path in intent.adopted.get(group_id, ()) if exists(io, path)]
    if group_id not in intent.directories:
        return found
    parts = intent.parts.get(group_id)
    promised = -(-intent.outputs[group_id] // (parts or 1))
    for part, attempt in product((None,) if parts is None else range(parts), range(intent.attempts)):
        number = 0
        while True:
            name = output_name(intent.job_id, group_id, attempt, number, part)
            path = f"{intent.directories[group_id]}/{name}"
            if exists(io, path):
                found.append(path)
            elif number >= promised + SPARE_OUTPUTS:
                break
            number += 1
    return found


def exists(io: FileIO, path: str) -> bool:
    try:
        return objects.exists(io, path)
    except OSError as error:
        raise _no_answer(path, error) from error


def _no_answer(path: str, error: OSError) -> TidybergError:
    if isinstance(error, PermissionError):
        return AccessDenied(f"Cannot look up {path}: {error}.", hint="Check the rights on that location.")
    return StorageError(f"Cannot look up {path}: {error}.", hint="Check the storage and the network, then try again.")
