"""The codec keeps what it does not know, and refuses what is not thrift at all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.parquet.errors import BadThriftError
from tidyberg.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TRUE,
    UUID,
    ThriftList,
    ThriftMap,
    read_struct,
    write_struct,
)

numbers = st.integers(-(2**63), 2**63 - 1)
plain: dict[int, st.SearchStrategy[Any]] = {
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: numbers,
    BINARY: st.binary(max_size=200),
    DOUBLE: st.binary(min_size=8, max_size=8),
    UUID: st.binary(min_size=16, max_size=16),
    BYTE: st.integers(0, 255),
}


def lists_of(structs: st.SearchStrategy[Any]) -> st.SearchStrategy[ThriftList]:
    kinds = [*((kind, values) for kind, values in plain.items()), (STRUCT, structs), (TRUE, st.integers(1, 2))]
    return st.one_of(*(st.builds(ThriftList, st.just(kind), st.lists(values, max_size=20)) for kind, values in kinds))


def maps() -> st.SearchStrategy[ThriftMap]:
    pairs = st.lists(st.tuples(plain[BINARY], numbers), min_size=1, max_size=5)
    return st.builds(ThriftMap, st.just(BINARY), st.just(I64), pairs)


def fields_of(structs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    value = st.one_of(
        *(st.tuples(st.just(kind), values) for kind, values in plain.items()),
        st.tuples(st.just(TRUE), st.booleans()),
        st.tuples(st.just(STRUCT), structs),
        st.tuples(st.sampled_from([LIST, SET]), lists_of(structs)),
        st.tuples(st.just(MAP), maps()),
    )
    return st.dictionaries(st.integers(1, 32767), value, max_size=8)


structs: st.SearchStrategy[Any] = st.recursive(st.just({}), fields_of, max_leaves=10)


@given(structs)
def test_every_structure_comes_back_as_it_was(struct: Any) -> None:
    written = write_struct(struct)
    found, end = read_struct(b"xx" + written + b"yy", 2)
    assert (found, end) == (struct, 2 + len(written))
    assert list(found) == list(struct)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_structure_are_refused(content: bytes) -> None:
    try:
        struct, end = read_struct(content)
    except BadThriftError:
        return
    assert end <= len(content)
    assert read_struct(write_struct(struct))[0] == struct


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x15",
        b"\x18\xff\xff\xff\xff\x0fabc",  # a string longer than all bytes
        b"\x19\xfc\xff\xff\xff\xff\x0f",  # a list of two billion structures
        b"\x1c" * 5000,  # structures without end
        b"\x19\x1c" * 5000,
        b"\x16" + b"\xff" * 20,
        b"\x15\x02\x05\x02\x04\x00",  # the same field twice
        b"\x1e\x00",
    ],
)
def test_damage_is_refused_quickly(content: bytes) -> None:
    with pytest.raises(BadThriftError):
        read_struct(content)
