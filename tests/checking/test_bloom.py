"""Hashes of Bloom filters are equal to the values that xxHash's documentation and others publish."""

import pyarrow as pa
import pytest

from tidyberg.parquet.check.bloom import hash_values

KNOWN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


@pytest.mark.parametrize("value", KNOWN)
def test_hashes_are_those_of_xxhash(value: bytes) -> None:
    assert hash_values(pa.array([value])).tolist() == [KNOWN[value]]
    if value:
        assert hash_values(pa.array([value], pa.binary(len(value)))).tolist() == [KNOWN[value]]


def test_values_of_all_lengths_are_hashed_together() -> None:
    assert sorted(hash_values(pa.array(list(KNOWN))).tolist()) == sorted(KNOWN.values())
