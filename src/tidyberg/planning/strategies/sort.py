"""`sort`: sorts files that are not in the wanted order or overlap too deep; `planning/sorting.py` has the rules."""

from tidyberg.model.options import Strategy
from tidyberg.model.plan import Skip
from tidyberg.planning.strategies.base import PartitionFacts, RewriteStrategy


class SortStrategy(RewriteStrategy):
    name = Strategy.SORT
    sorts = True

    @property
    def split_above(self) -> int | None:
        return self.sizes.maximum

    def reason(self, facts: PartitionFacts) -> str:
        return f"{facts.of_all_files(facts.wanted)} not in order"

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        return None
