"""Plans a multipart upload: which parts the store copies, and which bytes the worker uploads. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidyberg.storage.assembly import Literal, Range, Segment, joined

MB = 1024 * 1024
SMALLEST_PART = 5 * MB  # S3's minimum for every part except the last
LARGEST_COPY = 512 * MB  # S3 allows 5 GB, but a copy should take seconds
LARGEST_UPLOAD = 16 * MB  # the worker holds a whole part in memory
_MOST_PARTS = 9_000  # S3 allows 10,000
_MAGIC = Literal(b"PAR1")


@dataclass(frozen=True)
class CopiedPart:
    """A part that the store copies from another object."""

    source: Range

    @property
    def length(self) -> int:
        return self.source.length


@dataclass(frozen=True)
class UploadedPart:
    """A part that the worker builds and uploads."""

    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        return sum(segment.length for segment in self.segments)


Part = CopiedPart | UploadedPart


def plan_parts(segments: Iterable[Segment]) -> list[Part]:
    """Returns parts with the bytes of the segments in order. Every part but the last has at least SMALLEST_PART."""
    pieces = with_shared_magic(joined(segments))
    total = sum(piece.length for piece in pieces)
    plan = _Plan(max(LARGEST_COPY, total // _MOST_PARTS * 2), max(LARGEST_UPLOAD, total // _MOST_PARTS))
    for piece in pieces:
        plan.add(piece)
    return plan.finish()


def with_shared_magic(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Extends the first range to include the magic number of its file, which is the same in every Parquet file."""
    if len(segments) < 2 or segments[0] != _MAGIC:
        return segments
    first = segments[1]
    if not isinstance(first, Range) or first.offset != _MAGIC.length:
        return segments
    return (Range(first.path, 0, first.end), *segments[2:])


def uploaded_bytes(parts: Iterable[Part]) -> int:
    return sum(part.length for part in parts if isinstance(part, UploadedPart))


class _Plan:
    """The parts so far, and pending segments that are too short for a part of their own."""

    def __init__(self, largest_copy: int, largest_sent: int) -> None:
        self._parts: list[Part] = []
        self._waiting: list[Segment] = []
        self._waiting_bytes = 0
        self._largest_copy = largest_copy
        self._largest_sent = largest_sent

    def add(self, piece: Segment) -> None:
        if isinstance(piece, Literal):
            self._wait_for_more(piece)
            return
        missing = max(0, SMALLEST_PART - self._waiting_bytes) if self._waiting else 0
        if missing and piece.length >= SMALLEST_PART and self._take_from_last_copy(missing):
            missing = 0
        if piece.length < SMALLEST_PART + missing:
            self._wait_for_more(piece)
            return
        if missing:  # fill the pending part with the start of this range
            self._wait(Range(piece.path, piece.offset, missing))
            piece = Range(piece.path, piece.offset + missing, piece.length - missing)
        self._send_waiting()
        self._copy(piece)

    def finish(self) -> list[Part]:
        """Returns all parts. Pending segments become the last part, which may be short."""
        self._send_waiting()
        return self._parts

    def _wait_for_more(self, piece: Segment) -> None:
        """Adds a segment to the pending part, and closes parts at their maximum size to limit memory."""
        while piece.length:
            room = self._largest_sent - self._waiting_bytes
            first, piece = _cut(piece, room)
            self._wait(first)
            if self._waiting_bytes == self._largest_sent:
                self._send_waiting()

    def _wait(self, piece: Segment) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += piece.length

    def _send_waiting(self) -> None:
        if self._waiting:
            self._parts.append(UploadedPart(tuple(self._waiting)))
        self._waiting, self._waiting_bytes = [], 0

    def _copy(self, piece: Range) -> None:
        """Copies a range in equal parts, so that the last one is not too short."""
        number = -(-piece.length // self._largest_copy)
        start = 0
        for position in range(1, number + 1):
            end = piece.length * position // number
            self._parts.append(CopiedPart(Range(piece.path, piece.offset + start, end - start)))
            start = end

    def _take_from_last_copy(self, missing: int) -> bool:
        """Fills the pending part with the end of the copy before it, so that the next range can be copied whole."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, CopiedPart) or last.length < SMALLEST_PART + missing:
            return False
        source = last.source
        self._parts[-1] = CopiedPart(Range(source.path, source.offset, source.length - missing))
        self._waiting.insert(0, Range(source.path, source.end - missing, missing))
        self._waiting_bytes += missing
        return True


def _cut(piece: Segment, length: int) -> tuple[Segment, Segment]:
    if isinstance(piece, Literal):
        return Literal(piece.content[:length]), Literal(piece.content[length:])
    length = min(length, piece.length)
    return Range(piece.path, piece.offset, length), Range(piece.path, piece.offset + length, piece.length - length)
