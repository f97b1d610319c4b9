"""`time_series`: merges partitions that are no longer written to, the oldest first."""

import numpy as np

from tidyberg.model.options import Strategy
from tidyberg.planning.strategies.base import Mask, PartitionFacts, RewriteStrategy, size_reason


class TimeSeriesStrategy(RewriteStrategy):
    name = Strategy.TIME_SERIES

    def select_for_deletes(self, touched: Mask, above_limit: Mask) -> Mask:
        return np.zeros_like(touched)

    @property
    def hot_commits(self) -> int | None:
        return None if self.options.force else 1  # any write means that the period is not over

    def reason(self, facts: PartitionFacts) -> str:
        return size_reason(facts)

    def urgency(self, score: float, last_write_ms: int) -> float:
        return last_write_ms
