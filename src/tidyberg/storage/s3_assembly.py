"""Writes assemblies inside an S3 store: it copies the ranges by itself, and is sent only what lies between them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.assembly import AssembledFile, Assembly, Literal, Moved, Range
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.part_plan import SMALLEST_PART, CopiedPart, Part, UploadedPart, plan_parts, uploaded_bytes
from tidyberg.storage.s3.reading import fetch
from tidyberg.storage.s3.responses import S3Error
from tidyberg.storage.s3.store import S3Object, S3Store, Upload

_AT_ONCE = 8  # copies inside the store cost the worker nothing but waiting
_MAGIC = b"PAR1"


def can_assemble(storage: Storage, assembly: Assembly) -> bool:
    """Whether inputs and outputs are objects of one store that is believed to copy ranges."""
    store = storage.s3
    if store is None or not store.client.copies_parts:
        return False
    paths = {file.path for file in assembly.files} | {
        segment.path for file in assembly.files for segment in file.segments if isinstance(segment, Range)
    }
    return all(storage.place(path).object is not None for path in paths)


def assemble(storage: Storage, assembly: Assembly, should_stop: Callable[[], bool]) -> Moved:
    """Write all outputs, or none; raises CannotCopyParts where the store turns out not to copy."""
    store = storage.s3
    assert store is not None
    moved = 0
    written: list[AssembledFile] = []
    try:
        for file in assembly.files:
            written.append(file)
            moved += _Assembling(storage, store, file, should_stop).run()
    except BaseException:
        for file in reversed(written):  # the last first: what a kill on the way leaves is numbered without a gap
            with suppress(KernelFailure):
                storage.delete(storage.place(file.path))
        raise
    return Moved(moved)


class _Assembling:
    """One output."""

    def __init__(self, storage: Storage, store: S3Store, file: AssembledFile, should_stop: Callable[[], bool]) -> None:
        self._storage = storage
        self._should_stop = should_stop
        self._store = store
        self._file = file
        self._target = S3Object.of(file.path)

    def run(self) -> int:
        """Bytes that never left the store."""
        parts = plan_parts(self._file.segments)
        with self._storage.guard(self._file.path, writing=True):
            if self._file.size < SMALLEST_PART or not any(isinstance(part, CopiedPart) for part in parts):
                self._send_whole(parts)
                return 0
            upload = self._store.begin(self._target)
            try:
                with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tidyberg-copy") as pool:
                    waiting = [pool.submit(self._write, upload, number, part) for number, part in enumerate(parts, 1)]
                    try:
                        etags = [part.result() for part in waiting]
                    finally:
                        pool.shutdown(wait=True, cancel_futures=True)  # a part that arrives after an abort would stay
                self._store.complete(upload, etags, self._file.size)
            except BaseException:
                with suppress(OSError, HTTPException):  # what broke it is told; recovery aborts what is left
                    self._store.abort(upload)
                raise
            self._check_start(parts)
        return self._file.size - uploaded_bytes(parts)

    def _write(self, upload: Upload, number: int, part: Part) -> str:
        if self._should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
        if isinstance(part, UploadedPart):
            return self._store.upload_part(upload, number, self._content(part))
        source = part.source
        try:
            return self._store.copy_part(
                upload, number, S3Object.of(source.path), source.offset, source.end - 1, self._etag(source.path)
            )
        except S3Error as error:
            if error.code == "PreconditionFailed":
                raise KernelFailure(
                    FailureKind.STORAGE, f"{source.path} was replaced while it was being copied."
                ) from error
            if error.code in ("NoSuchKey", "InvalidRange"):
                raise KernelFailure(
                    FailureKind.DAMAGED, f"{source.path} is missing or shorter than the table's manifest says."
                ) from error
            raise

    def _send_whole(self, parts: list[Part]) -> None:
        """Too small to be put together in the store."""
        sink = self._storage.open_output(self._storage.place(self._file.path))
        for part in parts:
            sink.write(self._content(part if isinstance(part, UploadedPart) else UploadedPart((part.source,))))
        sink.close()

    def _content(self, part: UploadedPart) -> bytes:
        return b"".join(
            segment.content if isinstance(segment, Literal) else self._read(segment) for segment in part.segments
        )

    def _read(self, segment: Range) -> memoryview:
        content, etag = fetch(
            self._store, S3Object.of(segment.path), segment.offset, segment.end, etag=self._etag(segment.path)
        )
        if etag:
            self._storage.etags.setdefault(segment.path, etag)
        return memoryview(content)

    def _etag(self, path: str) -> str | None:
        return self._storage.etags.get(path)

    def _check_start(self, parts: list[Part]) -> None:
        """Where an input's first bytes stand for ours they are looked at; every reader finds the end by itself."""
        if not isinstance(parts[0], CopiedPart):
            return
        start, _ = fetch(self._store, self._target, 0, len(_MAGIC), size=self._file.size)
        if start.to_pybytes() != _MAGIC:
            raise KernelFailure(FailureKind.DAMAGED, f"{parts[0].source.path} does not begin as a Parquet file does.")
