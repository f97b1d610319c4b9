"""`delete_files`: applies deletes in partitions that have too many of them, and ignores file sizes."""

from tidyberg.model.options import Strategy
from tidyberg.model.plan import Skip
from tidyberg.model.words import plural
from tidyberg.planning.strategies.base import PartitionFacts, RewriteStrategy


class DeleteFilesStrategy(RewriteStrategy):
    name = Strategy.DELETE_FILES

    @property
    def merge_below(self) -> int:
        return 0

    def reason(self, facts: PartitionFacts) -> str:
        ratio = facts.statistics.fragment_ratio
        found = f"fragment ratio {ratio:.2f}" if ratio > self.options.max_delete_ratio else self._deleted_rows(facts)
        return f"{facts.of_all_files(facts.wanted)} with deletes: {found}, {self._allowed}"

    def refuse(self, facts: PartitionFacts) -> Skip | None:
        if facts.wanted:
            return None
        statistics = facts.statistics
        if facts.has_too_many_deletes:
            verb = "applies" if statistics.delete_files == 1 else "apply"
            return Skip("no-gain", f"no gain: {plural(statistics.delete_files, 'delete file')} {verb} to no live file")
        found = f"fragment ratio {statistics.fragment_ratio:.2f}, {self._deleted_rows(facts)}, {self._allowed}"
        return self._nothing_wanted(facts, found)

    @property
    def _allowed(self) -> str:
        return f"at most {self.options.max_delete_ratio:g} allowed"

    def _deleted_rows(self, facts: PartitionFacts) -> str:
        return f"{facts.deleted_rows_text} deleted"
