"""Recommends a layout from the filters of queries, by the files that they would read. Pure.

Layouts are simulated on sampled rows, in as many files as each partition has. The ranges of today's files come from
manifests.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, permutations
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.file_bounds import FileBounds, Numbers
from tidyberg.model.options import PlanOptions
from tidyberg.model.sort_key import Curve
from tidyberg.model.table import TableRef
from tidyberg.model.workload import (
    AllOf,
    AnyOf,
    Anything,
    BoundaryChoice,
    Comparison,
    Condition,
    FilterScore,
    LayoutChoice,
    LayoutScore,
    QueryAdvice,
    SampleFacts,
    ScanFilter,
    Workload,
    all_of,
    any_of,
    comparisons,
)
from tidyberg.planning.workload.boundaries import Boundaries
from tidyberg.planning.workload.layouts import Simulation
from tidyberg.planning.workload.pruning import TypicalValues, is_known, may_match, with_ranks
from tidyberg.planning.workload.ranks import Boxes, RankedColumn, filter_values, joined, rank_column

MOST_FILTERS = 500  # the heaviest; others are rare
MOST_COLUMNS = 4
_WORTH = 0.9  # a layout must read less than this part of what is read today
_SIMPLER = 1.05  # a simpler layout is preferred if it reads at most so much more

Reads = npt.NDArray[np.float64]
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class RowSample:
    """Rows of the filter columns. `files` has, for each row, the position of its file among the table's files."""

    rows: pa.Table
    files: Numbers
    facts: SampleFacts = field(default_factory=SampleFacts)


def heaviest(filters: Sequence[ScanFilter], most: int = MOST_FILTERS) -> list[ScanFilter]:
    """Adds up equal filters, and returns the heaviest."""
    weights: dict[Condition, float] = {}
    texts: dict[Condition, str] = {}
    for one in filters:
        weights[one.condition] = weights.get(one.condition, 0.0) + one.weight
        texts.setdefault(one.condition, one.text)
    return [ScanFilter(condition, weight, texts[condition]) for condition, weight in _by_weight(weights)[:most]]


def filter_columns(filters: Sequence[ScanFilter]) -> list[tuple[str, float]]:
    """The columns that filters compare with values, with their weights, the heaviest first."""
    weights: dict[str, float] = {}
    for one in filters:
        for column in {part.column for part in comparisons(one.condition)}:
            weights[column] = weights.get(column, 0.0) + one.weight
    return _by_weight(weights)


def _by_weight(weights: Mapping[_Key, float]) -> list[tuple[_Key, float]]:
    return sorted(weights.items(), key=lambda one: (-one[1], str(one[0])))


def only_columns(condition: Condition, known: frozenset[str]) -> Condition:
    """Replaces comparisons of other columns, such as dropped ones, by conditions that rule nothing out."""
    if isinstance(condition, Comparison):
        return condition if condition.column in known else Anything()
    if isinstance(condition, AllOf | AnyOf):
        join = all_of if isinstance(condition, AllOf) else any_of
        return join(only_columns(one, known) for one in condition.parts)
    return condition


def candidates(columns: Sequence[str]) -> list[LayoutChoice]:
    """Layouts over the heaviest columns, the simplest first."""
    few = tuple(columns[:MOST_COLUMNS])
    return [
        *(LayoutChoice((one,)) for one in few),
        *(LayoutChoice(pair) for pair in permutations(few[:3], 2)),
        *(
            LayoutChoice(some, curve)
            for size in (2, 3)
            for some in combinations(few[: MOST_COLUMNS if size == 2 else 3], size)
            for curve in (Curve.HILBERT, Curve.ZORDER)
        ),
    ]


@dataclass(frozen=True)
class Recommender:
    table: TableRef
    workload: Workload
    files: FileBounds
    sample: RowSample
    target_bytes: int
    small_bytes: int = PlanOptions.small_file_threshold

    @cached_property
    def filters(self) -> list[ScanFilter]:
        """The filters that are measured."""
        return heaviest(self._all_filters)

    @cached_property
    def _all_filters(self) -> list[ScanFilter]:
        known = frozenset(self.files.columns)
        kept = [replace(one, condition=only_columns(one.condition, known)) for one in self.workload.filters]
        return [one for one in kept if not isinstance(one.condition, Anything)]

    @cached_property
    def _columns(self) -> dict[str, RankedColumn]:
        values = filter_values(one.condition for one in self.filters)
        return {
            name: rank_column(self.sample.rows[name], self.files.columns[name], values.get(name, ()))
            for name in self.files.columns
        }

    @cached_property
    def _instances(self) -> list[list[Condition]]:
        """For each filter, the conditions with ranks that stand for it."""
        typical = TypicalValues(self._columns)
        return [typical.filters(with_ranks(one.condition, self._columns)) for one in self.filters]

    def before(self, weights: Reads | None = None) -> Reads:
        """What each filter reads today: files, or what `weights` has for each file."""
        weights = np.ones(len(self.files)) if weights is None else weights
        boxes = {name: column.files for name, column in self._columns.items()}
        return self._reads(boxes, weights)

    def _reads(self, boxes: Mapping[str, Boxes], weights: Reads) -> Reads:
        """What each filter reads, where each box stands for as much as its weight says."""
        return np.array(
            [
                float(np.mean([weights[may_match(one, boxes, len(weights))].sum() for one in instances]))
                for instances in self._instances
            ]
        )

    def file_reads(self) -> Reads:
        """Returns for each file the weight of the filters that read it today."""
        boxes = {name: column.files for name, column in self._columns.items()}
        found = np.zeros(len(self.files))
        for one, instances in zip(self.filters, self._instances, strict=True):
            for condition in instances:
                found += may_match(condition, boxes, len(self.files)) * (one.weight / len(instances))
        return found

    @cached_property
    def _simulations(self) -> dict[int, Simulation]:
        """The simulation of each partition with sampled rows."""
        partitions = self.files.partitions[self.sample.files]
        counts = Counter(self.files.partitions.tolist())
        return {
            one: Simulation(
                {name: column.sample[partitions == one] for name, column in self._columns.items()}, counts[one]
            )
            for one in np.unique(partitions).tolist()
        }

    @cached_property
    def _unsampled(self) -> Numbers:
        """Files of partitions without sampled rows, which a simulation leaves as they are."""
        sampled = np.unique(self.files.partitions[self.sample.files])
        return np.flatnonzero(~np.isin(self.files.partitions, sampled))

    def after(self, layout: LayoutChoice, weights: Reads | None = None) -> Reads:
        """What each filter reads after the table is written in this layout: files, or what `weights` has for each.

        The simulated files of a partition share the weights of its files evenly.
        """
        weights = np.ones(len(self.files)) if weights is None else weights
        kept = {name: column.files.take(self._unsampled) for name, column in self._columns.items()}
        of_partition = np.bincount(self.files.partitions, weights)
        after = [weights[self._unsampled]]
        for partition, one in self._simulations.items():
            after.append(np.full(one.simulated_files, of_partition[partition] / one.simulated_files))
        # All partitions are checked at once: thousands of filters meet hundreds of them.
        boxes = joined([kept, *(one.boxes(layout) for one in self._simulations.values())])
        return self._reads(boxes, np.concatenate(after))

    def share(self, reads: Reads) -> float:
        weights = np.array([one.weight for one in self.filters])
        return float((reads * weights).sum() / max(1e-12, weights.sum() * max(1, len(self.files))))

    def recommend(self) -> QueryAdvice:
        columns = filter_columns(self._all_filters)
        scans = sum(one.weight for one in self.workload.filters)
        filtered = sum(one.weight for one in self._all_filters)
        can_measure = bool(self.filters) and len(self.files) > 0 and self.sample.rows.num_rows > 0
        sizes, nothing = self.files.sizes.astype(np.float64), np.zeros(len(self.filters))
        before, bytes_before = (self.before(), self.before(sizes)) if can_measure else (nothing, nothing)
        reads = {one: self.after(one) for one in candidates([name for name, _ in columns])} if can_measure else {}
        shares = {one: self.share(these) for one, these in reads.items()}
        best, why = self._choose(shares, self.share(before)) if can_measure else (None, self._no_measure())
        after, bytes_after = (before, bytes_before) if best is None else (reads[best], self.after(best, sizes))
        return QueryAdvice(
            table=self.table,
            queries=self.workload.queries,
            elsewhere=self.workload.elsewhere,
            unreadable=self.workload.unreadable,
            scans=scans,
            unfiltered=scans - filtered,
            unmeasured=filtered - sum(one.weight for one in self.filters),
            columns=tuple(columns),
            joined_on=tuple(sorted(self.workload.joined_on.items(), key=lambda one: -one[1])),
            files=len(self.files),
            bytes=int(self.files.sizes.sum()),
            share=self.share(before) if can_measure else 1.0,
            scores=tuple(LayoutScore(one, shares[one]) for one in sorted(shares, key=lambda one: shares[one])),
            best=best,
            why=why,
            filters=tuple(
                FilterScore(
                    one.text,
                    one.weight,
                    float(before[place]),
                    float(after[place]),
                    round(bytes_before[place]),
                    round(bytes_after[place]),
                    not is_known(one.condition),
                )
                for place, one in enumerate(self.filters)
            ),
            sample=self.sample.facts,
            files_by_size=_files_by_size(self.files, self.target_bytes),
            boundary=self._boundary(before, reads) if can_measure else None,
        )

    def _choose(self, shares: Mapping[LayoutChoice, float], before: float) -> tuple[LayoutChoice | None, str]:
        least = min(shares.values())
        if least > _WORTH * before:
            return None, "no order of the filter columns lets these queries skip many more files than today"
        best = next(one for one, share in shares.items() if share <= least * _SIMPLER)
        return best, "it reads the fewest files" if shares[best] == least else "it is the simplest of about the best"

    def _no_measure(self) -> str:
        if not self.workload.queries and not self.workload.filters:
            return "the log has no query"
        if not self.workload.filters:
            return "no query of the log reads this table"
        if not self.filters:
            return "no query filters this table by a column whose ranges could skip files"
        return "the table has no file" if not len(self.files) else "no rows could be sampled"

    def boundaries(self, column: str, conditions: Sequence[Condition], weights: Sequence[float]) -> Boundaries:
        return Boundaries(
            column,
            self.sample.rows[column].type,
            self.files,
            self._columns,
            self.sample.files,
            conditions,
            weights,
            self.small_bytes,
        )

    def _boundary(self, before: Reads, reads: Mapping[LayoutChoice, Reads]) -> BoundaryChoice | None:
        weights = [one.weight for one in self.filters]
        found = []
        for layout, full in reads.items():
            if len(layout.columns) > 1:
                break  # the first candidates are single columns
            known = [instances[0] if len(instances) == 1 else Anything() for instances in self._instances]
            cut = self.boundaries(layout.columns[0], known, weights).choose()
            if cut is not None:
                share = self.share(self._reads(cut.boxes, cut.weights))
                choice = BoundaryChoice(
                    layout.columns[0],
                    cut.boundaries,
                    len(cut.files),
                    int(self.files.sizes[cut.files].sum()),
                    share,
                    self.share(full),
                    int(self.files.sizes.sum()),
                    tuple(self.files.paths[at] for at in cut.files.tolist()),
                )
                found.append(choice)
        worth = [one for one in found if one.share < _WORTH * self.share(before) and _beats_full_sort(one)]
        return min(worth, key=lambda one: (one.share, one.bytes), default=None)


def _beats_full_sort(choice: BoundaryChoice) -> bool:
    """Returns True if the cut rewrites clearly less than a sort of the whole table, or lets queries skip more."""
    return choice.bytes < _WORTH * choice.full_bytes or choice.share * _SIMPLER < choice.full_share


def _files_by_size(files: FileBounds, target_bytes: int) -> int:
    """Files that a rewrite to the target size would leave."""
    _, numbers = np.unique(files.partitions, return_inverse=True)
    sizes = np.bincount(numbers, weights=files.sizes) if len(files) else np.zeros(0)
    return int(np.ceil(sizes / max(1, target_bytes)).sum())
