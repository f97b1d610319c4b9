"""Describes files to write as a list of segments: byte ranges of other files, and literal bytes."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """A range of bytes to copy unchanged from another file."""

    path: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that we supply: the magic number, page indexes with new offsets, the footer."""

    content: bytes

    @property
    def length(self) -> int:
        return len(self.content)


Segment = Range | Literal


@dataclass(frozen=True, slots=True)
class AssembledFile:
    """One output. Its segments, one after the other, are the whole file."""

    path: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Files to write. `write_assembly.py` writes them, or an object store that can copy ranges does."""

    files: tuple[AssembledFile, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """What it cost to write an assembly."""

    bytes_moved: int = 0  # copied inside the store


def joined(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Returns the same bytes in as few segments as possible. Adjacent ranges of one file become one range."""
    found: list[Segment] = []
    for segment in segments:
        if not segment.length:
            continue
        last = found[-1] if found else None
        if (
            isinstance(segment, Range)
            and isinstance(last, Range)
            and (last.path, last.end)
            == (
                segment.path,
                segment.offset,
            )
        ):
            found[-1] = Range(last.path, last.offset, last.length + segment.length)
        elif isinstance(segment, Literal) and isinstance(last, Literal):
            found[-1] = Literal(last.content + segment.content)
        else:
            found.append(segment)
    return tuple(found)
