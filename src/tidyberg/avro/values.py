"""Builds Arrow arrays from the positions that `walk.py` recorded, a whole column at a time."""

from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa

from tidyberg.avro.container import AvroError
from tidyberg.avro.walk import Fields
from tidyberg.varints import Buffer, Positions


def column(fields: Fields, name: str, kind: pa.DataType) -> pa.Array:
    """Returns the values of a field. They are null where the field is null or missing from the schema."""
    at = fields.positions.get(name)
    if at is None:
        return pa.nulls(fields.rows, kind)
    found = np.flatnonzero(at)
    values = _values(fields.buffer, at[found], fields.kinds[name].physical, fields.kinds[name].size, kind)
    if len(found) == fields.rows:
        return values
    return _spread(values, found, fields.rows)


def is_null(fields: Fields, name: str) -> pa.Array:
    at = fields.positions.get(name)
    return pa.repeat(pa.scalar(True), fields.rows) if at is None else pa.array(at == 0)


def _spread(values: pa.Array, found: Positions, rows: int) -> pa.Array:
    if len(found) == 0:
        return pa.nulls(rows, values.type)
    indices = np.zeros(rows, np.int64)
    indices[found] = np.arange(len(found))
    missing = np.ones(rows, np.bool_)
    missing[found] = False
    return values.take(pa.array(indices, mask=missing))


def _values(buffer: Buffer, at: Positions, physical: str, size: int, kind: pa.DataType) -> pa.Array:
    match physical:
        case "int" | "long":
            return pa.array(buffer.read_varints(at)).cast(kind)
        case "boolean":
            return pa.array(buffer.byte_at(at) != 0).cast(kind)
        case "double":
            return pa.array(buffer.word_at(at).view(np.float64)).cast(kind)
        case "float":
            low = (buffer.word_at(at) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
            return pa.array(low.view(np.float32)).cast(kind)
        case "bytes" | "string":
            lengths, starts = buffer.read_length(at)
            return slices(buffer, starts, lengths, kind)
        case "fixed":
            return slices(buffer, at, np.full(len(at), size, np.int64), kind)
        case "array":
            return _numbers(buffer, at, kind)
        case "null":
            return pa.nulls(len(at), kind)
    raise AvroError(f"a field of its schema is of type {physical!r}")


def slices(buffer: Buffer, starts: Positions, lengths: Positions, kind: pa.DataType) -> pa.Array:
    """Copies strings or binary values out of the buffer in one operation."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total > np.iinfo(np.int32).max:
        raise AvroError("its strings are too long to hold together")
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    source = np.repeat(starts - (ends - lengths), lengths)
    source += np.arange(total)
    content = buffer.bytes.take(source, mode="clip")
    array = pa.Array.from_buffers(kind, len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    array.validate(full=True)
    return array


def _numbers(buffer: Buffer, at: Positions, kind: pa.DataType) -> pa.Array:
    """Returns lists of numbers."""
    found = [(lanes, buffer.read_varints(here)) for lanes, here in _items(buffer, at, buffer.skip_varints)]
    owners = np.concatenate([np.array([], np.int64), *(lanes for lanes, _ in found)])
    values = np.concatenate([np.array([], np.int64), *(numbers for _, numbers in found)])
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=len(at)))))
    ordered = pa.array(values[np.argsort(owners, kind="stable")])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), ordered).cast(kind)


def list_lengths(fields: Fields, name: str) -> pa.Array:
    """Returns the length of each list, or null where there is no list."""
    at = fields.positions.get(name)
    if at is None:
        return pa.nulls(fields.rows, pa.int32())
    holders = np.flatnonzero(at)
    lengths = np.zeros(len(holders), np.int32)
    for lanes, _ in _items(fields.buffer, at[holders], fields.buffer.skip_varints):
        lengths[lanes] += 1
    return _spread(pa.array(lengths), holders, fields.rows)


def bytes_under_key(fields: Fields, name: str, key: int, kind: pa.DataType) -> pa.Array:
    """Returns the value for one key of each map from numbers to bytes, or null where there is none."""
    return bytes_under_keys(fields, name, (key,), kind)[key]


def bytes_under_keys(fields: Fields, name: str, keys: Collection[int], kind: pa.DataType) -> dict[int, pa.Array]:
    """Returns the values for some keys of each map from numbers to bytes."""
    buffer = fields.buffer
    places = _under_keys(fields, name, keys, lambda at: buffer.skip_bytes(buffer.skip_varints(at)))
    found = {}
    for key, at in places.items():
        rows = np.flatnonzero(at)
        lengths, starts = buffer.read_length(at[rows])
        found[key] = _spread(slices(buffer, starts, lengths, kind), rows, fields.rows)
    return found


def numbers_under_keys(fields: Fields, name: str, keys: Collection[int]) -> dict[int, pa.Array]:
    """Returns the values for some keys of each map from numbers to numbers."""
    buffer = fields.buffer
    found = {}
    for key, at in _under_keys(fields, name, keys, lambda at: buffer.skip_varints(at, 2)).items():
        rows = np.flatnonzero(at)
        found[key] = _spread(pa.array(buffer.read_varints(at[rows])), rows, fields.rows)
    return found


def _under_keys(
    fields: Fields, name: str, keys: Collection[int], skip: Callable[[Positions], Positions]
) -> dict[int, Positions]:
    """Returns where the values of some keys begin in each map, or 0 where there is none."""
    places = {key: np.zeros(fields.rows, np.int64) for key in keys}
    at = fields.positions.get(name)
    if at is None:
        return places
    buffer = fields.buffer
    holders = np.flatnonzero(at)
    for lanes, here in _items(buffer, at[holders], skip):
        numbers = buffer.read_varints(here)
        for key, place in places.items():
            hits = np.flatnonzero(numbers == key)
            if len(hits):
                place[holders[lanes[hits]]] = buffer.skip_varints(here[hits])
    return places


def _items(
    buffer: Buffer, at: Positions, skip: Callable[[Positions], Positions]
) -> Iterator[tuple[Positions, Positions]]:
    """Yields the first items of all lists, then the second ones, and so on.

    Each step yields the lists that have such an item, and the positions where these items begin.
    """
    at, left, lanes = at.copy(), np.zeros(len(at), np.int64), np.arange(len(at))
    stated = np.zeros(len(at), np.int64)  # where the items end, for blocks that give their length in bytes
    while len(lanes):
        opened = lanes[left[lanes] == 0]
        if len(opened):
            counts = buffer.read_varints(at[opened])
            at[opened] = buffer.skip_varints(at[opened])
            sized = opened[counts < 0]
            if len(sized):
                lengths, at[sized] = buffer.read_length(at[sized])
                stated[sized] = at[sized] + lengths
            left[opened] = np.abs(counts)
            lanes = lanes[left[lanes] > 0]
        yield lanes, at[lanes]
        at[lanes] = skip(at[lanes])
        left[lanes] -= 1
        if stated.any():
            closed = lanes[(left[lanes] == 0) & (stated[lanes] > 0)]
            if (at[closed] != stated[closed]).any():
                raise AvroError("the items of a list do not fill it")
            stated[closed] = 0
        if at.max(initial=0) > buffer.ends[-1]:
            raise AvroError("a list goes on beyond the end")
