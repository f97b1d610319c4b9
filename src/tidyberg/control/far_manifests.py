"""Has the manifests of huge snapshots read by the engine's tasks, where there are more cores and memory than here."""

from collections.abc import Callable, Iterator, Sequence

from pyiceberg.table import Table

from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.manifests.arrow_ipc import unpack_entries
from tidyberg.manifests.entries import ManifestEntries
from tidyberg.model.inventory import Partition
from tidyberg.model.manifest import ManifestInfo, RestRule
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned
from tidyberg.model.task import AnyResult, ManifestResult, ManifestTask
from tidyberg.observe.reading import ReadManifests
from tidyberg.observe.resting import Resting
from tidyberg.planning.resting import rest_rule
from tidyberg.planning.select import selected_partitions
from tidyberg.storage.access import storage_access

_TASK_BYTES = 16 * 1024 * 1024  # of manifests a task: some 100,000 files
_TASK_MANIFESTS = 2_000


def reading_on(engine: Callable[[], Engine], table: Table) -> ReadManifests:
    """Reads manifests of the table on the engine, which is started for it."""

    def read(manifests: Sequence[ManifestInfo], rest: RestRule | None) -> Iterator[tuple[str, ManifestEntries]]:
        shares = list(_shares(manifests))
        results = engine().run(
            [ManifestTask("observe", number, tuple(share), rest) for number, share in enumerate(shares)],
            storage_access(table.io),
            on_result=_ignore,
            cancel=CancelToken(),
        )
        results.reverse()
        for share in shares:
            result = results.pop()  # so that it is gone when its entries are out
            assert isinstance(result, ManifestResult)
            for number, entries in unpack_entries(result.packed):
                yield share[number].path, entries

    return read


def resting_for(pinned: Pinned, options: PlanOptions, now_ms: int) -> Resting:
    """What a plan under these options at that time need not see."""

    def select(partitions: Sequence[Partition]) -> Sequence[bool]:
        return selected_partitions(pinned, partitions, options, now_ms).chosen

    return Resting(rest_rule(pinned, options), None if options.where is None else select)


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


def _ignore(_: AnyResult) -> None:
    pass
