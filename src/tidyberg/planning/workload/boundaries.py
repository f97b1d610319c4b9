"""Chooses files that straddle the bounds of frequent ranges, and estimates what cutting only these would bring.

A range reads a file in vain where the file reaches beyond the range. Only files with a bound of a range inside of them
do that. If these are cut at the bounds, every range reads whole files, and all other files stay as they are.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.model.file_bounds import FileBounds, Numbers
from tidyberg.model.workload import Condition, Operator, comparisons
from tidyberg.planning.workload.layouts import ROWS_PER_FILE, ranges
from tidyberg.planning.workload.ranks import Boxes, RankedColumn, joined

MOST_BOUNDS = 64  # the heaviest; more would cut files into small pieces


@dataclass(frozen=True)
class CutFiles:
    """The table after the files are cut. Each box stands for as many files as its weight says."""

    files: Numbers  # positions of the files that are rewritten
    bounds: int
    boxes: Mapping[str, Boxes]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Boundaries:
    column: str
    files: FileBounds
    columns: Mapping[str, RankedColumn]
    sampled: Numbers  # the file of each sampled row
    conditions: Sequence[Condition]
    weights: Sequence[float]

    def choose(self) -> CutFiles | None:
        """Returns None if no known bound lies inside a file, or if the rows of such files were not sampled."""
        bounds = self._bounds()
        chosen = self._straddling(bounds)
        if not len(bounds) or not len(chosen):
            return None
        rows = np.flatnonzero(np.isin(self.sampled, chosen))
        missing = np.setdiff1d(self.files.partitions[chosen], self.files.partitions[self.sampled[rows]])
        chosen = chosen[~np.isin(self.files.partitions[chosen], missing)]
        if not len(rows):
            return None
        kept = np.setdiff1d(np.arange(len(self.files)), chosen)
        pieces = [self._kept(kept), *self._cut(bounds, chosen, rows)]
        boxes = joined([piece for piece, _ in pieces])
        return CutFiles(chosen, len(bounds), boxes, np.concatenate([weights for _, weights in pieces]))

    def _bounds(self) -> Numbers:
        """The heaviest places where a range begins or ends: 2 * rank is before a value, 2 * rank + 1 is after it."""
        found: dict[int, float] = {}
        for condition, weight in zip(self.conditions, self.weights, strict=True):
            mine = [one for one in comparisons(condition) if one.column == self.column]
            for place in {place for one in mine for place in _places(one.operator, one.values)}:
                found[place] = found.get(place, 0.0) + weight
        heaviest = sorted(found, key=lambda place: (-found[place], place))[:MOST_BOUNDS]
        return np.array(sorted(heaviest), np.int64)

    def _straddling(self, bounds: Numbers) -> Numbers:
        """The files that have values on both sides of a bound. A file without bounds straddles all of them."""
        boxes = self.columns[self.column].files
        first = np.searchsorted(bounds, 2 * boxes.lows, side="right")  # bounds above the least value
        after = np.searchsorted(bounds, 2 * boxes.highs, side="right")
        return np.flatnonzero((first < after) & boxes.may_have_values)

    def _kept(self, kept: Numbers) -> tuple[dict[str, Boxes], npt.NDArray[np.float64]]:
        boxes = {name: column.files.take(kept) for name, column in self.columns.items()}
        return boxes, np.ones(len(kept))

    def _cut(
        self, bounds: Numbers, chosen: Numbers, rows: Numbers
    ) -> Iterator[tuple[dict[str, Boxes], npt.NDArray[np.float64]]]:
        """Cuts the sampled rows of each partition at the bounds, into about as many files as there were."""
        counts: dict[int, int] = defaultdict(int)
        for partition in self.files.partitions[chosen].tolist():
            counts[partition] += 1
        partitions = self.files.partitions[self.sampled[rows]]
        key = self.columns[self.column].sample
        for partition, files in counts.items():
            mine = rows[partitions == partition]
            mine = mine[np.argsort(key[mine], kind="stable")]
            segments = np.searchsorted(bounds, 2 * key[mine], side="right")
            ends, weights = [0], list[float]()
            for _, size in zip(*np.unique(segments, return_counts=True), strict=True):
                wanted = max(1.0, round(files * size / len(mine)))
                simulated = int(max(1, min(wanted, size // ROWS_PER_FILE)))
                ends += (ends[-1] + np.linspace(0, size, simulated + 1)[1:].round().astype(int)).tolist()
                weights += [wanted / simulated] * simulated
            cut = np.array(ends, np.int64)
            yield {name: ranges(column.sample[mine], cut) for name, column in self.columns.items()}, np.array(weights)


def _places(operator: Operator, values: tuple[int, ...] | None) -> Iterator[int]:
    for rank in values or ():
        if operator in (Operator.GE, Operator.LT, Operator.EQ, Operator.IN):
            yield 2 * rank
        if operator in (Operator.GT, Operator.LE, Operator.EQ, Operator.IN):
            yield 2 * rank + 1
