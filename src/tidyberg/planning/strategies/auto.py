"""`auto`: rewrites a partition when the rules of `planning/rules.py` ask for it, and lets hot partitions cool first."""

from tidyberg.model.options import Strategy
from tidyberg.model.plan import Skip
from tidyberg.model.words import plural
from tidyberg.planning.strategies.base import PartitionFacts, RewriteStrategy


class AutoStrategy(RewriteStrategy):
    name = Strategy.AUTO
    may_keep_data = True
    sorts_deep_overlaps = True

    @property
    def hot_commits(self) -> int | None:
        return None if self.options.force else self.options.hot_commits

    def reason(self, facts: PartitionFacts) -> str:
        return f"{self.why_compact(facts) or 'forced'}: {facts.average}"

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        if not facts.wanted or (not self.options.force and self.why_compact(facts) is None):
            return Skip("tidy", f"already tidy: {facts.average}{_unneeded_deletes(facts)}")
        return None


def _unneeded_deletes(facts: PartitionFacts) -> str:
    """Says if a partition has many delete files that apply to no data file. Queries do not open most of these."""
    if facts.wanted or not facts.has_too_many_deletes:
        return ""
    found = plural(facts.statistics.delete_files, "delete file")
    return f"; {found} for no data file, which deletes_only removes"
