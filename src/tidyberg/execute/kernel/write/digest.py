"""The SHA-256 of a file's bytes, or of its footer: taken while it is written, and again when it is looked at later."""

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
    """An output stream that sums up the bytes on their way to storage."""

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
        """Keep what is written from now on, until it is released."""
        self._held = []

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write what was kept, changed."""
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
    """Whether some row groups have an ordinal and others none, as copies of tidyberg 0.1.0 may be."""
    try:
        struct, _ = read_struct(footer)
        groups = structs(struct, FileField.ROW_GROUPS, "the list of row groups")
    except (BadThriftError, CannotCopy):
        return False  # damage is for those to find who read the file
    return len({GroupField.ORDINAL in group for group in groups}) > 1


def _ending(file: TaskInput, storage: Storage) -> bytes:
    """A Parquet file's last bytes, from its footer on; nothing of a file of another size, which is another file."""
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
