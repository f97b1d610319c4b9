"""The parts of a multipart upload have the bytes of the file, and respect S3's limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.storage.assembly import Literal, Range, Segment
from tidyberg.storage.s3.part_plan import (
    LARGEST_COPY,
    LARGEST_UPLOAD,
    MB,
    SMALLEST_PART,
    CopiedPart,
    Part,
    UploadedPart,
    plan_parts,
    uploaded_bytes,
)

KB = 1024

literals = st.integers(0, 40 * KB).map(lambda length: Literal(b"x" * length))
lengths = st.one_of(
    st.integers(1, 64 * KB),
    st.integers(1, 6 * MB),
    st.integers(SMALLEST_PART - 2, SMALLEST_PART + 2),
    st.integers(5 * MB, 200 * MB),
    st.integers(LARGEST_COPY - 1, 3 * LARGEST_COPY),
)
ranges = st.builds(Range, st.sampled_from(["s3://b/1", "s3://b/2", "s3://c/3"]), st.integers(0, 10 * MB), lengths)
files = st.lists(st.one_of(ranges, literals), min_size=1, max_size=40)


def flat(segments: list[Segment] | tuple[Segment, ...]) -> list[tuple[str, int, int]]:
    """Returns the bytes of segments as runs. Adjacent ranges are one run."""
    runs: list[tuple[str, int, int]] = []
    seen = 0
    for segment in segments:
        if isinstance(segment, Range):
            path, start, end = segment.path, segment.offset, segment.end
        else:  # literal bytes are numbered in order
            path, start, end = "", seen, seen + segment.length
            seen = end
        if runs and runs[-1][0] == path and runs[-1][2] == start:
            runs[-1] = (path, runs[-1][1], end)
        elif end > start:
            runs.append((path, start, end))
    return runs


def segments_of(parts: list[Part]) -> list[Segment]:
    return [s for part in parts for s in (part.segments if isinstance(part, UploadedPart) else (part.source,))]


@given(files)
def test_parts_one_after_the_other_are_the_file(segments: list[Segment]) -> None:
    parts = plan_parts(segments)
    assert flat(segments_of(parts)) == flat(segments)


@given(files)
def test_parts_keep_to_the_limits(segments: list[Segment]) -> None:
    parts = plan_parts(segments)
    assert all(part.length >= SMALLEST_PART for part in parts[:-1])
    assert all(part.length <= LARGEST_COPY for part in parts if isinstance(part, CopiedPart))
    assert all(part.length <= LARGEST_UPLOAD + SMALLEST_PART for part in parts if isinstance(part, UploadedPart))
    assert all(part.length > 0 for part in parts)
    assert len(parts) <= 10_000


@given(files)
def test_only_small_ranges_and_little_more_are_uploaded(segments: list[Segment]) -> None:
    """A run of literal bytes or short ranges uploads at most one smallest part in addition."""
    parts = plan_parts(segments)
    short = [s for s in segments if isinstance(s, Literal) or s.length < 2 * SMALLEST_PART]
    assert uploaded_bytes(parts) <= sum(s.length for s in short) + SMALLEST_PART * len(short)


@given(st.lists(st.integers(64 * MB, 512 * MB), min_size=4, max_size=12), st.integers(1 * KB, 300 * KB))
def test_hardly_any_bytes_of_large_row_groups_pass_through_the_worker(groups: list[int], footer: int) -> None:
    """The file has the layout of a copy: magic number, row groups, page indexes and footer."""
    files = [Range(f"s3://b/{number}", 4, length) for number, length in enumerate(groups)]
    parts = plan_parts([Literal(b"PAR1"), *files, Literal(b"f" * footer)])
    assert uploaded_bytes(parts) == footer
    assert uploaded_bytes(parts) < 0.02 * sum(part.length for part in parts)


def test_the_first_bytes_come_from_the_first_input() -> None:
    parts = plan_parts([Literal(b"PAR1"), Range("a", 4, 8 * MB), Literal(b"end")])
    assert parts == [CopiedPart(Range("a", 0, 8 * MB + 4)), UploadedPart((Literal(b"end"),))]


def test_adjacent_ranges_are_copied_as_one() -> None:
    parts = plan_parts([Range("a", 0, 3 * MB), Range("a", 3 * MB, 3 * MB), Literal(b"end")])
    assert parts == [CopiedPart(Range("a", 0, 6 * MB)), UploadedPart((Literal(b"end"),))]


def test_a_part_that_is_too_short_takes_bytes_from_the_part_before_it() -> None:
    parts = plan_parts([Range("a", 0, 20 * MB), Literal(b"x" * MB), Range("b", 0, 6 * MB)])
    assert parts == [
        CopiedPart(Range("a", 0, 16 * MB)),
        UploadedPart((Range("a", 16 * MB, 4 * MB), Literal(b"x" * MB))),
        CopiedPart(Range("b", 0, 6 * MB)),
    ]


@pytest.mark.parametrize("total", [60_000 * 512 * MB // 10, 40_000 * MB])
def test_a_huge_file_has_no_more_parts_than_allowed(total: int) -> None:
    parts = plan_parts([Range("a", 0, total), Literal(b"x")])
    assert len(parts) <= 10_000
    small = [Range(f"{n}", 0, 4 * MB) for n in range(3000)]
    assert len(plan_parts(small)) <= 10_000
