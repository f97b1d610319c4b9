"""`deletes_only`: merges deletes and leaves data files as they are, the cheap fix between rewrites of a CDC table."""

from tidyberg.model.options import Strategy
from tidyberg.model.plan import Skip
from tidyberg.model.words import plural
from tidyberg.planning.strategies.base import Mask, PartitionFacts, RewriteStrategy


class DeletesOnlyStrategy(RewriteStrategy):
    name = Strategy.DELETES_ONLY
    keeps_data = True

    @property
    def merge_below(self) -> int:
        return 0

    def select_for_deletes(self, touched: Mask, above_limit: Mask) -> Mask:
        return touched

    def reason(self, facts: PartitionFacts) -> str:
        return f"{plural(facts.statistics.delete_files, 'delete file')} on {facts.of_all_files(facts.wanted)}"

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        if facts.wanted:
            return None
        found = facts.statistics.delete_files
        return Skip("tidy", f"already tidy: {plural(found, 'delete file')}, none to merge" if found else "no deletes")
