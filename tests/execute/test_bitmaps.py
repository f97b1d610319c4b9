"""Deletion vectors as any writer may encode them, checked against Roaring's own library."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tidyberg.execute.kernel.deletes.bitmaps import read_deletion_vector
from tidyberg.failures import KernelFailure


def blob_of(positions: list[int], *, optimize: bool = False) -> bytes:
    bitmap = BitMap64(positions)
    if optimize:
        bitmap.run_optimize()
    content = b"\xd1\xd3\x39\x64" + bitmap.serialize()
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


ranges = st.tuples(st.integers(0, 2**34), st.integers(1, 9000)).map(lambda pair: range(pair[0], sum(pair)))
scattered = st.lists(st.integers(0, 2**34), max_size=300)


@given(st.lists(ranges, max_size=4), scattered, st.booleans())
def test_every_encoding_gives_the_positions_that_went_in(runs: list[range], single: list[int], optimize: bool) -> None:
    positions = sorted({*single, *(position for run in runs for position in run)})
    found = read_deletion_vector(blob_of(positions, optimize=optimize), "test")
    assert found.dtype == np.int64
    assert found.tolist() == positions


@given(st.binary(max_size=200))
def test_garbage_is_refused(blob: bytes) -> None:
    with pytest.raises(KernelFailure):
        read_deletion_vector(blob, "test")


@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_flipped_byte_is_refused(at: int, flip: int) -> None:
    blob = bytearray(blob_of([1, 5, 70_000, *range(100, 9000)]))
    blob[at % len(blob)] ^= flip
    with pytest.raises(KernelFailure, match="is damaged"):
        read_deletion_vector(bytes(blob), "test")


def framed(bitmaps: bytes) -> bytes:
    content = b"\xd1\xd3\x39\x64" + bitmaps
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def one_run(key: int, start: int, more: int) -> bytes:
    """A 64-bit bitmap of one run container."""
    cookie = struct.pack("<I", 12347) + b"\x01"
    return struct.pack("<QI", 1, key) + cookie + struct.pack("<HHHHH", 0, more, 1, start, more)


def test_positions_reach_as_far_as_63_bits() -> None:
    assert read_deletion_vector(framed(one_run(0x7FFFFFFF, 65_530, 5)), "test").tolist() == [
        (0x7FFFFFFF << 32) + low for low in range(65_530, 65_536)
    ]


@pytest.mark.parametrize(
    ("bitmaps", "said"),
    [
        (one_run(0x80000000, 0, 1), "63 bits"),
        (one_run(0, 65_530, 6), "exceeds its container"),
        (one_run(0, 5, 1)[:-1], "ends too early"),
        (one_run(0, 5, 1) + b"\x00", "after its last bitmap"),
        (struct.pack("<Q", 2) + one_run(0, 5, 1)[8:], "is damaged"),
        (struct.pack("<QIII", 1, 0, 4711, 0), "unknown cookie"),
    ],
)
def test_an_impossible_bitmap_is_refused_though_its_checksum_matches(bitmaps: bytes, said: str) -> None:
    with pytest.raises(KernelFailure, match=said):
        read_deletion_vector(framed(bitmaps), "test")
