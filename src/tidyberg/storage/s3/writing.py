"""Writes objects: small ones with one request, large ones as a multipart upload that runs while the caller writes."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from types import TracebackType

from tidyberg.storage.s3.client import Bytes
from tidyberg.storage.s3.store import S3Object, S3Store, Upload


class S3OutputStream:
    """A writable file object. The object appears when the stream is closed; `abandon` leaves nothing behind."""

    def __init__(self, store: S3Store, target: S3Object) -> None:
        self.closed = False
        self._store = store
        self._target = target
        self._filling = bytearray()
        self._written = 0
        self._upload: Upload | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[str]] = deque()
        self._etags: list[str] = []

    def write(self, data: Bytes) -> int:
        view = memoryview(data).cast("B")
        self._written += len(view)
        length = len(view)
        while len(view):
            room = self._part_bytes() - len(self._filling)
            self._filling += view[:room]
            view = view[room:]
            if len(view):  # `close` sends the last part, so that an object of one part needs no multipart upload
                self._send_part()
        return length

    def __enter__(self) -> "S3OutputStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Does nothing: bytes are stored when the stream is closed."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._upload is None:
            self._store.put(self._target, self._filling)
            return
        try:
            self._send_part()
            self._gather(0)
            self._store.complete(self._upload, self._etags, self._written)
        except BaseException:
            with suppress(OSError, HTTPException):  # the first error is raised; recovery aborts the rest
                self._abort()
            raise
        finally:
            self._stop()

    def abandon(self) -> None:
        """Closes the stream without writing the object."""
        if self.closed:
            return
        self.closed = True
        self._abort()
        self._stop()

    def _part_bytes(self) -> int:
        """Returns the size of the next part. It grows, so that the largest object stays below S3's limit of parts."""
        number = len(self._etags) + len(self._running)
        return self._store.settings.part_bytes * (1 + number // 1000)

    def _send_part(self) -> None:
        if self._upload is None or self._pool is None:
            self._upload = self._store.begin(self._target)
            at_once = self._store.settings.uploads_at_once
            self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="tidyberg-upload")
        self._gather(self._store.settings.uploads_at_once - 1)
        number = len(self._etags) + len(self._running) + 1
        body, self._filling = self._filling, bytearray()
        self._running.append(self._pool.submit(self._store.upload_part, self._upload, number, body))

    def _gather(self, most_running: int) -> None:
        """Waits until at most that many parts are in flight. This limits memory."""
        while len(self._running) > most_running:
            self._etags.append(self._running.popleft().result())

    def _abort(self) -> None:
        """Aborts the upload after all parts in flight have ended: a part that arrives later would stay in the store."""
        while self._running:
            self._running.popleft().exception()
        if self._upload is not None:
            upload, self._upload = self._upload, None
            self._store.abort(upload)

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._filling = bytearray()
