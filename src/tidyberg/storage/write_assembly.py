"""Writes assemblies in the cheapest way that the storage allows.

On local disks the operating system copies the bytes. A store that can copy ranges does it itself. Otherwise the bytes
pass through the worker in large blocks.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.assembly import AssembledFile, Assembly, Literal, Moved, Range
from tidyberg.storage.file_io import Place, Storage, abandon, remove_outputs
from tidyberg.storage.prefetch import prefetched
from tidyberg.storage.s3.store import CannotCopyParts
from tidyberg.storage.s3_assembly import assemble, can_assemble

_MB = 1024 * 1024
_IN_KERNEL = 64 * _MB  # bytes that the operating system copies in one call; a task can stop between calls
_BLOCK = 8 * _MB
# These errors mean that the operating system cannot copy between the two files.
_UNABLE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)


def write_assembly(assembly: Assembly, storage: Storage, should_stop: Callable[[], bool]) -> Moved:
    """Writes all outputs, or none: if one fails, all are removed."""
    if can_assemble(storage, assembly):
        try:
            return assemble(storage, assembly, should_stop)
        except CannotCopyParts:
            pass  # the client remembers it
    begun: list[Place] = []
    try:
        for file in assembly.files:
            place = storage.place(file.path)
            begun.append(place)
            if place.is_local and all(storage.place(path).is_local for path in _paths(file)):
                _write_local(file, place, storage, should_stop)
            else:
                _write_anywhere(file, place, storage, should_stop)
    except BaseException:
        remove_outputs(begun, storage)
        raise
    return Moved()


def _paths(file: AssembledFile) -> set[str]:
    return {segment.path for segment in file.segments if isinstance(segment, Range)}


def _write_local(file: AssembledFile, place: Place, storage: Storage, should_stop: Callable[[], bool]) -> None:
    with storage.guard(place.location, writing=True):
        Path(place.path).parent.mkdir(parents=True, exist_ok=True)
        target = os.open(place.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        for segment in file.segments:
            if isinstance(segment, Literal):
                with storage.guard(place.location, writing=True):
                    _write_all(target, segment.content)
                continue
            with storage.guard(segment.path):
                source = os.open(storage.place(segment.path).path, os.O_RDONLY)
            try:
                with storage.guard(place.location, writing=True):
                    _copy_range(source, target, segment, should_stop)
            finally:
                os.close(source)
    finally:
        os.close(target)


def _copy_range(source: int, target: int, segment: Range, should_stop: Callable[[], bool]) -> None:
    offset, copy = segment.offset, _in_kernel
    while offset < segment.end:
        if should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
        try:
            copied = copy(source, target, offset, min(_IN_KERNEL, segment.end - offset))
        except OSError as error:
            if copy is _through_memory or error.errno not in _UNABLE:
                raise
            copy = _through_memory
            continue
        if not copied:
            raise _too_short(segment.path)
        offset += copied


def _in_kernel(source: int, target: int, offset: int, length: int) -> int:
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, "This system cannot copy between files.")
    return os.copy_file_range(source, target, length, offset_src=offset)


def _through_memory(source: int, target: int, offset: int, length: int) -> int:
    block = os.pread(source, min(_BLOCK, length), offset)
    _write_all(target, block)
    return len(block)


def _write_all(target: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(target, rest) :]


def _write_anywhere(file: AssembledFile, place: Place, storage: Storage, should_stop: Callable[[], bool]) -> None:
    sink = storage.open_output(place)
    try:
        for segment in file.segments:
            blocks = iter([segment.content]) if isinstance(segment, Literal) else _blocks(segment, storage)
            for block in blocks:
                if should_stop():
                    raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
                with storage.guard(place.location, writing=True):
                    sink.write(block)
    except BaseException:
        abandon(sink)
        raise
    with storage.guard(place.location, writing=True):
        sink.close()


def _blocks(segment: Range, storage: Storage) -> Iterator[bytes]:
    place = storage.place(segment.path)
    if place.object is not None:

        def fetch(offset: int) -> bytes:
            return bytes(storage.read_range(place, offset, min(_BLOCK, segment.end - offset)))

        yield from prefetched(fetch, range(segment.offset, segment.end, _BLOCK))
        return
    with storage.open_input(storage.place(segment.path)) as source:

        def read(offset: int) -> bytes:
            length = min(_BLOCK, segment.end - offset)
            with storage.guard(segment.path):
                block = source.read_at(length, offset)
            if len(block) != length:
                raise _too_short(segment.path)
            return bytes(block)

        yield from prefetched(read, range(segment.offset, segment.end, _BLOCK))


def _too_short(path: str) -> KernelFailure:
    return KernelFailure(FailureKind.DAMAGED, f"{path} is shorter than its footer says.")
