"""Checks the footers of many files of one schema at once: are all bounds as long as the values?

Arrow aborts the process when it reads statistics with bounds of another length. It rejects such files itself when it
reads their columns, but joined files are read under another footer. Arrow has parsed these footers before, so they are
complete Thrift structures.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tidyberg.parquet.errors import BadThriftError
from tidyberg.parquet.fields import ChunkField, GroupField, MetadataField, StatisticsField
from tidyberg.parquet.footer import ENDING, SchemaLeaf
from tidyberg.parquet.thrift import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, LIST, STRUCT, TRUE
from tidyberg.varints import Buffer, Positions, VarintError

_ROWS, _ROW_GROUPS = 0x16, 0x19  # field headers: a number and a list, each in the next field
_LONG_LIST = 15
_LENGTH_BITS = np.uint64(0xFFFFFFFF)

Field = Callable[[int, int, Positions], Positions]  # from field id, type and start of a value to its end
Item = Callable[[int, int, Positions], Positions]  # the same for an item of a list, with its index


def all_bounds_fit(buffer: Buffer, opening: int, leaves: Sequence[SchemaLeaf]) -> bool:
    """Returns True if all bounds are as long as values. The first `opening` bytes are the same in all footers."""
    ends = buffer.ends - ENDING
    at = ends - (buffer.word_at(ends) & _LENGTH_BITS).astype(np.int64) + opening
    walk = _FooterWalk(buffer, leaves)
    try:
        if (at < buffer.starts).any() or (buffer.byte_at(at) != _ROWS).any():
            return False
        at = buffer.skip_varints(at + 1)
        if (buffer.byte_at(at) != _ROW_GROUPS).any():
            return False
        walk.items(at + 1, walk.row_group)
    except (BadThriftError, VarintError):
        return False
    return walk.fits


class _FooterWalk:
    """Walks the footers of all files in step. Where the files differ, it continues with each group separately."""

    def __init__(self, buffer: Buffer, leaves: Sequence[SchemaLeaf]) -> None:
        self.fits = True
        self._buffer = buffer
        self._leaves = leaves

    def row_group(self, _: int, __: int, at: Positions) -> Positions:
        def columns(field: int, kind: int, at: Positions) -> Positions:
            return self.items(at, self._column) if field == GroupField.COLUMNS else self._skip(kind, at)

        return self._fields(at, columns)

    def _column(self, index: int, _: int, at: Positions) -> Positions:
        size = self._leaves[index].value_bytes if index < len(self._leaves) else None

        def bounds(field: int, kind: int, at: Positions) -> Positions:
            if kind != BINARY:
                return self._skip(kind, at)
            lengths, at = self._length(at)
            if field in StatisticsField.BOUNDS and size is not None and (lengths != size).any():
                self.fits = False
            return at + lengths

        def statistics(field: int, kind: int, at: Positions) -> Positions:
            return self._fields(at, bounds) if field == MetadataField.STATISTICS else self._skip(kind, at)

        def metadata(field: int, kind: int, at: Positions) -> Positions:
            return self._fields(at, statistics) if field == ChunkField.METADATA else self._skip(kind, at)

        return self._fields(at, metadata)

    def _fields(self, at: Positions, take: Field, last: int = 0) -> Positions:
        while True:
            headers = self._buffer.byte_at(at)
            header = int(headers[0])
            if (headers != header).any():
                return self._apart(at, headers, partial(self._fields, take=take, last=last))
            at = at + 1
            if not header:
                return at
            if not header >> 4:
                raise BadThriftError("fields are not in order")
            last += header >> 4
            at = take(last, header & 0x0F, at)

    def items(self, at: Positions, take: Item) -> Positions:
        headers = self._buffer.byte_at(at)
        header = int(headers[0])
        if (headers != header).any():
            return self._apart(at, headers, partial(self.items, take=take))
        count, at = header >> 4, at + 1
        if count == _LONG_LIST:
            counts, behind = self._length(at)
            count = int(counts[0])
            if (counts != count).any():
                return self._apart(at - 1, counts, partial(self.items, take=take))
            at = behind
        for number in range(count):
            at = take(number, header & 0x0F, at)
        return at

    def _skip(self, kind: int, at: Positions) -> Positions:
        if kind in (TRUE, FALSE):
            return at
        if kind in (I16, I32, I64):
            return self._buffer.skip_varints(at)
        if kind == BINARY:
            lengths, at = self._length(at)
            return at + lengths
        if kind == LIST:
            return self.items(at, self._skip_item)
        if kind == STRUCT:
            return self._fields(at, lambda _, kind, at: self._skip(kind, at))
        if kind in (BYTE, DOUBLE):
            return at + (1 if kind == BYTE else 8)
        raise BadThriftError(f"footers have no fields of kind {kind}")

    def _skip_item(self, _: int, kind: int, at: Positions) -> Positions:
        return at + 1 if kind in (TRUE, FALSE) else self._skip(kind, at)

    def _length(self, at: Positions) -> tuple[Positions, Positions]:
        """Reads the lengths of bytes or lists. Returns them and the positions after them."""
        signed = self._buffer.read_varints(at)
        lengths = signed << 1 ^ signed >> 63  # undo the zigzag decoding: Thrift's lengths are unsigned
        if (lengths > self._buffer.longest).any():
            raise BadThriftError("a length is beyond the end")
        return lengths, self._buffer.skip_varints(at)

    def _apart(self, at: Positions, by: npt.NDArray[Any], go_on: Callable[[Positions], Positions]) -> Positions:
        ends = np.empty_like(at)
        for value in np.unique(by):
            lanes = by == value
            ends[lanes] = go_on(at[lanes])
        return ends
