"""Rules of planning: what `full` takes, and that its second run finds nothing [I10]."""

from tests.mutants.mutant import Mutant

FULL = "tests/planning/test_full.py"

PLANS = (
    Mutant(
        "full: outputs of another compaction are files like all others",
        "planning/strategies/full.py",
        "return snapshot.summary.get(FULL_TARGET) == str(self.sizes.target)",
        "return True",
        (f"{FULL}::test_full_merges_files_that_auto_left_with_the_output_of_auto",),
    ),
    Mutant(
        "full: a second run leaves the outputs of the first alone [I10]",
        "planning/strategies/full.py",
        "return snapshot.summary.get(FULL_TARGET) == str(self.sizes.target)",
        "return False",
        (f"{FULL}::test_full_leaves_its_own_outputs_until_something_is_written_or_the_target_grows",),
    ),
    Mutant(
        "full: a run for another target looks at all files again",
        "planning/strategies/full.py",
        "return snapshot.summary.get(FULL_TARGET) == str(self.sizes.target)",
        "return FULL_TARGET in snapshot.summary",
        (f"{FULL}::test_full_leaves_its_own_outputs_until_something_is_written_or_the_target_grows",),
    ),
    Mutant(
        "full: a file that was appended while the last compaction ran is new",
        "planning/compacted_files.py",
        "    if strategy.is_exhaustive:\n",
        "    if False:\n",
        (f"{FULL}::test_a_file_that_was_appended_during_a_full_compaction_is_merged_by_the_next_one",),
    ),
    Mutant(
        "full: a run that a limit cut short is not finished",
        "model/plan.py",
        ' == "full" and not self.left_out else None',
        ' == "full" else None',
        (f"{FULL}::test_a_full_compaction_that_a_limit_cut_short_is_finished_by_the_next_one",),
    ),
    Mutant(
        "full: files that could be merged are not called tidy",
        "planning/judge.py",
        "if not self._strategy.is_exhaustive or counts.eligible == counts.safe:",
        "if True:",
        (f"{FULL}::test_full_does_not_call_files_tidy_that_it_could_merge",),
    ),
)
