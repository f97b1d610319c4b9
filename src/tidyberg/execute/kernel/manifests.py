"""Reads manifests where tasks run, and packs those live entries for the way back that are asked for."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.manifests.arrow_ipc import pack_entries
from tidyberg.manifests.counted_files import replace_by_counts
from tidyberg.manifests.entries import ManifestError, read_entries
from tidyberg.model.task import ManifestResult, ManifestTask, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import run_ahead

_FETCH_AHEAD = 8  # hides the latency of object storage


def read_manifests(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> ManifestResult:
    contents = _contents(task, storage, should_stop)
    files = ((info.path, raw, info.holds_deletes) for info, raw in zip(task.manifests, contents, strict=True))
    try:
        by_path = dict(read_entries(files))
        found = [by_path[info.path] for info in task.manifests]
        if task.rest is not None:
            found = replace_by_counts(task.manifests, found, task.rest)
    except ManifestError as error:
        raise KernelFailure(FailureKind.DAMAGED, f"{error.name} is damaged: as a manifest, {error}.") from error
    return ManifestResult(task.job_id, task.group_id, pack_entries(found))


def _contents(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> Iterator[bytes]:
    with closing(run_ahead(partial(_content, storage), task.inputs, _FETCH_AHEAD)) as contents:
        for content in contents:
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            yield content


def _content(storage: Storage, file: TaskInput) -> bytes:
    """The whole file: the manifest list may say too little, and what it leaves out would not be planned for."""
    content = storage.read_all(storage.place(file.path))
    if len(content) < file.size:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"{file.path} is damaged: it has {len(content)} bytes, the manifest list says {file.size}.",
        )
    return content
