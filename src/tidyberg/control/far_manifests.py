"""Has the manifests of huge snapshots read by the engine's tasks, where there are more cores than here."""

from collections.abc import Callable, Iterator, Sequence

from pyiceberg.table import Table

from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.execute.tasks import storage_access
from tidyberg.manifests.entries import ManifestEntries
from tidyberg.manifests.packed import unpack_entries
from tidyberg.model.inventory import ManifestInfo
from tidyberg.model.task import AnyResult, ManifestResult, ManifestTask, TaskInput
from tidyberg.observe.inventory import ReadManifests

_TASK_BYTES = 16 * 1024 * 1024  # of manifests a task: some 100,000 files
_TASK_MANIFESTS = 2_000


def reading_on(engine: Callable[[], Engine], table: Table) -> ReadManifests:
    """Reads manifests of the table on the engine, which is started for it."""

    def read(manifests: Sequence[ManifestInfo]) -> Iterator[tuple[str, ManifestEntries]]:
        shares = list(_shares(manifests))
        results = engine().run(
            [_task(number, share) for number, share in enumerate(shares)],
            storage_access(table.io),
            on_result=_ignore,
            cancel=CancelToken(),
        )
        for share, result in zip(shares, results, strict=True):
            assert isinstance(result, ManifestResult)
            for number, entries in unpack_entries(result.packed):
                yield share[number].path, entries

    return read


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


def _task(number: int, manifests: Sequence[ManifestInfo]) -> ManifestTask:
    return ManifestTask(
        job_id="observe",
        group_id=number,
        inputs=tuple(TaskInput(manifest.path, manifest.length, 0) for manifest in manifests),
        holds_deletes=tuple(manifest.holds_deletes for manifest in manifests),
    )


def _ignore(_: AnyResult) -> None:
    pass
