"""Reads objects: single ranges, a stream of ranges from one request, and a file object for Arrow on top of both."""

import http.client
from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from tidyberg.storage.s3.client import RetryBudget, StreamedResponse
from tidyberg.storage.s3.responses import TruncatedResponse, WrongSize, total_size
from tidyberg.storage.s3.store import S3Object, S3Store

_TAIL_BYTES = 256 * 1024  # long enough for most footers
_SKIPPED_BYTES = 1024 * 1024  # up to this gap, it is cheaper to read and drop the bytes than to send a request
_BLOCK = 1024 * 1024
_OVERHANG = 4096


class RangeStream:
    """Streams a range of an object from one request. After a failure it resumes at the current position."""

    def __init__(self, store: S3Store, source: S3Object, start: int, end: int, etag: str | None = None) -> None:
        self.position = start
        self.end = end
        self.total: int | None = None
        self.etag = etag  # of the first response: a replaced object is not read any further
        self._store = store
        self._source = source
        self._open: StreamedResponse | None = None

    def read_into(self, view: memoryview) -> None:
        """Fills the view, or raises."""
        filled = 0
        budget = RetryBudget(self._store.settings)
        while filled < len(view):
            try:
                opened = self._open or self._request(budget)
                got = opened.read_into(view[filled:])
                if not got:
                    raise TruncatedResponse(f"{self._source.key} ended at byte {self.position}")
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                budget.wait_after(error)
                continue
            filled += got
            self.position += got
        if self.position >= self.end:
            self._drop()

    def skip(self, length: int) -> None:
        dropped = bytearray(min(length, _BLOCK))
        while length:
            view = memoryview(dropped)[: min(length, _BLOCK)]
            self.read_into(view)
            length -= len(view)

    def close(self) -> None:
        self._drop()

    def _request(self, budget: RetryBudget) -> StreamedResponse:
        opened = self._store.open(self._source, self.position, self.end - 1, budget, self.etag)
        self._open = opened
        self.etag = self.etag or opened.headers.get("etag")
        # A store may ignore the range and send the whole object from its start.
        self.total = total_size(opened.headers) if opened.status == 206 else int(opened.headers["content-length"])
        if opened.status != 206 and self.position:
            raise TruncatedResponse(f"the store sent {self._source.key} from its start")
        if self.total is not None and self.total < self.end:
            raise WrongSize(self._source.key, self.total, self.end)
        return opened

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None


def fetch(
    store: S3Store, source: S3Object, start: int, end: int, *, etag: str | None = None, size: int | None = None
) -> tuple[pa.Buffer, str | None]:
    """Reads a range with one request. Returns its bytes and the object's ETag.

    Raises WrongSize if `size` is given and the whole object has another size.
    """
    stream = RangeStream(store, source, start, end, etag)
    buffer = pa.allocate_buffer(end - start)
    try:
        stream.read_into(memoryview(buffer))
    finally:
        stream.close()
    if size is not None and stream.total is not None and stream.total != size:
        raise WrongSize(source.key, stream.total, size)
    return buffer, stream.etag


def fetch_all(store: S3Store, source: S3Object) -> bytes:
    """Reads an object of unknown size with one request."""
    budget = RetryBudget(store.settings)
    while True:
        opened = store.open_whole(source, budget)
        try:
            return opened.read_all()
        except (OSError, http.client.HTTPException) as error:
            budget.wait_after(error)


class _ReadableFile(ABC):
    """The methods that Arrow needs of a file object with random access."""

    _position = 0
    closed = False

    @abstractmethod
    def size(self) -> int:
        """Returns the position after the last byte."""

    @abstractmethod
    def read_buffer(self, length: int = -1) -> pa.Buffer: ...

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self.size())[whence]
        return self._position

    def read(self, length: int = -1) -> bytes:
        return self.read_buffer(length).to_pybytes()  # type: ignore[no-any-return]


class S3InputFile(_ReadableFile):
    """A file object for Arrow. The caller knows the size, so no request is needed to find it."""

    def __init__(self, store: S3Store, source: S3Object, size: int, note_etag: Callable[[str], None]) -> None:
        self._store = store
        self._source = source
        self._size = size
        self._note_etag = note_etag
        self._etag: str | None = None
        self._tail: pa.Buffer | None = None
        self._stream: RangeStream | None = None
        self._last_end = -1
        self._overhang = b""  # the last bytes that the stream returned

    def size(self) -> int:
        return self._size

    def read_buffer(self, length: int = -1) -> pa.Buffer:
        start = self._position
        end = self._size if length is None or length < 0 else min(start + length, self._size)
        if start >= end:
            return pa.py_buffer(b"")
        self._position = end
        tail_start = max(0, self._size - _TAIL_BYTES)
        if start >= tail_start:
            if self._tail is None:
                self._tail = self._fetch(tail_start, self._size)
            return self._tail.slice(start - tail_start, end - start)
        found = self._sequential(start, end)
        self._last_end = end
        return found if found is not None else self._fetch(start, end)

    def as_arrow(self) -> pa.NativeFile:
        return pa.PythonFile(self, mode="r")

    def take(self, start: int, end: int) -> pa.Buffer:
        """Reads a range of a file whose ranges are read in order. One request serves all of them."""
        stream, again = self._stream, 0
        if stream is not None and stream.position - len(self._overhang) <= start < stream.position <= end:
            again = stream.position - start  # ranges may overlap by a little
        elif stream is None or not stream.position <= start <= stream.position + _SKIPPED_BYTES:
            if stream is not None:
                stream.close()
            stream = self._stream = RangeStream(self._store, self._source, start, self._size, self._etag)
        stream.skip(start + again - stream.position)
        buffer = pa.allocate_buffer(end - start)
        view = memoryview(buffer).cast("B")
        view[:again] = self._overhang[len(self._overhang) - again :]
        stream.read_into(view[again:])
        self._overhang = bytes(view[-_OVERHANG:])
        self._note(stream.etag)
        return buffer

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = self._tail = None
        self.closed = True

    def _sequential(self, start: int, end: int) -> pa.Buffer | None:
        """Switches to streaming when a read begins where the last one ended: more such reads will follow."""
        streaming = self._stream is not None and self._stream.position == start
        return self.take(start, end) if streaming or start == self._last_end else None

    def _fetch(self, start: int, end: int) -> pa.Buffer:
        buffer, etag = fetch(self._store, self._source, start, end, etag=self._etag, size=self._size)
        self._note(etag)
        return buffer

    def _note(self, etag: str | None) -> None:
        if etag and self._etag is None:
            self._etag = etag
            self._note_etag(etag)


class PieceOfFile(_ReadableFile):
    """Part of a file in memory, addressed by its positions in the file."""

    def __init__(self, content: pa.Buffer, start: int) -> None:
        self._content = content
        self._start = start

    def size(self) -> int:
        return self._start + int(self._content.size)

    def read_buffer(self, length: int = -1) -> pa.Buffer:
        offset = self._position - self._start
        if offset < 0:
            raise ValueError(f"byte {self._position} is not in the piece, which begins at {self._start}")
        some = self._content.slice(offset) if length is None or length < 0 else self._content.slice(offset, length)
        self._position += some.size
        return some

    def close(self) -> None:
        self.closed = True
