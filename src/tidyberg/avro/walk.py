"""Walks the records of many blocks at once. Records the positions of the wanted fields and skips the others."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tidyberg.avro.container import AvroError
from tidyberg.varints import Buffer, Positions

Skip = Callable[[Buffer, Positions], Positions]
SkipOne = Callable[[bytes, int], int]
# One numpy step over all lanes takes about as long as sixteen records in plain Python.
_FEWEST_LANES = 16
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Kind(NamedTuple):
    """How to skip a value of a type, and how to decode it."""

    skip: Skip
    skip_one: SkipOne  # the same without numpy
    physical: str
    size: int = 0  # of `fixed`


class Step(NamedTuple):
    """One field of a record: the name to record it under, or None, and the types it can have."""

    name: str | None
    options: tuple[Kind, ...]
    is_union: bool


class Fields(NamedTuple):
    """The result of a walk: the position of every wanted field in each record, or 0 where it is null."""

    buffer: Buffer
    rows: int
    positions: Mapping[str, Positions]
    kinds: Mapping[str, Kind]


class Lanes(NamedTuple):
    """How far the walk has come in each block. The walk updates the arrays."""

    at: Positions  # where the next record begins
    record: Positions  # its number among all records
    left: Positions  # how many records are left


def walk(schema_text: str, wanted: "Wanted", blocks: Sequence[tuple[int, bytes]]) -> Fields:
    """Walks blocks of files with the same schema. Records keep the order of the blocks."""
    steps = compile_steps(schema_text, wanted)
    buffer = Buffer([content for _, content in blocks])
    counts = np.array([count for count, _ in blocks], np.int64)
    rows = int(counts.sum())
    noted = {step.name: np.zeros(rows, np.int64) for step in steps if step.name is not None}
    lanes = Lanes(buffer.starts.copy(), np.cumsum(counts) - counts, counts)
    _walk_abreast(steps, buffer, lanes, noted)
    _walk_alone(steps, buffer, lanes, noted)
    if (lanes.at != buffer.ends).any():
        raise AvroError("the records of a block do not fill it")
    kinds = {step.name: _value_kind(step) for step in steps if step.name is not None}
    return Fields(buffer, rows, noted, kinds)


def _walk_abreast(steps: Sequence[Step], buffer: Buffer, lanes: Lanes, noted: Mapping[str, Positions]) -> None:
    """Walks the blocks in parallel, one lane per block, while enough of them have records left."""
    at, record, left = lanes
    # Blocks with the most records come first, so the lanes that are still busy are always the first ones.
    order = np.argsort(-left, kind="stable")
    busy = np.searchsorted(-left[order], -np.arange(int(left.max(initial=0))), side="left")
    here, row, ends = at[order], record[order], buffer.ends[order]
    rounds = int(np.searchsorted(-busy, -_FEWEST_LANES, side="right"))
    for count in busy[:rounds].tolist():
        now = here[:count]
        for step in steps:
            now = _take(step, buffer, now, row[:count], noted)
        here[:count] = now
        row[:count] += 1
        if (now > ends[:count]).any():
            raise AvroError("a record is longer than its block")
    at[order], record[order] = here, row
    left -= np.minimum(left, rounds)


def _walk_alone(steps: Sequence[Step], buffer: Buffer, lanes: Lanes, noted: Mapping[str, Positions]) -> None:
    """Walks the records that are left, block by block, in plain Python."""
    at, record, left = lanes
    if not left.any():
        return
    data = buffer.bytes.tobytes()
    for block in np.flatnonzero(left).tolist():
        here, end = int(at[block]), int(buffer.ends[block])
        begins: dict[str, list[int]] = {name: [] for name in noted}
        for _ in range(int(left[block])):
            for step in steps:
                begin, here = _take_one(step, data, here)
                if step.name is not None:
                    begins[step.name].append(begin)
            if here > end:
                raise AvroError("a record is longer than its block")
        at[block] = here
        first = int(record[block])
        for name, positions in begins.items():
            noted[name][first : first + len(positions)] = positions


def _take_one(step: Step, data: bytes, at: int) -> tuple[int, int]:
    """Returns the position where the value begins, or 0 if it is null, and the position where it ends."""
    kind = step.options[0]
    if step.is_union:
        tag = data[at]
        at += 1
        if tag % 2 or tag // 2 >= len(step.options):
            raise AvroError("a value is of a type that its schema does not have")
        kind = step.options[tag // 2]
        if kind.physical == "null":
            return 0, at
    return at, kind.skip_one(data, at)


def _take(step: Step, buffer: Buffer, at: Positions, row: Positions, noted: Mapping[str, Positions]) -> Positions:
    if not step.is_union:
        if step.name is not None:
            noted[step.name][row] = at
        return step.options[0].skip(buffer, at)
    tags = buffer.byte_at(at)
    at = at + 1
    for tag in _distinct(tags):
        if tag % 2 or tag // 2 >= len(step.options):
            raise AvroError("a value is of a type that its schema does not have")
        kind = step.options[tag // 2]
        if kind.physical == "null":
            continue
        if tag == tags[0] and (tags == tag).all():
            if step.name is not None:
                noted[step.name][row] = at
            return kind.skip(buffer, at)
        lanes = np.flatnonzero(tags == tag)
        if step.name is not None:
            noted[step.name][row[lanes]] = at[lanes]
        at[lanes] = kind.skip(buffer, at[lanes])
    return at


def _distinct(tags: Any) -> list[int]:
    first = int(tags[0])
    return [first] if (tags == first).all() else np.unique(tags).tolist()


def _value_kind(step: Step) -> Kind:
    return next((kind for kind in step.options if kind.physical != "null"), step.options[0])


class Wanted(NamedTuple):
    """The fields to record, by id. All fields of one record, the partition, can be recorded by position."""

    names: tuple[tuple[int, str], ...]
    spread: int | None = None  # id of a record
    prefix: str = ""  # the name of each of its fields is this prefix and the position


@lru_cache(maxsize=256)
def compile_steps(schema_text: str, wanted: Wanted) -> tuple[Step, ...]:
    steps = tuple(_record_steps(json.loads(schema_text), wanted, dict(wanted.names), {}))
    if any(step.is_union and _ambiguous(step) for step in steps if step.name is not None):
        raise AvroError("a field of its schema may be of several types")
    return steps


def _ambiguous(step: Step) -> bool:
    return sum(kind.physical != "null" for kind in step.options) > 1


def _record_steps(
    record: Mapping[str, Any], wanted: Wanted, names: Mapping[int, str], types: dict[str, Any]
) -> Iterator[Step]:
    for field in record["fields"]:
        kind, field_id = field["type"], field.get("field-id")
        if isinstance(kind, str) and kind in types:
            kind = types[kind]
        is_record = isinstance(kind, dict) and kind["type"] == "record"
        if is_record and "name" in kind:
            types[kind["name"]] = kind
        if is_record and field_id == wanted.spread and field_id is not None:
            for number, inner in enumerate(kind["fields"]):
                yield _step(f"{wanted.prefix}{number}", inner["type"], types)
        elif is_record and field_id not in names:
            yield from _record_steps(kind, wanted, names, types)
        else:
            yield _step(names.get(field_id), kind, types)


def _step(name: str | None, kind: Any, types: dict[str, Any]) -> Step:
    if isinstance(kind, list):
        return Step(name, tuple(_kind(option, types) for option in kind), True)
    return Step(name, (_kind(kind, types),), False)


def _kind(kind: Any, types: dict[str, Any]) -> Kind:
    if isinstance(kind, list):
        step = _step(None, kind, types)
        return Kind(
            lambda buffer, at: _take(step, buffer, at, at, {}), lambda data, at: _take_one(step, data, at)[1], "union"
        )
    if isinstance(kind, str):
        if kind in types:
            return _kind(types[kind], types)
        if kind in _FIXED_SIZES:
            return _fixed(kind, _FIXED_SIZES[kind])
        if kind in ("int", "long"):
            return Kind(lambda buffer, at: buffer.skip_varints(at), _skip_varint, kind)
        if kind in ("bytes", "string"):
            return Kind(lambda buffer, at: buffer.skip_bytes(at), _skip_bytes, kind)
        raise AvroError(f"its schema has an unknown type {kind!r}")
    if "name" in kind:
        types[kind["name"]] = kind
    match kind["type"]:
        case "record":
            return _record([_step(None, field["type"], types) for field in kind["fields"]])
        case "array":
            return _array(kind["items"], types)
        case "map":
            return _array({"type": "record", "fields": [{"type": "string"}, {"type": kind["values"]}]}, types)
        case "fixed":
            return _fixed("fixed", kind["size"])
        case nested:
            return _kind(nested, types)


def _fixed(physical: str, size: int) -> Kind:
    return Kind(lambda _, at: at + size, lambda _, at: at + size, physical, size)


def _record(steps: Sequence[Step]) -> Kind:
    def skip(buffer: Buffer, at: Positions) -> Positions:
        for step in steps:
            at = _take(step, buffer, at, at, {})
        return at

    def skip_one(data: bytes, at: int) -> int:
        for step in steps:
            _, at = _take_one(step, data, at)
        return at

    return Kind(skip, skip_one, "record")


def _array(items: Any, types: dict[str, Any]) -> Kind:
    skip_items = _items_skipper(items, types)
    item = _kind(items, types)

    def skip(buffer: Buffer, at: Positions) -> Positions:
        return _over_lists(buffer, at, skip_items)

    def skip_one(data: bytes, at: int) -> int:
        while True:
            count, at = _read_varint(data, at)
            if count == 0:
                return at
            if abs(count) > len(data):
                raise AvroError("a list claims more items than there are bytes")
            if count < 0:
                at = _skip_bytes(data, at)
            for _ in range(count):
                at = item.skip_one(data, at)

    return Kind(skip, skip_one, "array")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _skip_varint(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = _read_varint(data, at)
    if length < 0:
        raise AvroError("a length is negative")
    return at + length


def _over_lists(
    buffer: Buffer, at: Positions, skip_items: Callable[[Buffer, Positions, Positions], Positions]
) -> Positions:
    """Skips arrays. An array is a sequence of blocks: a count, then the items. A count of zero ends it.

    A negative count is followed by the length of the block in bytes.
    """
    at = at.copy()
    lanes = np.arange(len(at))
    while len(lanes):
        counts, here = _read_counts(buffer, at[lanes])
        at[lanes] = here
        if not counts.any():
            break
        sized = counts < 0
        if sized.any():
            lengths, behind = buffer.read_length(here[sized])
            at[lanes[sized]] = behind + lengths
        plain = counts > 0
        if plain.any():
            at[lanes[plain]] = skip_items(buffer, here[plain], counts[plain])
        lanes = lanes[counts != 0]
        if at.max(initial=0) > buffer.ends[-1]:
            raise AvroError("a list goes on beyond the end")
    return at


def _read_counts(buffer: Buffer, at: Positions) -> tuple[Positions, Positions]:
    first = buffer.byte_at(at)
    if not np.bitwise_or.reduce(first, initial=0) & 0x81:
        return (first >> 1).astype(np.int64), at + 1
    counts = buffer.read_varints(at)
    if (np.abs(counts) > buffer.longest).any():
        raise AvroError("a list claims more items than there are bytes")
    return counts, buffer.skip_varints(at)


def _items_skipper(items: Any, types: dict[str, Any]) -> Callable[[Buffer, Positions, Positions], Positions]:
    """Column metrics are maps from int to long or to bytes, written as arrays of records. These have fast paths."""
    if items in ("int", "long"):
        return lambda buffer, at, counts: buffer.skip_varints(at, counts)
    if isinstance(items, dict) and items.get("type") == "record":
        match [field["type"] for field in items["fields"]]:
            case ["int" | "long", "int" | "long"]:
                return lambda buffer, at, counts: buffer.skip_varints(at, 2 * counts)
            case ["int" | "long", "bytes"]:
                return lambda buffer, at, counts: buffer.skip_keyed_bytes(at, counts)
    kind = _kind(items, types)

    def skip_each(buffer: Buffer, at: Positions, counts: Positions) -> Positions:
        at = at.copy()
        for number in range(int(counts.max(initial=0))):
            lanes = np.flatnonzero(counts > number)
            at[lanes] = kind.skip(buffer, at[lanes])
            if (at > buffer.ends[-1]).any():
                raise AvroError("a list goes on beyond the end")
        return at

    return skip_each
