"""Reads and writes Thrift's compact protocol without a schema, so unknown fields are preserved.

Values are plain Python objects: integers, `bytes` for strings, and eight `bytes` for a double. Structures of standard
writers are written back byte for byte.
"""

from dataclasses import dataclass
from typing import Any

from tidyberg.parquet.errors import BadThriftError

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_NUMBERS = (I16, I32, I64)
_DEEPEST = 64
_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class ThriftList:
    """A Thrift list or set."""

    element: int  # the type of its items
    items: list[Any]


@dataclass(frozen=True, slots=True)
class ThriftMap:
    key: int
    value: int
    items: list[tuple[Any, Any]]


# Field id -> type and value, in the order of the bytes. Booleans have type TRUE.
Struct = dict[int, tuple[int, Any]]
Bytes = bytes | memoryview


def read_struct(content: Bytes, start: int = 0) -> tuple[Struct, int]:
    """Returns the struct that begins at `start`, and the position after it. Raises BadThriftError."""
    reader = _Reader(content, start)
    try:
        found = reader.struct(0)
    except IndexError:
        raise BadThriftError("the structure continues beyond the end of its bytes") from None
    return found, reader.position


def write_struct(struct: Struct) -> bytes:
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, content: Bytes, position: int) -> None:
        self._content = content
        self.position = position

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise BadThriftError(f"structures are nested more than {_DEEPEST} deep")
        found: Struct = {}
        content, last = self._content, 0
        while True:
            header = content[self.position]
            self.position += 1
            if header == 0:
                return found
            kind, delta = header & 0x0F, header >> 4
            last = last + delta if delta else self._signed()
            if last in found:
                raise BadThriftError(f"field {last} occurs twice")
            if kind in _NUMBERS:
                found[last] = (kind, self._signed())
            elif kind in (TRUE, FALSE):
                found[last] = (TRUE, kind == TRUE)
            else:
                found[last] = (kind, self._value(kind, depth))

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._signed()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == DOUBLE:
            return self._take(8)
        if kind == MAP:
            return self._map(depth + 1)
        if kind in (TRUE, FALSE):  # in a list or a map, a boolean is a byte
            return self._byte()
        if kind == BYTE:
            return self._byte()
        if kind == UUID:
            return self._take(16)
        raise BadThriftError(f"there is no type {kind}")

    def _list(self, depth: int) -> ThriftList:
        header = self._byte()
        kind, size = header & 0x0F, header >> 4
        if size == 15:
            size = self._varint()
        self._expect(size, depth)
        return ThriftList(kind, [self._value(kind, depth) for _ in range(size)])

    def _map(self, depth: int) -> ThriftMap:
        size = self._varint()
        if size == 0:
            return ThriftMap(0, 0, [])
        self._expect(size, depth)
        kinds = self._byte()
        key, value = kinds >> 4, kinds & 0x0F
        return ThriftMap(key, value, [(self._value(key, depth), self._value(value, depth)) for _ in range(size)])

    def _expect(self, size: int, depth: int) -> None:
        """Rejects a list with more items than bytes. Each item takes at least one byte."""
        if depth > _DEEPEST or size > len(self._content) - self.position:
            raise BadThriftError("a list has more items than bytes, or is nested too deep")

    def _byte(self) -> int:
        value = self._content[self.position]
        self.position += 1
        return value

    def _take(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self._content):
            raise IndexError
        taken = bytes(self._content[self.position : end])
        self.position = end
        return taken

    def _varint(self) -> int:
        result = shift = 0
        content, position = self._content, self.position
        for at in range(position, position + _VARINT_BYTES):
            byte = content[at]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = at + 1
                return result
            shift += 7
        raise BadThriftError("a number has too many bytes")

    def _signed(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for identifier, (kind, value) in struct.items():
        written = kind if kind != TRUE else (TRUE if value else FALSE)
        delta = identifier - last
        if 0 < delta <= 15:
            out.append(delta << 4 | written)
        else:
            out.append(written)
            _write_signed(out, identifier)
        last = identifier
        if kind != TRUE:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _write_signed(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        _write_list(out, value)
    elif kind == MAP:
        _write_map(out, value)
    elif kind in (TRUE, FALSE, BYTE):
        out.append(value)
    else:  # double or uuid: bytes of a fixed length
        out += value


def _write_list(out: bytearray, value: ThriftList) -> None:
    size = len(value.items)
    if size < 15:
        out.append(size << 4 | value.element)
    else:
        out.append(0xF0 | value.element)
        _write_varint(out, size)
    for item in value.items:
        _write_value(out, value.element, item)


def _write_map(out: bytearray, value: ThriftMap) -> None:
    _write_varint(out, len(value.items))
    if value.items:
        out.append(value.key << 4 | value.value)
    for key, item in value.items:
        _write_value(out, value.key, key)
        _write_value(out, value.value, item)


def varint(number: int) -> bytes:
    """Encodes an unsigned number. Counts and lengths are unsigned."""
    out = bytearray()
    _write_varint(out, number)
    return bytes(out)


def _write_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_signed(out: bytearray, number: int) -> None:
    _write_varint(out, number << 1 if number >= 0 else (~number << 1) | 1)
