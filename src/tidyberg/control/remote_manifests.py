"""Reads the manifests of huge snapshots in tasks of the engine, which has more cores and memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.manifests.arrow_ipc import unpack_entries
from tidyberg.manifests.entries import ManifestEntries
from tidyberg.model.inventory import Partition
from tidyberg.model.manifest import CountedFileRule, ManifestInfo
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned
from tidyberg.model.task import ManifestResult, ManifestTask
from tidyberg.observe.counted_files import CountingRule
from tidyberg.observe.reading import ReadManifests
from tidyberg.planning.select import selected_partitions
from tidyberg.planning.unchanged_files import unchanged_file_rule
from tidyberg.storage.access import TableIO, storage_access

_TASK_BYTES = 16 * 1024 * 1024  # of manifests per task: about 100,000 files
_TASK_MANIFESTS = 2_000


def reading_on(engine: Callable[[], Engine], io: TableIO, only: tuple[str, ...] | None = None) -> ReadManifests:
    """Returns a function that reads manifests on the engine, and starts the engine if needed.

    With `only`, the entries have just these columns, and no partitions.
    """

    def read(manifests: Sequence[ManifestInfo], rest: CountedFileRule | None) -> Iterator[tuple[str, ManifestEntries]]:
        shares = list(_shares(manifests))
        tasks = [ManifestTask("observe", number, tuple(share), rest, only) for number, share in enumerate(shares)]
        with closing(engine().run(tasks, storage_access(io), cancel=CancelToken())) as results:
            for result in results:
                assert isinstance(result, ManifestResult)
                for number, entries in unpack_entries(result.packed):
                    yield shares[result.group_id][number].path, entries

    return read


def counting_rule(pinned: Pinned, options: PlanOptions, now_ms: int) -> CountingRule:
    """The files that a plan under these options cannot take, so that it is enough to count them."""

    def select(partitions: Sequence[Partition]) -> Sequence[bool]:
        return selected_partitions(pinned, partitions, options, now_ms).chosen

    return CountingRule(unchanged_file_rule(pinned, options), None if options.where is None else select)


def _shares(manifests: Sequence[ManifestInfo]) -> Iterator[list[ManifestInfo]]:
    share: list[ManifestInfo] = []
    size = 0
    for manifest in manifests:
        share.append(manifest)
        size += manifest.length
        if size >= _TASK_BYTES or len(share) >= _TASK_MANIFESTS:
            yield share
            share, size = [], 0
    if share:
        yield share
