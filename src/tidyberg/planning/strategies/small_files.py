"""`small_files`: merges files below the small-file threshold and leaves deletes to other strategies."""

import numpy as np

from tidyberg.model.options import Strategy
from tidyberg.model.sizes import format_size
from tidyberg.planning.strategies.base import Mask, PartitionFacts, RewriteStrategy


class SmallFilesStrategy(RewriteStrategy):
    name = Strategy.SMALL_FILES

    @property
    def merge_below(self) -> int:
        return self.sizes.small

    def select_for_deletes(self, touched: Mask, above_limit: Mask) -> Mask:
        return np.zeros_like(touched)

    def reason(self, facts: PartitionFacts) -> str:
        return f"{facts.of_all_files(facts.wanted)} below {format_size(self.sizes.small)}"
