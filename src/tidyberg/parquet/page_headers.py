"""Reads thousands of page headers at once with numpy, and writes new ones of a fixed length."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.varints import Buffer, Positions

DATA_PAGE, DICTIONARY_PAGE = 0, 2
HEADER_BYTES = 29
_I32, _STRUCT = 0x15, 0x0C  # Thrift: the header of the next field if it is an i32; the type of a struct field
_AFTER_SIZES = 3  # the id of the last size field
_CHECKSUM, _DATA_FIELD, _DICTIONARY_FIELD = 4, 5, 7
_MOST_STATISTICS = 16  # fields
_NOWHERE = 0  # a position in every buffer, for lanes that have nothing to read
_PADDED = 5  # bytes of a varint that is written with leading zeros
_LONG_PADDED = 9

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PageHeaders:
    """Page headers, one per lane. The numbers of lanes that are not `known` are undefined."""

    known: Mask  # a dictionary or a data page of the first version
    kind: Positions
    uncompressed: Positions
    compressed: Positions
    values: Positions
    encoding: Positions
    definition_levels: Positions  # their encoding; 0 for dictionaries
    repetition_levels: Positions
    ends: Positions  # where the bytes of the page begin


def read_headers(buffer: Buffer, at: Positions) -> PageHeaders:
    known = np.ones(len(at), np.bool_)

    def number() -> Positions:
        nonlocal at, known
        known = known & (buffer.byte_at(at) == _I32)
        found = buffer.read_varints(at + 1)
        at = buffer.skip_varints(at + 1)
        return found

    kind, uncompressed, compressed = number(), number(), number()
    has_checksum = buffer.byte_at(at) == _I32
    at = np.where(has_checksum, buffer.skip_varints(at + 1), at)
    begin = buffer.byte_at(at)
    is_data = kind == DATA_PAGE
    known &= is_data | (kind == DICTIONARY_PAGE)
    known &= (begin & 0x0F) == _STRUCT
    field = np.where(has_checksum, _CHECKSUM, _AFTER_SIZES) + (begin >> 4)
    known &= field == np.where(is_data, _DATA_FIELD, _DICTIONARY_FIELD)
    at = at + 1
    values, encoding = number(), number()
    behind, still_known = at, known
    at = np.where(is_data, at, _NOWHERE)  # dictionaries have no levels
    definition_levels, repetition_levels = number(), number()
    at = np.where(is_data, at, behind)
    known = np.where(is_data, known, still_known)
    ends, closed = _skip_rest(buffer, at)
    return PageHeaders(
        known=known & closed,
        kind=kind,
        uncompressed=uncompressed,
        compressed=compressed,
        values=values,
        encoding=encoding,
        definition_levels=np.where(is_data, definition_levels, 0),
        repetition_levels=np.where(is_data, repetition_levels, 0),
        ends=ends,
    )


def _skip_rest(buffer: Buffer, at: Positions) -> tuple[Positions, Mask]:
    """Skips to the end of both open structures. The inner one may still have statistics.

    Returns the positions after them, and whether both structures were closed.
    """
    depth = np.full(len(at), 2)
    at = at.copy()
    for _ in range(_MOST_STATISTICS):
        open_ones = np.flatnonzero(depth)
        if not len(open_ones):
            break
        here = at[open_ones]
        begin = buffer.byte_at(here)
        kind = begin & 0x0F
        behind = here + 1
        is_number = (kind >= 4) & (kind <= 6)
        behind = np.where(is_number, buffer.skip_varints(np.where(is_number, behind, _NOWHERE)), behind)
        is_bytes = kind == 8
        if is_bytes.any():
            lengths, after = _read_lengths(buffer, behind)
            behind = np.where(is_bytes, after + lengths, behind)
        at[open_ones] = behind
        known = is_number | is_bytes | (kind <= 2) | (kind == _STRUCT)
        # A field of another type keeps its lane open to the end.
        depth[open_ones] += np.where(kind == _STRUCT, 1, np.where(begin == 0, -1, 0)) + np.where(known, 0, 64)
    return at, depth == 0


def _read_lengths(buffer: Buffer, at: Positions) -> tuple[Positions, Positions]:
    """Reads the lengths of bytes, which are unsigned varints. Returns them and the positions after them."""
    first = buffer.byte_at(at)
    if (first < 0x80).all():
        return first.astype(np.int64), at + 1
    second = buffer.byte_at(at + 1)
    is_short = first < 0x80
    lengths = np.where(is_short, first, (first & 0x7F).astype(np.int64) | second.astype(np.int64) << 7)
    # Lengths above 16,383 are read wrongly. Then the page is not where it should be, and the caller gives up.
    return lengths, at + np.where(is_short, 1, 2)


def write_headers(headers: PageHeaders) -> Bytes:
    """Returns one header per page, for uncompressed pages with the same values, without checksum and statistics."""
    is_data = headers.kind == DATA_PAGE
    rows = np.where(is_data[:, None], _DATA_TEMPLATE, _DICTIONARY_TEMPLATE)
    size = padded(headers.uncompressed, _PADDED)
    rows[:, 3:8] = rows[:, 9:14] = size
    of_data, of_dictionary = np.flatnonzero(is_data), np.flatnonzero(~is_data)
    rows[of_data, 16:21] = padded(headers.values[of_data], _PADDED)
    rows[of_dictionary, 16:25] = padded(headers.values[of_dictionary], _LONG_PADDED)
    # Encodings are small numbers, of one byte each.
    rows[of_data, 22] = headers.encoding[of_data] << 1
    rows[of_data, 24] = headers.definition_levels[of_data] << 1
    rows[of_data, 26] = headers.repetition_levels[of_data] << 1
    rows[of_dictionary, 26] = headers.encoding[of_dictionary] << 1
    return rows


def padded(numbers: Positions, width: int) -> Bytes:
    """Encodes numbers as zigzag varints of a fixed width. All bytes but the last have the continuation bit."""
    shifts = 7 * np.arange(width)
    found = ((numbers[..., None] << 1) >> shifts) & 0x7F
    found[..., :-1] |= 0x80
    return found.astype(np.uint8)


def _template(kind: int, field: int, values_width: int, numbers: int) -> Bytes:
    size = bytes([_I32, *bytes(_PADDED)])
    counted = bytes([_I32, *bytes(values_width)])
    rest = bytes([_I32, 0]) * numbers + bytes(2)
    content = bytes([_I32, kind << 1]) + size + size
    content += bytes([(field - _AFTER_SIZES) << 4 | _STRUCT]) + counted + rest
    assert len(content) == HEADER_BYTES
    return np.frombuffer(content, np.uint8)


_DATA_TEMPLATE = _template(DATA_PAGE, _DATA_FIELD, _PADDED, 3)
_DICTIONARY_TEMPLATE = _template(DICTIONARY_PAGE, _DICTIONARY_FIELD, _LONG_PADDED, 1)
