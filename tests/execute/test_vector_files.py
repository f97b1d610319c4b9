"""Deletion vectors as this kernel encodes them, read by Roaring's own library and by our reader."""

import json
import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tidyberg.execute.kernel.deletes.bitmaps import read_deletion_vector
from tidyberg.execute.kernel.deletes.vector_files import deletion_vector, puffin_file

ranges = st.tuples(st.integers(0, 2**34), st.integers(1, 9000)).map(lambda pair: range(pair[0], sum(pair)))
scattered = st.lists(st.integers(0, 2**34) | st.integers(0, 300_000), max_size=300)
dense = st.integers(0, 2**33).map(lambda start: range(start, start + 40_000, 3))  # bitmaps rather than arrays


@given(st.lists(ranges | dense, max_size=4), scattered)
def test_roaring_and_our_reader_find_the_positions_that_went_in(runs: list[range], single: list[int]) -> None:
    positions = sorted({*single, *(position for run in runs for position in run)})
    blob = deletion_vector(np.array(positions, np.int64))
    length, magic = struct.unpack_from(">I4s", blob)
    assert length == len(blob) - 8
    assert magic == b"\xd1\xd3\x39\x64"
    assert struct.unpack(">I", blob[-4:]) == (zlib.crc32(blob[4:-4]),)
    assert list(BitMap64.deserialize(blob[8:-4])) == positions
    assert read_deletion_vector(blob, "test").tolist() == positions


def test_runs_are_stored_as_runs() -> None:
    assert len(deletion_vector(np.arange(1_000_000))) < 1000


def test_a_puffin_file_says_where_its_vectors_are() -> None:
    content, placed = puffin_file([("a", np.array([1, 5])), ("b", np.array([7]))])
    assert (content[:4], content[-4:]) == (b"PFA1", b"PFA1")
    (size,) = struct.unpack_from("<I", content, len(content) - 12)
    footer = json.loads(content[-12 - size : -12])
    assert content[-16 - size : -12 - size] == b"PFA1"
    assert [blob["properties"]["referenced-data-file"] for blob in footer["blobs"]] == ["a", "b"]
    assert [(blob["offset"], blob["length"]) for blob in footer["blobs"]] == [(one.offset, one.size) for one in placed]
    first = content[placed[0].offset : placed[0].offset + placed[0].size]
    assert read_deletion_vector(first, "test").tolist() == [1, 5]
