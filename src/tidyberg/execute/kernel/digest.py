"""The SHA-256 of a file's bytes, or of its footer: taken while it is written, and again when it is looked at later."""

import hashlib
from collections.abc import Callable

from tidyberg.execute.kernel.failures import FailureKind, KernelFailure
from tidyberg.execute.kernel.storage import Sink, Storage, abandon
from tidyberg.model.task import DigestResult, DigestTask, TaskInput

_BLOCK = 4 * 1024 * 1024
_ENDING = 8  # the length of the footer and the magic number


class DigestingSink:
    """An output stream that sums up the bytes on their way to storage."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return bool(self._sink.closed)

    def write(self, data: bytes | memoryview) -> int:
        self._hash.update(data)
        return int(self._sink.write(data))

    def tell(self) -> int:
        return int(self._sink.tell())

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self._sink.close()

    def abandon(self) -> None:
        abandon(self._sink)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def digest_files(task: DigestTask, storage: Storage, should_stop: Callable[[], bool]) -> DigestResult:
    digests = tuple(
        _footer_digest(file, storage) if file.path in task.footers_of else _digest(file, storage, should_stop)
        for file in task.inputs
    )
    return DigestResult(task.job_id, task.group_id, digests)


def _footer_digest(file: TaskInput, storage: Storage) -> str:
    """Of a Parquet file's last bytes, from its footer on; nothing for a file of another size, which is another file."""
    with storage.open_input(storage.place(file.path)) as source, storage.guard(file.path):
        size = source.size()
        if size != file.size or size < _ENDING:
            return ""
        length = int.from_bytes(source.read_at(_ENDING, size - _ENDING)[:4], "little")
        start = max(0, size - _ENDING - length)
        return hashlib.sha256(source.read_at(size - start, start)).hexdigest()


def _digest(file: TaskInput, storage: Storage, should_stop: Callable[[], bool]) -> str:
    found = hashlib.sha256()
    with storage.open_input(storage.place(file.path), file.size) as source:
        while True:
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            with storage.guard(file.path):
                block = source.read(_BLOCK)
            if not block:
                return found.hexdigest()
            found.update(block)
