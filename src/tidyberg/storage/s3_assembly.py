"""Writes assemblies inside an S3 store. The store copies the ranges; we upload only the bytes between them."""

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

_AT_ONCE = 8  # during a copy inside the store, the worker only waits
_MAGIC = b"PAR1"


def can_assemble(storage: Storage, assembly: Assembly) -> bool:
    """Returns True if all inputs and outputs are objects of one store that, as far as we know, can copy ranges."""
    store = storage.s3
    if store is None or not store.client.copies_parts:
        return False
    paths = {file.path for file in assembly.files} | {
        segment.path for file in assembly.files for segment in file.segments if isinstance(segment, Range)
    }
    return all(storage.place(path).object is not None for path in paths)


def assemble(storage: Storage, assembly: Assembly, should_stop: Callable[[], bool]) -> Moved:
    """Writes all outputs, or none. Raises CannotCopyParts if the store turns out not to copy ranges."""
    store = storage.s3
    assert store is not None
    moved = 0
    written: list[AssembledFile] = []
    try:
        for file in assembly.files:
            written.append(file)
            moved += _MultipartWriter(storage, store, file, should_stop).run()
    except BaseException:
        for file in reversed(
            written
        ):  # last first: a kill during the loop leaves outputs without gaps in their numbers
            with suppress(KernelFailure):
                storage.delete(storage.place(file.path))
        raise
    return Moved(moved)


class _MultipartWriter:
    """Writes one output."""

    def __init__(self, storage: Storage, store: S3Store, file: AssembledFile, should_stop: Callable[[], bool]) -> None:
        self._storage = storage
        self._should_stop = should_stop
        self._store = store
        self._file = file
        self._target = S3Object.of(file.path)

    def run(self) -> int:
        """Writes the output. Returns the number of bytes that never left the store."""
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
                        pool.shutdown(
                            wait=True, cancel_futures=True
                        )  # a part that arrives after the abort would stay in the store
                self._store.complete(upload, etags, self._file.size)
            except BaseException:
                with suppress(OSError, HTTPException):  # the first error is raised; recovery aborts the rest
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
        """Uploads a file that is too small for a multipart upload."""
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
        """Checks the magic number when it was copied from an input. Readers check the end of a file, not its start."""
        if not isinstance(parts[0], CopiedPart):
            return
        start, _ = fetch(self._store, self._target, 0, len(_MAGIC), size=self._file.size)
        if start.to_pybytes() != _MAGIC:
            raise KernelFailure(FailureKind.DAMAGED, f"{parts[0].source.path} does not begin with PAR1.")
