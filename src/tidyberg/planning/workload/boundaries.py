"""Chooses files that straddle the bounds of frequent ranges, and estimates what cutting only these would bring.

A range reads a file in vain where the file reaches beyond the range. Only files with a bound of a range inside of them
do that. If these are cut at the bounds, every range reads whole files, and all other files stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.file_bounds import FileBounds, Numbers
from tidyberg.model.options import PlanOptions
from tidyberg.model.workload import Condition, Operator, comparisons
from tidyberg.planning.boundary_text import MOST_BOUNDARIES
from tidyberg.planning.segments import SHARE_OF_INPUTS, SegmentSpans, boundaries_worth_keeping
from tidyberg.planning.workload.boundary_values import boundary_text
from tidyberg.planning.workload.layouts import ROWS_PER_FILE, ranges
from tidyberg.planning.workload.ranks import Boxes, RankedColumn, joined


@dataclass(frozen=True)
class CutFiles:
    """The table after the files are cut. Each box stands for as many files as its weight says."""

    files: Numbers  # positions of the files that are rewritten
    boundaries: tuple[str, ...]  # as users write them, in the order of their values
    boxes: Mapping[str, Boxes]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Boundaries:
    column: str
    kind: pa.DataType
    files: FileBounds
    columns: Mapping[str, RankedColumn]
    sampled: Numbers  # the file of each sampled row
    conditions: Sequence[Condition]
    weights: Sequence[float]
    small_bytes: int = PlanOptions.small_file_threshold

    def choose(self) -> CutFiles | None:
        """Returns None if no known bound is worth a cut, or if the rows of files that straddle were not sampled."""
        found = self._bounds()
        places = np.array([place for place, _ in found], np.int64)
        chosen: list[Numbers] = []
        used = np.zeros(len(places), np.bool_)
        pieces: list[tuple[dict[str, Boxes], npt.NDArray[np.float64]]] = []
        straddling = self._straddling(places)
        in_partitions = self.files.partitions[self.sampled]
        for partition in np.unique(self.files.partitions[straddling]).tolist():
            members = straddling[self.files.partitions[straddling] == partition]
            rows = np.flatnonzero(in_partitions == partition)
            least = min(float(self.small_bytes), float(self.files.sizes[members].mean()) / SHARE_OF_INPUTS)
            files = np.flatnonzero(self.files.partitions == partition)
            spans = self._spans(places, files, rows)
            for run in spans.runs(np.searchsorted(files, members)):
                kept = boundaries_worth_keeping(spans.of_files(run), self.files.sizes[files[run]], least)
                cut = self._straddling(places[kept], files[run])
                rows_cut = rows[np.isin(self.sampled[rows], cut)]
                if len(rows_cut):
                    chosen.append(cut)
                    pieces.append(self._cut(places[kept], len(cut), rows_cut))
                    used |= kept & self._straddled(places, cut)
        if not chosen:
            return None
        rewritten = np.concatenate(chosen)
        pieces.append(self._kept(np.setdiff1d(np.arange(len(self.files)), rewritten)))
        boxes = joined([piece for piece, _ in pieces])
        texts = tuple(text for (_, text), is_used in zip(found, used.tolist(), strict=True) if is_used)
        return CutFiles(np.sort(rewritten), texts, boxes, np.concatenate([weights for _, weights in pieces]))

    def _bounds(self) -> list[tuple[int, str]]:
        """The heaviest places where a range begins or ends: 2 * rank is before a value, 2 * rank + 1 is after it.

        A place after a value and the place before the next one are the same boundary, which is counted once.
        """
        values = {rank: value for value, rank in self.columns[self.column].ranks.items()}
        found: dict[str, tuple[int, float]] = {}
        for condition, weight in zip(self.conditions, self.weights, strict=True):
            mine = [one for one in comparisons(condition) if one.column == self.column]
            for place in {place for one in mine for place in _places(one.operator, one.values)}:
                text = boundary_text(values[place // 2], self.kind, after=bool(place % 2))
                if text is not None:
                    known, heavy = found.get(text, (place, 0.0))
                    found[text] = (min(known, place), heavy + weight)
        heaviest = sorted(found.items(), key=lambda one: (-one[1][1], one[1][0]))[:MOST_BOUNDARIES]
        return sorted((place, text) for text, (place, _) in heaviest)

    def _straddling(self, places: Numbers, files: Numbers | None = None) -> Numbers:
        """The files that have values on both sides of a bound. A file without bounds straddles all of them."""
        among = np.arange(len(self.files)) if files is None else files
        boxes = self.columns[self.column].files.take(among)
        first = np.searchsorted(places, 2 * boxes.lows, side="right")  # bounds above the least value
        after = np.searchsorted(places, 2 * boxes.highs, side="right")
        return among[(first < after) & boxes.may_have_values]

    def _straddled(self, places: Numbers, files: Numbers) -> npt.NDArray[np.bool_]:
        boxes = self.columns[self.column].files.take(files)
        inside = (2 * boxes.lows[:, None] < places) & (places <= 2 * boxes.highs[:, None])
        return np.asarray(inside.any(axis=0), np.bool_)

    def _spans(self, places: Numbers, files: Numbers, rows: Numbers) -> SegmentSpans:
        """Places files and bounds by the sampled rows before them, where a plan has only the bounds of files."""
        key, boxes = np.sort(2 * self.columns[self.column].sample[rows]), self.columns[self.column].files.take(files)
        return SegmentSpans(
            np.searchsorted(places, 2 * boxes.lows, side="right"),
            np.searchsorted(places, 2 * boxes.highs, side="right"),
            boxes.may_have_values,
            np.ones(len(files), np.bool_),
            np.searchsorted(key, 2 * boxes.lows, side="left").astype(np.float64),
            np.searchsorted(key, 2 * boxes.highs, side="right").astype(np.float64),
            np.searchsorted(key, places, side="left").astype(np.float64),
        )

    def _kept(self, kept: Numbers) -> tuple[dict[str, Boxes], npt.NDArray[np.float64]]:
        boxes = {name: column.files.take(kept) for name, column in self.columns.items()}
        return boxes, np.ones(len(kept))

    def _cut(self, places: Numbers, files: int, rows: Numbers) -> tuple[dict[str, Boxes], npt.NDArray[np.float64]]:
        """Cuts the sampled rows of a partition at the bounds, into about as many files as there were."""
        key = self.columns[self.column].sample
        mine = rows[np.argsort(key[rows], kind="stable")]
        segments = np.searchsorted(places, 2 * key[mine], side="right")
        ends, weights = [0], list[float]()
        for _, size in zip(*np.unique(segments, return_counts=True), strict=True):
            wanted = max(1.0, round(files * size / len(mine)))
            simulated = int(max(1, min(wanted, size // ROWS_PER_FILE)))
            ends += (ends[-1] + np.linspace(0, size, simulated + 1)[1:].round().astype(int)).tolist()
            weights += [wanted / simulated] * simulated
        cut = np.array(ends, np.int64)
        return {name: ranges(column.sample[mine], cut) for name, column in self.columns.items()}, np.array(weights)


def _places(operator: Operator, values: tuple[int, ...] | None) -> Iterator[int]:
    for rank in values or ():
        if operator in (Operator.GE, Operator.LT, Operator.EQ, Operator.IN):
            yield 2 * rank
        if operator in (Operator.GT, Operator.LE, Operator.EQ, Operator.IN):
            yield 2 * rank + 1
