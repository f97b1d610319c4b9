"""`full`: merges every small file from two on, splits every large one and applies every delete."""

from tidyberg.model.options import Strategy
from tidyberg.model.plan import FULL_TARGET, Skip
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.strategies.base import Mask, PartitionFacts, RewriteStrategy, size_reason


class FullStrategy(RewriteStrategy):
    name = Strategy.FULL
    is_exhaustive = True

    @property
    def split_above(self) -> int | None:
        return self.sizes.maximum

    @property
    def min_files_to_merge(self) -> int:
        return 2

    def select_for_deletes(self, touched: Mask, above_limit: Mask) -> Mask:
        return touched

    def accepts_compaction(self, snapshot: SnapshotInfo) -> bool:
        # I10: a finished full run for the same target has looked at every file, so this one would only repeat it. Any
        # other compaction may have left files out that can be merged with its outputs.
        return snapshot.summary.get(FULL_TARGET) == str(self.sizes.target)

    def reason(self, facts: PartitionFacts) -> str:
        return size_reason(facts)

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        return None if facts.wanted else Skip("tidy", f"already tidy: {facts.average}")
