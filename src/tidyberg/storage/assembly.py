"""What a file is put together from: ranges of other files and a few literal bytes, in order."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of another file, to be copied as they are."""

    path: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes of ours: the magic number, page indexes with new offsets, the footer."""

    content: bytes

    @property
    def length(self) -> int:
        return len(self.content)


Segment = Range | Literal


@dataclass(frozen=True, slots=True)
class AssembledFile:
    """One output: its segments laid end to end are the whole file."""

    path: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Files that are ready to be written: by `write_assembly.py`, or inside an object store that can copy ranges."""

    files: tuple[AssembledFile, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """What writing an assembly took."""

    bytes_moved: int = 0  # copied inside the store


def joined(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The same bytes in as few segments as possible: neighbours in one file become one range."""
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
