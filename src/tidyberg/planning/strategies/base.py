"""The interface of a strategy: it says which files it wants to rewrite, why, and when it waits.

A strategy is pure. It answers from its options, from the file sizes of the plan and from the facts that it is given.
The rest of planning asks these questions and never asks for the strategy's name.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Skip
from tidyberg.model.sizes import format_size
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.file_sizes import FileSizes
from tidyberg.planning.rules import share_of_rows, should_compact

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A strategy explains its decision with these facts about a partition."""

    statistics: PartitionStatistics
    files: int
    wanted: int  # files that the strategy wants
    wrong_size: int  # files that are too small or too large
    deleted_rows: float  # the share of rows that deletes remove, at most 1
    deleted_rows_exact: bool  # else the share is an upper bound
    has_too_many_deletes: bool  # one of the delete ratios is above the limit
    settled_deletes: int = 0  # delete files that do not count, because a minor compaction has merged them

    @property
    def average(self) -> str:
        size = format_size(self.statistics.bytes / max(1, self.statistics.files))
        count = self.statistics.files
        return f"one file of {size}" if count == 1 else f"{count:,} files, average {size}"

    @property
    def deleted_rows_text(self) -> str:
        return share_of_rows(self.deleted_rows, exact=self.deleted_rows_exact)

    def of_all_files(self, count: int) -> str:
        return f"{count:,} of {self.files:,} {'file' if self.files == 1 else 'files'}"


@dataclass(frozen=True)
class RewriteStrategy(ABC):
    """A strategy under one set of options. The defaults suit strategies that merge small files."""

    name: ClassVar[Strategy]
    # Merges whatever can be merged. A file that was appended while the last compaction ran counts as new, and files
    # that could be merged are never called tidy.
    is_exhaustive: ClassVar[bool] = False
    # Merges deletes and rewrites no data file (`planning/merged_deletes.py`).
    keeps_data: ClassVar[bool] = False
    # Takes a minor compaction where that is the cheaper way to get rid of deletes. The deletes that one has merged then
    # count by the rows that they remove, and not by their number. Otherwise a rewrite would follow at once [I10].
    may_keep_data: ClassVar[bool] = False
    # Sorts every partition that gains from it (`planning/sorting.py`).
    sorts: ClassVar[bool] = False
    # Sorts the partitions of a table with a sort order in which files overlap too deep.
    sorts_deep_overlaps: ClassVar[bool] = False

    options: PlanOptions
    sizes: FileSizes

    # Which files.

    @property
    def merge_below(self) -> int:
        """A file with fewer bytes is merged with others."""
        return self.sizes.minimum

    @property
    def split_above(self) -> int | None:
        """A file with more bytes is split. None: no file is split."""
        return None

    @property
    def min_files_to_merge(self) -> int:
        """A partition with fewer files to merge is left alone."""
        return 2 if self.options.force else max(2, self.options.min_input_files)

    def select_for_deletes(self, touched: Mask, above_limit: Mask) -> Mask:
        """Returns the files to rewrite because of their deletes, whatever their size.

        `touched` marks the files that some delete applies to. `above_limit` marks the files of partitions with more
        deletes than the options allow.
        """
        return touched & above_limit

    def accepts_compaction(self, snapshot: SnapshotInfo) -> bool:
        """Returns True if outputs of this compaction stay as they are while nothing new comes beside them."""
        return True

    # When it waits.

    @property
    def hot_commits(self) -> int | None:
        """So many commits within the hot window make a partition hot. None: the strategy does not wait."""
        return None

    # Why.

    @abstractmethod
    def reason(self, facts: PartitionFacts) -> str:
        """Says why the partition is rewritten."""

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        """Says why the strategy leaves the partition alone. None: it wants some files."""
        return None if facts.wanted else self._nothing_wanted(facts, facts.average)

    def why_compact(self, facts: PartitionFacts) -> str | None:
        """Returns the reason of the contract's rules, or one that they leave open: few delete files, many rows."""
        statistics = facts.statistics
        why = should_compact(
            statistics.files,
            statistics.bytes,
            statistics.delete_files - facts.settled_deletes,
            max_file_count_per_partition=self.options.max_file_count_per_partition,
            small_file_threshold=self.sizes.small,
            max_delete_ratio=self.options.max_delete_ratio,
        )
        return why or ("deleted rows" if facts.deleted_rows > self.options.max_delete_ratio else None)

    def _nothing_wanted(self, facts: PartitionFacts, found: str) -> Skip:
        why = self.why_compact(facts)
        if why is None or (facts.files == 1 and not facts.statistics.delete_files):
            return Skip("tidy", f"already tidy: {found}")
        return Skip("other-strategy", f"nothing for {self.name.value} to do ({found}), but {why}")

    # In which order.

    def urgency(self, score: float, last_write_ms: int) -> float:
        """Partitions with the lowest value are rewritten first."""
        return -score


def size_reason(facts: PartitionFacts) -> str:
    """Says why a partition is rewritten by a strategy that wants files of the wrong size and files with deletes."""
    if facts.wrong_size:
        return f"{facts.of_all_files(facts.wrong_size)} not of the wanted size, {facts.average}"
    return f"{facts.of_all_files(facts.wanted)} with deletes"
