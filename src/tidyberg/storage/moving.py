"""Moves files inside one storage: by a copy in the store on S3, by renaming elsewhere."""

import http.client
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from tidyberg.failures import KernelFailure
from tidyberg.storage.access import TableIO, storage_access
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.store import CannotCopyParts, S3Object, S3Store

MOVE_THREADS = 8
_AT_A_TIME = 256
MOST_BYTES_IN_ONE_COPY = 5 * 1024**3  # S3 copies no more with one request
_PART_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class FileMove:
    source: str
    target: str
    size: int


def move_many(io: TableIO, moves: Sequence[FileMove], check: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Moves files. Returns what storage said about each source that it did not move.

    The target is complete before the source is deleted. `check` is called before each batch, and stops if it raises.
    """
    storage = Storage(storage_access(io))
    refused: dict[str, str] = {}

    def move(one: FileMove) -> tuple[str, str] | None:
        try:
            _move(storage, one)
        except KernelFailure as failure:
            return one.source, failure.message
        except (OSError, http.client.HTTPException) as error:
            return one.source, str(error) or type(error).__name__
        except CannotCopyParts:
            return one.source, "the store does not copy objects"
        return None

    with ThreadPoolExecutor(MOVE_THREADS, thread_name_prefix="moving") as pool:
        for several in _batches(moves):
            check()
            refused |= dict(filter(None, pool.map(move, several)))
    return refused


def _batches(moves: Sequence[FileMove]) -> Iterator[list[FileMove]]:
    rest = iter(moves)
    while several := list(islice(rest, _AT_A_TIME)):
        yield several


def _move(storage: Storage, move: FileMove) -> None:
    source, target = storage.place(move.source), storage.place(move.target)
    if source.object is not None and target.object is not None and storage.s3 is not None:
        with storage.guard(move.source, writing=True):
            _copy(storage.s3, source.object, target.object, move.size)
            storage.s3.delete(source.object)
        return
    with storage.guard(move.source, writing=True):
        if source.is_local:
            target.filesystem.create_dir(target.path.rpartition("/")[0], recursive=True)
        source.filesystem.move(source.path, target.path)


def _copy(store: S3Store, source: S3Object, target: S3Object, size: int) -> None:
    if size <= MOST_BYTES_IN_ONE_COPY:
        store.copy(source, target)
        return
    upload = store.begin(target)
    try:
        starts = range(0, size, _PART_BYTES)
        etags = [
            store.copy_part(upload, number, source, start, min(start + _PART_BYTES, size) - 1)
            for number, start in enumerate(starts, start=1)
        ]
        store.complete(upload, etags, size)
    except BaseException:
        store.abort(upload)
        raise
