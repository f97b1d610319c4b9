"""Computes the SHA-256 of a file or its footer, while it is written and again when it is checked later."""

import hashlib
from collections.abc import Callable

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import DigestResult, DigestTask, TaskInput
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import FileField, GroupField, structs
from tidyberg.parquet.thrift import read_struct
from tidyberg.storage.file_io import Sink, Storage, abandon

_BLOCK = 4 * 1024 * 1024
_ENDING = 8  # the length of the footer and the magic number


class DigestingSink:
    """An output stream that hashes the bytes on their way to storage."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()
        self._held: list[bytes] | None = None

    @property
    def closed(self) -> bool:
        return bool(self._sink.closed)

    def write(self, data: bytes | memoryview) -> int:
        if self._held is not None:
            self._held.append(bytes(data))
            return len(self._held[-1])
        self._hash.update(data)
        return int(self._sink.write(data))

    def tell(self) -> int:
        return int(self._sink.tell()) + sum(map(len, self._held or ()))

    def hold(self) -> None:
        """Holds back what is written from now on, until `release`."""
        self._held = []

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Changes the bytes that were held back, and writes them."""
        held, self._held = b"".join(self._held or ()), None
        self.write(change(held))

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self._sink.close()

    def abandon(self) -> None:
        abandon(self._sink)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def digest_files(task: DigestTask, storage: Storage, should_stop: Callable[[], bool]) -> DigestResult:
    digests, partly_numbered = [], []
    for file in task.inputs:
        if file.path not in task.footers_of:
            digests.append(_digest(file, storage, should_stop))
            continue
        ending = _ending(file, storage)
        digests.append(hashlib.sha256(ending).hexdigest() if ending else "")
        if _is_partly_numbered(ending[:-_ENDING]):
            partly_numbered.append(file.path)
    return DigestResult(task.job_id, task.group_id, tuple(digests), tuple(partly_numbered))


def _is_partly_numbered(footer: bytes) -> bool:
    """Whether some row groups have an ordinal and others have none, as in some copies by tidyberg 0.1.0."""
    try:
        struct, _ = read_struct(footer)
        groups = structs(struct, FileField.ROW_GROUPS, "the list of row groups")
    except (BadThriftError, CannotCopy):
        return False  # reading the file reports the damage
    return len({GroupField.ORDINAL in group for group in groups}) > 1


def _ending(file: TaskInput, storage: Storage) -> bytes:
    """Returns the end of a Parquet file, from the footer on; empty if the size differs, so the file was replaced."""
    with storage.open_input(storage.place(file.path)) as source, storage.guard(file.path):
        size = source.size()
        if size != file.size or size < _ENDING:
            return b""
        length = int.from_bytes(source.read_at(_ENDING, size - _ENDING)[:4], "little")
        start = max(0, size - _ENDING - length)
        return bytes(source.read_at(size - start, start))


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
