"""Rows of several files, with one bit per row, because they may be many."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidyberg.execute.kernel.deletes.bitmaps import Positions

_NONE: Positions = np.empty(0, np.int64)


@dataclass(frozen=True)
class RowBits:
    _bits: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def add(self, path: str, records: int, positions: Positions) -> None:
        """Adds rows of a file that has so many records. Positions are sorted, and there is at least one."""
        if path not in self._bits:
            self._bits[path] = np.zeros(-(-records // 8), np.uint8)
        places = positions >> 3
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        flags = np.left_shift(1, positions & 7).astype(np.uint8)
        self._bits[path][places[starts]] |= np.bitwise_or.reduceat(flags, starts)

    def positions(self, path: str) -> Positions:
        bits = self._bits.get(path)
        return _NONE if bits is None else np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
