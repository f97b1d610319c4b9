"""Columns of an Avro container by PyIceberg's compiled decoder, for manifest lists, which are small.

Its own reader tree builds whole records; this one skips what nobody asked for, and checks the framing.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

from tidyberg.avro.container import AvroError, Container, blocks

_MAX_ITEMS = 1_000_000  # of an array in one record: more is damage, and would be read far past the end


class FieldReader(NamedTuple):
    read: Callable[[BinaryDecoder], Any]
    skip: Callable[[BinaryDecoder], Any]


def read_columns(
    container: Container, wanted: frozenset[int], rows: int = 16_384
) -> Iterator[tuple[int, dict[int, list[Any]]]]:
    """Batches of at most about `rows` records: how many, and a list of values per wanted field id of the schema.

    Records on the way to a wanted field are flattened; a wanted record comes as a tuple.
    """
    steps = _steps(container.schema_text, wanted)
    field_ids = [field_id for field_id, _ in steps if field_id is not None]
    columns: dict[int, list[Any]] = {field_id: [] for field_id in field_ids}
    pending = 0
    for count, content in blocks(container):
        decoder = new_decoder(content)
        actions = [
            (function, columns[field_id].append if field_id is not None else None) for field_id, function in steps
        ]
        for _ in range(count):
            for function, append in actions:
                if append is None:
                    function(decoder)
                else:
                    append(function(decoder))
            # The decoder itself runs on past the end of its buffer.
            if decoder.tell() > len(content):
                raise AvroError("a record is longer than its block")
        if decoder.tell() != len(content):
            raise AvroError("the records of a block do not fill it")
        pending += count
        if pending >= rows:
            yield pending, columns
            columns, pending = {field_id: [] for field_id in field_ids}, 0
    yield pending, columns


Step = tuple[int | None, Callable[[BinaryDecoder], Any]]


@lru_cache(maxsize=256)
def _steps(schema_text: str, wanted: frozenset[int]) -> tuple[Step, ...]:
    """What to do with each field in turn: read it under its id, or skip it. Manifests of a spec share them."""
    return tuple(_record_steps(json.loads(schema_text), wanted, {}))


def _record_steps(record: Mapping[str, Any], wanted: frozenset[int], names: dict[str, Any]) -> Iterator[Step]:
    for field in record["fields"]:
        kind, field_id = field["type"], field.get("field-id")
        if field_id in wanted:
            yield field_id, field_reader(kind, names).read
        elif isinstance(kind, dict) and kind["type"] == "record" and _holds(kind, wanted):
            yield from _record_steps(kind, wanted, names)
        else:
            yield None, field_reader(kind, names).skip


def _holds(record: Mapping[str, Any], wanted: frozenset[int]) -> bool:
    return any(field.get("field-id") in wanted for field in record["fields"])


_Decoder = type(new_decoder(b""))  # the compiled one: its methods are called without a frame in between
_DOUBLE = struct.Struct("<d")


def read_double(decoder: BinaryDecoder) -> float:
    """The decoder's own makes a 32-bit number of it: partitions close to each other would become one."""
    value: float = _DOUBLE.unpack(decoder.read(8))[0]
    return value


_PRIMITIVES: dict[str, FieldReader] = {
    "null": FieldReader(lambda _: None, lambda _: None),
    "boolean": FieldReader(_Decoder.read_boolean, _Decoder.skip_boolean),
    "int": FieldReader(_Decoder.read_int, _Decoder.skip_int),
    "long": FieldReader(_Decoder.read_int, _Decoder.skip_int),
    "float": FieldReader(_Decoder.read_float, _Decoder.skip_float),
    "double": FieldReader(read_double, _Decoder.skip_double),
    "bytes": FieldReader(_Decoder.read_bytes, _Decoder.skip_bytes),
    "string": FieldReader(_Decoder.read_utf8, _Decoder.skip_utf8),
}


def field_reader(kind: Any, names: dict[str, Any]) -> FieldReader:
    """How to read or skip a value of this type; `names` collects the named types met on the way."""
    if isinstance(kind, list):
        return _union(kind, names)
    if isinstance(kind, str):
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        if kind in names:
            return field_reader(names[kind], names)
        raise AvroError(f"its schema has an unknown type {kind!r}")
    if "name" in kind:
        names[kind["name"]] = kind
    match kind["type"]:
        case "record":
            return _record(kind, names)
        case "array":
            return _array(kind["items"], names)
        case "map":
            return _array({"type": "record", "fields": [{"type": "string"}, {"type": kind["values"]}]}, names)
        case "fixed":
            size = kind["size"]
            return FieldReader(lambda decoder: decoder.read(size), lambda decoder: decoder.skip(size))
        case nested:
            return field_reader(nested, names)


def _union(kinds: list[Any], names: dict[str, Any]) -> FieldReader:
    options = [field_reader(kind, names) for kind in kinds]
    if len(options) == 2 and kinds[0] == "null":
        read_value, skip_value = options[1]
        return FieldReader(
            lambda decoder: read_value(decoder) if decoder.read_int() else None,
            lambda decoder: skip_value(decoder) if decoder.read_int() else None,
        )
    return FieldReader(
        lambda decoder: options[decoder.read_int()].read(decoder),
        lambda decoder: options[decoder.read_int()].skip(decoder),
    )


def _record(kind: Mapping[str, Any], names: dict[str, Any]) -> FieldReader:
    fields = [field_reader(field["type"], names) for field in kind["fields"]]

    def skip(decoder: BinaryDecoder) -> None:
        for field in fields:
            field.skip(decoder)

    return FieldReader(lambda decoder: tuple(field.read(decoder) for field in fields), skip)


def _array(items: Any, names: dict[str, Any]) -> FieldReader:
    item = field_reader(items, names)
    skip_items = _fast_skip(items) or (lambda decoder, count: [item.skip(decoder) for _ in range(count)])

    def read(decoder: BinaryDecoder) -> list[Any]:
        found: list[Any] = []
        while count := decoder.read_int():
            if count < 0:
                count = -count
                decoder.skip_int()
            found += [item.read(decoder) for _ in range(_plausible(count))]
        return found

    def skip(decoder: BinaryDecoder) -> None:
        while count := decoder.read_int():
            if count < 0:
                decoder.skip(_plausible(decoder.read_int(), 2**31))
            else:
                skip_items(decoder, _plausible(count))

    return FieldReader(read, skip)


def _plausible(count: int, limit: int = _MAX_ITEMS) -> int:
    if not 0 <= count <= limit:
        raise AvroError(f"a list claims {count} items")
    return count


def _fast_skip(items: Any) -> Callable[[BinaryDecoder, int], Any] | None:
    """Column metrics are maps from int to long or to bytes: the decoder reads those in one compiled loop."""
    if not isinstance(items, dict) or items.get("type") != "record":
        return None
    match [field["type"] for field in items["fields"]]:
        case ["int" | "long", "int" | "long"]:
            return lambda decoder, count: decoder.read_ints(2 * count)
        case ["int" | "long", "bytes"]:
            return lambda decoder, count: decoder.read_int_bytes_dict(count, {})
    return None
