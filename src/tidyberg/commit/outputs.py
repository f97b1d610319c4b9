"""Looks up the files of a job in storage, before they are committed and when they are cleaned up."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from tidyberg.commit.ownership import Ownership
from tidyberg.errors import AccessDenied, DamagedFile, StorageError, TidybergError
from tidyberg.model.job import Intent
from tidyberg.model.task import OUTPUT_NAME, SCRATCH_NAME, TaskResult, WrittenFile, output_prefix
from tidyberg.storage import table_files as objects

LOOKUPS = 16  # at a time
_RETRYING = Retrying(
    retry=retry_if_exception_type(OSError) & retry_if_not_exception_type((FileNotFoundError, PermissionError)),
    stop=stop_after_attempt(3),
    wait=wait_chain(wait_fixed(0.1), wait_fixed(0.4)),
    reraise=True,
)


def check_outputs(io: FileIO, results: Sequence[TaskResult]) -> None:
    """Checks that every output exists and has the size that its writer reported."""
    files = [file for result in results for file in result.outputs]
    with ThreadPoolExecutor(max_workers=LOOKUPS) as pool:
        list(pool.map(lambda file: _check_output(io, file), files))


def _check_output(io: FileIO, file: WrittenFile) -> None:
    try:
        size = _size(io, file.path)
    except FileNotFoundError as error:
        raise DamagedFile(
            f"{file.path} vanished before it was committed.",
            hint="Another tool may have removed it as an orphan file; raise the minimum age in that tool.",
        ) from error
    if size != file.size:
        raise DamagedFile(f"{file.path} has {size} bytes where its writer reported {file.size}.")


def _size(io: FileIO, path: str) -> int:
    """Returns the size of a file. Retries, because the work of a whole job depends on the answer."""
    try:
        return _RETRYING(objects.size_of, io, path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _no_answer(path, error) from error


def existing_outputs(
    io: FileIO, intent: Intent, ownership: Ownership, check: Callable[[], None] = lambda: None
) -> list[str]:
    """Returns the outputs and the files of joins that exist, including outputs adopted from a dead job.

    Lists each directory once, whatever the number of attempts and files, and only directories of the table. `check` is
    called before each listing, and stops the search if it raises.
    """
    groups = intent.groups
    adopted = sorted(path for paths in intent.adopted.values() for path in paths if ownership.owns(path, (path,)))
    written_to = (*intent.directories.values(), *intent.joins.values())
    directories = sorted({directory for directory in written_to if ownership.holds(directory)})

    def listed(directory: str) -> list[str]:
        check()
        paths = _outputs_in(io, directory, ownership.run_id)
        return [path for path in paths if group_of(path) in groups or join_of(path) in intent.joins]

    def there(path: str) -> list[str]:
        check()
        return [path] if exists(io, path) else []

    with ThreadPoolExecutor(max_workers=LOOKUPS) as pool:
        found = [*pool.map(there, adopted), *pool.map(listed, directories)]
    return list(dict.fromkeys(path for paths in found for path in paths))


def _outputs_in(io: FileIO, directory: str, run_id: str) -> list[str]:
    try:
        return [file.location for file in objects.files_in(io, directory, output_prefix(run_id))]
    except OSError as error:
        raise _no_answer(directory, error) from error


def group_of(path: str) -> int | None:
    name = OUTPUT_NAME.fullmatch(path.rpartition("/")[2])
    return int(name["group"]) if name else None


def join_of(path: str) -> int | None:
    name = SCRATCH_NAME.fullmatch(path.rpartition("/")[2])
    return int(name["join"]) if name else None


def exists(io: FileIO, path: str) -> bool:
    try:
        return objects.exists(io, path)
    except OSError as error:
        raise _no_answer(path, error) from error


def _no_answer(path: str, error: OSError) -> TidybergError:
    if isinstance(error, PermissionError):
        return AccessDenied(f"Cannot look up {path}: {error}.", hint="Check the permissions on that location.")
    return StorageError(f"Cannot look up {path}: {error}.", hint="Check the storage and the network, then try again.")
