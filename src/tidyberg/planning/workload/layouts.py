"""Simulates layouts on sampled rows: orders them, divides them into files, and takes the range of each file."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.curves import coordinate_bits, hilbert_places, zorder_places
from tidyberg.model.sort_key import Curve
from tidyberg.model.workload import LayoutChoice
from tidyberg.planning.workload.ranks import ABOVE, BELOW, NAN, NULL, Boxes, Ranks

Positions = npt.NDArray[np.int64]

ROWS_PER_FILE = 32  # sampled rows that a simulated file needs: the range of fewer rows is much too narrow


@dataclass(frozen=True)
class Simulation:
    """Sampled rows of one partition, and the files among which they are divided."""

    columns: Mapping[str, Ranks]
    files: int  # of the partition

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def simulated_files(self) -> int:
        return max(1, min(self.files, self.rows // ROWS_PER_FILE))

    def boxes(self, layout: LayoutChoice) -> dict[str, Boxes]:
        order = self.order(layout)
        ends = np.linspace(0, len(order), self.simulated_files + 1).round().astype(np.int64)
        return {name: ranges(ranks[order], ends) for name, ranks in self.columns.items()}

    def order(self, layout: LayoutChoice) -> Positions:
        keys = [self.columns[name] for name in layout.columns]
        if layout.curve is None:
            return np.lexsort(keys[::-1])
        bits = coordinate_bits(len(keys))
        coordinates = [_coordinate(key, bits) for key in keys]
        places = hilbert_places(coordinates) if layout.curve is Curve.HILBERT else zorder_places(coordinates)
        return np.argsort(places, kind="stable")


def ranges(ranks: Ranks, ends: Positions) -> Boxes:
    """Returns the range of each piece of the rows. `ends` begins with 0, and no piece is empty."""
    starts = ends[:-1]
    is_null = ranks == NULL
    has_value = ~is_null & (ranks != NAN)
    lows = np.minimum.reduceat(np.where(has_value, ranks, ABOVE), starts)
    highs = np.maximum.reduceat(np.where(has_value, ranks, BELOW), starts)
    return Boxes(
        lows,
        highs,
        np.maximum.reduceat(is_null, starts),
        np.maximum.reduceat(~is_null, starts),
    )


def _coordinate(ranks: Ranks, bits: int) -> npt.NDArray[np.uint64]:
    """The share of rows with a smaller value, as a whole number: values of every distribution spread evenly."""
    ordered = np.sort(ranks)
    below = np.searchsorted(ordered, ranks, side="left")
    return (below.astype(np.uint64) << np.uint64(bits)) // np.uint64(max(1, len(ranks)))
