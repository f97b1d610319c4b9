"""Plans how a store puts a file together: which parts it copies by itself and which few bytes are sent. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidyberg.storage.assembly import Literal, Range, Segment, joined

MB = 1024 * 1024
SMALLEST_PART = 5 * MB  # of all parts but the last, by S3's rules
LARGEST_COPY = 512 * MB  # of 5 GB that are allowed: a copy should take seconds
LARGEST_UPLOAD = 16 * MB  # bytes of one part in the worker's memory
_MOST_PARTS = 9_000  # of 10,000 that are allowed
_MAGIC = Literal(b"PAR1")


@dataclass(frozen=True)
class CopiedPart:
    """A part that never leaves the store."""

    source: Range

    @property
    def length(self) -> int:
        return self.source.length


@dataclass(frozen=True)
class UploadedPart:
    """A part that the worker puts together and uploads."""

    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        return sum(segment.length for segment in self.segments)


Part = CopiedPart | UploadedPart


def plan_parts(segments: Iterable[Segment]) -> list[Part]:
    """Parts that laid end to end are the segments; every one but the last has the smallest size or more."""
    pieces = with_shared_magic(joined(segments))
    total = sum(piece.length for piece in pieces)
    plan = _Plan(max(LARGEST_COPY, total // _MOST_PARTS * 2), max(LARGEST_UPLOAD, total // _MOST_PARTS))
    for piece in pieces:
        plan.add(piece)
    return plan.finish()


def with_shared_magic(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Every Parquet file begins with the same four bytes: a first range that follows them brings its own along."""
    if len(segments) < 2 or segments[0] != _MAGIC:
        return segments
    first = segments[1]
    if not isinstance(first, Range) or first.offset != _MAGIC.length:
        return segments
    return (Range(first.path, 0, first.end), *segments[2:])


def uploaded_bytes(parts: Iterable[Part]) -> int:
    return sum(part.length for part in parts if isinstance(part, UploadedPart))


class _Plan:
    """Parts so far, and segments that are too short for a part of their own."""

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
        if missing:  # what waits is filled up with the start of this range
            self._wait(Range(piece.path, piece.offset, missing))
            piece = Range(piece.path, piece.offset + missing, piece.length - missing)
        self._send_waiting()
        self._copy(piece)

    def finish(self) -> list[Part]:
        """What still waits is the last part, which may be short."""
        self._send_waiting()
        return self._parts

    def _wait_for_more(self, piece: Segment) -> None:
        """In pieces of a part's size, so that no part takes much memory."""
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
        """In equal parts, so that no rest is too short."""
        number = -(-piece.length // self._largest_copy)
        start = 0
        for position in range(1, number + 1):
            end = piece.length * position // number
            self._parts.append(CopiedPart(Range(piece.path, piece.offset + start, end - start)))
            start = end

    def _take_from_last_copy(self, missing: int) -> bool:
        """Fill up what waits with the end of the part before it, so that the next range can be copied whole."""
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
