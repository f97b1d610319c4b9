"""A checksum of rows that does not depend on their order, their batches or how Arrow encodes them.

This is our own code because no library on the executors hashes nested Arrow rows. Every value is hashed to 64 bits,
the values of a row are combined into two 64-bit lanes, and the lanes are summed over all rows. With XOR instead of
sums, two equal rows would cancel each other out. The checksum finds mistakes, not attacks: the hash has no secret.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_SLICE_ROWS = 16_384  # intermediate arrays of this many rows stay in the processor's cache
_LONG_VALUE = 256  # longer values are hashed one by one; the loop over words suits short ones

_SHIFT = np.uint64(32)
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0x9AE16A3B2F90404F)
_STRUCT = np.uint64(0xC3A5C85C97CB3127)
_LIST = np.uint64(0xB492B66FBE98F273)
_BYTES = np.uint64(0x8648DBDBA1A1F2C9)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK_64 = (1 << 64) - 1
_LOW_BYTES = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)


class RowChecksum:
    """Two equal digests mean the same multiset of rows, with the columns in the same order.

    Null, zero and empty are different values, and so are 0.0 and -0.0. All NaNs are one value. The Arrow type does not
    matter: a dictionary-encoded column equals a plain one, and a large string equals a string.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._first = 0
        self._second = 0

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            for first, second in row_hashes(part):
                self._first = (self._first + int(first.sum(dtype=np.uint64))) & _MASK_64
                self._second = (self._second + int(second.sum(dtype=np.uint64))) & _MASK_64
            self.rows += part.num_rows

    def hexdigest(self) -> str:
        return f"{self._first:016x}{self._second:016x}{self.rows:016x}"


def sum_digests(digests: Iterable[str]) -> str:
    """Combines the digests of disjoint sets of rows into the digest of all rows."""
    first = second = rows = 0
    for digest in digests:
        first += int(digest[:16], 16)
        second += int(digest[16:32], 16)
        rows += int(digest[32:], 16)
    return f"{first & _MASK_64:016x}{second & _MASK_64:016x}{rows:016x}"


def row_hashes(batch: pa.RecordBatch) -> Iterator[tuple[Hashes, Hashes]]:
    """Yields both lanes of the rows, in order, some thousand rows at a time."""
    columns = [_slices(column) for column in batch.columns]
    for start in range(0, batch.num_rows, _SLICE_ROWS):
        rows = min(_SLICE_ROWS, batch.num_rows - start)
        yield _combine((column(start) for column in columns), rows)


def _slices(column: pa.Array) -> Callable[[int], Hashes]:
    """Returns a function that hashes the slice from a row on. It hashes the values of a dictionary only once."""
    if pa.types.is_dictionary(column.type):
        hashes = _hash(column)
        return lambda start: hashes[start : start + _SLICE_ROWS]
    return lambda start: _hash(column.slice(start, _SLICE_ROWS))


def _combine(columns: Iterable[Hashes], rows: int) -> tuple[Hashes, Hashes]:
    """Returns two lanes per row. Every column has its own multipliers, so swapped values change the result."""
    first, second = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
    for position, hashes in enumerate(columns):
        first += hashes * _odd(2 * position)
        second += hashes * _odd(2 * position + 1)
    return _mix(first), _mix(second)


def _hash(array: pa.Array) -> Hashes:
    """Returns one well-mixed number per value."""
    if isinstance(array, pa.ExtensionArray):
        return _hash(array.storage)
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    kind = array.type
    if pa.types.is_dictionary(kind):
        hashes = _hash_dictionary(array)
    elif pa.types.is_struct(kind):
        fields = (_hash(array.field(position)) for position in range(kind.num_fields))
        hashes = _mix(_combine(fields, len(array))[0] + _STRUCT)
    elif pa.types.is_fixed_size_list(kind):
        starts = (np.arange(len(array) + 1) + array.offset) * kind.list_size
        hashes = _hash_lists(array.values, starts)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        hashes = _hash_lists(array.values, array.offsets.to_numpy().astype(np.int64))
    else:
        hashes = _hash_leaf(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hash_dictionary(array: pa.DictionaryArray) -> Hashes:
    values = _hash(array.dictionary)
    indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    hashes: Hashes = values[indices]  # the caller overwrites null indices; a null value has the hash of null
    return hashes


def _hash_lists(values: pa.Array, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Mixes each element with its place in the list, and sums per list with differences of a running sum."""
    lengths = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    elements = _hash(values.slice(first, last - first))
    places = np.arange(first, last) - np.repeat(offsets[:-1], lengths)
    elements = _mix(elements + places.astype(np.uint64) * _GOLDEN)
    running = np.zeros(last - first + 1, np.uint64)
    np.cumsum(elements, out=running[1:])
    sums = running[offsets[1:] - first] - running[offsets[:-1] - first]
    return _mix(sums + lengths.astype(np.uint64) * _GOLDEN + _LIST)


def _hash_leaf(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_boolean(kind):
        return _mix(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_floating(kind):
        return _hash_floats(array)
    if pa.types.is_decimal(kind):
        wide = kind if kind.bit_width >= 128 else pa.decimal128(kind.precision, kind.scale)
        return _hash_fixed(array.cast(wide), wide.bit_width // 8)
    if pa.types.is_fixed_size_binary(kind):
        return _hash_fixed(array, kind.byte_width)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_bytes(array, np.int32)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_bytes(array, np.int64)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _hash_bytes(array.cast(pa.large_binary()), np.int64)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return _hash_integers(array)
    raise TypeError(f"values of type {kind} have no checksum")


def _hash_integers(array: pa.Array) -> Hashes:
    """Hashes the sign-extended value, whatever its width. Dates and times are integers underneath."""
    kind = array.type
    name = f"{'u' if pa.types.is_unsigned_integer(kind) else ''}int{kind.bit_width}"
    width = kind.bit_width // 8
    numbers = np.frombuffer(array.buffers()[1], name, len(array), array.offset * width)
    if name != "uint64":
        numbers = numbers.astype(np.int64)
    return _mix(numbers.astype(np.uint64))


def _hash_floats(array: pa.Array) -> Hashes:
    numbers = array.to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan
    return _mix(numbers.view(np.uint64))


def _hash_fixed(array: pa.Array, width: int) -> Hashes:
    """Hashes values of one width, such as decimals and UUIDs, as rows of 64-bit words."""
    rows = len(array)
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8, offset=array.offset * width, count=rows * width)
    padded = np.zeros((rows, -(-width // 8) * 8), np.uint8)
    padded[:, :width] = raw.reshape(rows, width)
    hashes = np.full(rows, _BYTES)
    for word in padded.view("<u8").T:
        hashes = _mix(hashes * _GOLDEN + word)
    return hashes


def _hash_bytes(array: pa.Array, offset_type: type[np.int32] | type[np.int64]) -> Hashes:
    """Hashes strings and binaries, eight bytes of every value at a time."""
    _, offsets_buffer, data_buffer = array.buffers()
    rows = len(array)
    itemsize = np.dtype(offset_type).itemsize
    offsets = np.frombuffer(offsets_buffer, offset_type, rows + 1, array.offset * itemsize).astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + 8, np.uint8)  # eight bytes more, so that the last word can be read whole
    if end > begin:
        data[: end - begin] = np.frombuffer(data_buffer, np.uint8, end - begin, begin)
    starts, lengths = offsets[:-1] - begin, np.diff(offsets)
    hashes = _mix(lengths.astype(np.uint64) * _GOLDEN + _BYTES)
    _mix_in_words(hashes, data, starts, lengths)
    for row in np.flatnonzero(lengths > _LONG_VALUE):
        value = data[starts[row] : starts[row] + lengths[row]]
        hashes[row] = int.from_bytes(hashlib.blake2b(value.data, digest_size=8).digest(), "little")
    return hashes


def _mix_in_words(
    hashes: Hashes, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    """Mixes values word by word. Values that have ended drop out; long values are skipped altogether."""
    words: Hashes = np.ndarray(
        (len(data) - 7,), dtype="<u8", buffer=data, strides=(1,)
    )  # one word starts at every byte
    remaining = np.where(lengths > _LONG_VALUE, 0, lengths)
    active = np.flatnonzero(remaining > 0)
    place = starts[active]
    remaining = remaining[active]
    current = hashes[active]
    while len(active):
        word = words[place] & _LOW_BYTES[np.minimum(remaining, 8)]
        current = _mix(current * _GOLDEN + word)
        hashes[active] = current
        remaining = remaining - 8
        place = place + 8
        continuing = remaining > 0
        if not continuing.all():
            active, current = active[continuing], current[continuing]
            place, remaining = place[continuing], remaining[continuing]


def _mix(numbers: Hashes) -> Hashes:
    """Spreads every input bit over all output bits, in place."""
    numbers ^= numbers >> _SHIFT
    numbers *= _MULTIPLIER
    numbers ^= numbers >> _SHIFT
    numbers *= _MULTIPLIER
    numbers ^= numbers >> _SHIFT
    return numbers


def _odd(number: int) -> np.uint64:
    """Returns the multiplier of a column's lane: a fixed odd number, different for each lane."""
    mixed = _mix(np.array([number + 1], np.uint64) * _GOLDEN)
    return np.uint64(mixed[0] | np.uint64(1))
