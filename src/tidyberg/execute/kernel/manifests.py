"""Reads manifests where tasks run, and packs their live entries for the way back."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tidyberg.execute.kernel.failures import FailureKind, KernelFailure
from tidyberg.execute.kernel.storage import Storage
from tidyberg.manifests.entries import ManifestError, read_entries
from tidyberg.manifests.packed import pack_entries
from tidyberg.model.task import ManifestResult, ManifestTask, TaskInput

_FETCH_THREADS = 8  # hides the latency of object storage
_FETCH_AHEAD = 16


def read_manifests(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> ManifestResult:
    try:
        found = dict(
            read_entries(
                (file.path, raw, holds_deletes)
                for file, holds_deletes, raw in zip(
                    task.inputs, task.holds_deletes, _contents(task, storage, should_stop), strict=True
                )
            )
        )
    except ManifestError as error:
        raise KernelFailure(FailureKind.DAMAGED, f"{error.name} is damaged: as a manifest, {error}.") from error
    packed = pack_entries([found[file.path] for file in task.inputs])
    return ManifestResult(task.job_id, task.group_id, packed)


def _contents(task: ManifestTask, storage: Storage, should_stop: Callable[[], bool]) -> Iterator[bytes]:
    with ThreadPoolExecutor(_FETCH_THREADS, thread_name_prefix="manifests") as pool:
        waiting = deque(pool.submit(_content, file, storage) for file in task.inputs[:_FETCH_AHEAD])
        for number in range(len(task.inputs)):
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            content = waiting.popleft().result()
            if number + _FETCH_AHEAD < len(task.inputs):
                waiting.append(pool.submit(_content, task.inputs[number + _FETCH_AHEAD], storage))
            yield content


def _content(file: TaskInput, storage: Storage) -> bytes:
    """The whole file: the manifest list may say too little, and what it leaves out would not be planned for."""
    content = storage.read_all(storage.place(file.path))
    if len(content) < file.size:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"{file.path} is damaged: it has {len(content)} bytes, the manifest list says {file.size}.",
        )
    return content
