"""Parquet's RLE/bit-packing hybrid encoding, which levels and dictionary indices use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.thrift import varint

_WIDEST_INDEX = 20  # bits; writers do not keep larger dictionaries
_GROUP = 8  # values; bit-packed runs consist of groups of eight
_GROUPS_IN_A_RUN = 63  # the largest count that fits the single byte that all writers use
_FULL_RUN = _GROUPS_IN_A_RUN << 1 | 1
_MOST_RUNS = 100  # of levels in a page, because Python code handles each
_LONGEST_COUNT = 35  # bits of the varint that counts values


@dataclass(frozen=True, slots=True)
class Levels:
    """The definition levels of a page of a column that is not repeated."""

    values: int
    present: int  # the number of values that are not null
    each: npt.NDArray[np.uint8] | None  # None if all values are present


def decode_levels(content: bytes, values: int, most: int) -> Levels:
    """Decodes definition levels. `most` is the level of a value that is present."""
    pieces, seen = [], 0
    for packed, count, piece in _runs(content, most.bit_length()):
        if packed:
            pieces.append(_unpacked(piece, most.bit_length()))
        elif piece[0] == most and count >= values and not pieces:
            return Levels(values, values, None)
        else:
            pieces.append(np.full(min(count, values), piece[0], np.uint8))
        seen += count
        if seen >= values:
            break
        if len(pieces) > _MOST_RUNS:
            raise CannotCopy("its nulls are scattered, so decoding is as fast")
    if seen < values:
        raise CannotCopy("a page has fewer levels than values")
    each = np.concatenate(pieces)[:values] if pieces else np.zeros(0, np.uint8)
    if each.size and int(each.max()) > most:
        raise CannotCopy("a page has invalid levels")
    present = int(np.count_nonzero(each == most))
    return Levels(values, present, None if present == values else each)


def encode_levels(pages: Sequence[Levels], most: int) -> bytes:
    """Encodes the levels of several pages as those of one page."""
    width, values = most.bit_length(), sum(page.values for page in pages)
    if all(page.each is None for page in pages):
        return varint(values << 1) + bytes([most])
    each = np.concatenate([np.full(page.values, most, np.uint8) if page.each is None else page.each for page in pages])
    padded = np.concatenate([each, np.zeros(-values % _GROUP, np.uint8)])
    packed = _packed(padded, width)
    run = _GROUPS_IN_A_RUN * width
    return b"".join(
        bytes([len(packed[start : start + run]) // width << 1 | 1]) + packed[start : start + run]
        for start in range(0, len(packed), run)
    )


def counts_up(indices: bytes, first: int, values: int) -> bool:
    """Returns True if the indices are `first`, `first` + 1, and so on. The first byte is their bit width."""
    if not values:
        return True
    width = indices[0] if indices else 0
    if not 0 < width <= _WIDEST_INDEX or first + values > 1 << width:
        return (width, first, values) == (0, 0, 1)  # a single entry takes no bits
    found, seen, rest = _even_runs(indices[1:], width)
    for packed, count, piece in _runs(rest, width):
        if seen >= values:
            break
        if not packed:  # an RLE run repeats an index, so it can hold only a single value
            return (seen, count, values) == (0, 1, 1) and int.from_bytes(piece, "little") == first
        found += piece
        seen += count
    whole, bits = divmod(values * width, 8)
    expected = _counting_from(first, values, width)
    if seen < values or found[:whole] != expected[:whole]:
        return False
    return not bits or not (found[whole] ^ expected[whole]) & ((1 << bits) - 1)


def _even_runs(content: bytes, width: int) -> tuple[bytes, int, bytes]:
    """Returns the packed bytes of the leading runs of full length, their number of values, and the rest."""
    length = 1 + _GROUPS_IN_A_RUN * width
    runs = np.frombuffer(content, np.uint8)[: len(content) // length * length].reshape(-1, length)
    is_full = runs[:, 0] == _FULL_RUN
    count = len(runs) if is_full.all() else int(is_full.argmin())
    return runs[:count, 1:].tobytes(), count * _GROUPS_IN_A_RUN * _GROUP, content[count * length :]


def _runs(content: bytes, width: int) -> Iterator[tuple[bool, int, bytes]]:
    """Yields whether a run is bit-packed, its number of values, and their bytes. Raises CannotCopy if it is cut off."""
    position = 0
    while position < len(content):
        header, position = _read_varint(content, position)
        packed, count = bool(header & 1), header >> 1
        size = count * width if packed else (width + 7) // 8
        if position + size > len(content):
            raise CannotCopy("a page ends too early")
        yield packed, count * _GROUP if packed else count, content[position : position + size]
        position += size


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _LONGEST_COUNT and position < len(content):
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise CannotCopy("a page ends too early")


def _counting_from(first: int, values: int, width: int) -> bytes:
    """Returns the bit-packed numbers from `first` on, possibly with more numbers after them."""
    start, shift = divmod(first * width, 8)
    cut = _all_numbers(width)[start : start + (values * width + 7) // 8 + 1]
    return (cut[:-1] >> shift | cut[1:] << (8 - shift)).tobytes() if shift else cut.tobytes()


@cache
def _all_numbers(width: int) -> npt.NDArray[np.uint8]:
    numbers = np.arange(1 << width, dtype="<u4").view(np.uint8).reshape(-1, 4)
    bits = np.unpackbits(numbers, axis=1, bitorder="little")[:, :width]
    return np.concatenate([np.packbits(bits, bitorder="little"), np.zeros(2, np.uint8)])


def _unpacked(content: bytes, width: int) -> npt.NDArray[np.uint8]:
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    return bits if width == 1 else np.packbits(bits.reshape(-1, width), axis=1, bitorder="little")[:, 0]


def _packed(levels: npt.NDArray[np.uint8], width: int) -> bytes:
    bits = np.unpackbits(levels.reshape(-1, 1), axis=1, bitorder="little")[:, :width]
    return np.packbits(bits, bitorder="little").tobytes()
