"""Reads manifests on executors, and packs the live entries that the driver needs."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.manifests.arrow_ipc import pack_entries
from tidyberg.manifests.counted_files import replace_by_counts
from tidyberg.manifests.entries import ManifestError, read_entries
from tidyberg.model.task import ManifestResult, ManifestTask, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched

_FETCH_AHEAD = 8  # enough to hide the latency of object storage


def read_manifests(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> ManifestResult:
    contents = _contents(task, storage, should_stop)
    files = ((info.path, raw, info.holds_deletes) for info, raw in zip(task.manifests, contents, strict=True))
    try:
        by_path = dict(read_entries(files, task.only))
        found = [by_path[info.path] for info in task.manifests]
        if task.rest is not None:
            found = replace_by_counts(task.manifests, found, task.rest)
    except ManifestError as error:
        raise KernelFailure(FailureKind.DAMAGED, f"The manifest {error.name} is damaged: {error}.") from error
    return ManifestResult(task.job_id, task.group_id, pack_entries(found))


def _contents(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> Iterator[bytes]:
    with closing(prefetched(partial(_content, storage), task.inputs, _FETCH_AHEAD)) as contents:
        for content in contents:
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            yield content


def _content(storage: Storage, file: TaskInput) -> bytes:
    """Reads to the end of the file: the size in the manifest list may be too small, and entries would be missed."""
    content = storage.read_all(storage.place(file.path))
    if len(content) < file.size:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"The manifest {file.path} is damaged: it has {len(content)} bytes; the manifest list says {file.size}.",
        )
    return content
