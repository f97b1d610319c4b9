"""Reads the manifests and lists the files of huge tables in tasks of the engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from tidyberg.control.remote_manifests import reading_on
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.manifests.arrow_ipc import unpack_table
from tidyberg.model.task import ListResult, ListTask
from tidyberg.observe.engine_reads import REACHABLE_COLUMNS, EngineReads
from tidyberg.observe.reading import RemoteReader
from tidyberg.storage.access import TableIO, storage_access
from tidyberg.storage.listing import ListParts, PrefixPart, RemoteListing

_TASK_FILES = 200_000  # a task stops after so many files, and others continue
_TASK_PARTS = 8  # at least, if there are so many: a task lists them in as many threads
_TASKS = 200  # at most


def engine_reads(engine: Callable[[], Engine], manifests_above: int, files_above: int) -> EngineReads:
    """`engine` is called, and so started, only for a table that is above one of the limits."""

    def manifests(io: TableIO) -> RemoteReader:
        return RemoteReader(manifests_above, reading_on(engine, io, REACHABLE_COLUMNS))

    return EngineReads(manifests, RemoteListing(files_above, listing_on(engine)))


def listing_on(engine: Callable[[], Engine]) -> ListParts:
    """Returns a function that lists parts of a directory on the engine, in rounds until nothing is left."""

    def list_parts(
        io: TableIO, root: str, parts: Sequence[PrefixPart], check: Callable[[], None]
    ) -> Iterator[pa.Table]:
        while parts:
            tasks = [
                ListTask("listing", number, root, share, _TASK_FILES) for number, share in enumerate(_shares(parts))
            ]
            left: list[PrefixPart] = []
            with closing(engine().run(tasks, storage_access(io), cancel=CancelToken())) as results:
                for result in results:
                    assert isinstance(result, ListResult)
                    check()
                    left += result.rest
                    yield unpack_table(result.files)
            parts = left

    return list_parts


def _shares(parts: Sequence[PrefixPart]) -> list[tuple[PrefixPart, ...]]:
    each = max(_TASK_PARTS, -(-len(parts) // _TASKS))
    return [tuple(parts[start : start + each]) for start in range(0, len(parts), each)]
