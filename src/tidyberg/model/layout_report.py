"""How the files of a table lie along a column, now and after a sort."""

from dataclasses import dataclass
from math import ceil

from tidyberg.model.plan import LayoutForecast
from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class FileRange:
    """The range of a column that a file holds. Places run from 0, the lowest value of any file, to 1, the highest."""

    partition: str
    size: int
    low: float | None  # None: the manifest has no bounds, so the file may hold anything
    high: float | None
    depth: int  # the most files, this one included, that hold rows of the same range
    path: str | None = None  # None: the file is predicted
    low_value: str | None = None
    high_value: str | None = None
    is_rewritten: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """All files at one time, sorted by partition and place."""

    files: tuple[FileRange, ...]
    max_depth: int
    lookup_files: float  # what a lookup of one value reads; the average depth
    range_files: float  # what a query for 1 % of the rows reads

    @property
    def histogram(self) -> dict[int, int]:
        """The number of files for each depth."""
        counts: dict[int, int] = {}
        for file in self.files:
            counts[file.depth] = counts.get(file.depth, 0) + 1
        return dict(sorted(counts.items()))

    def profile(self, bins: int) -> list[int]:
        """Returns how many files hold rows of each of so many equal pieces of the column's range."""
        steps = [0] * (bins + 1)
        for file in self.files:
            low, high = (0.0, 1.0) if file.low is None or file.high is None else (file.low, file.high)
            first = min(bins - 1, int(low * bins))
            last = max(first, min(bins, ceil(high * bins)) - 1)
            steps[first] += 1
            steps[last + 1] -= 1
        found, depth = [], 0
        for step in steps[:bins]:
            depth += step
            found.append(depth)
        return found


@dataclass(frozen=True, slots=True)
class LayoutReport:
    table: TableRef
    order: str  # as text
    column: str  # the first of the order, which pictures are drawn along
    before: Layout
    after: Layout  # the same as before if nothing is sorted
    verdicts: tuple[str, ...]  # of the partitions, each once
    dollars: float  # of the sort, with the storage of replaced files
    forecast: LayoutForecast | None  # None: nothing is sorted
    max_overlap_depth: int
