"""Rules of how jobs end: chunks, conflicts, jobs that die, are resumed or recovered [I6, I7]."""

from tests.mutants.mutant import Mutant

OUTCOMES = "tests/control/test_outcomes.py"
RESUME = "tests/control/test_resume.py"
CHUNKS = "tests/control/test_chunks.py"
CONFLICTS = "tests/control/test_conflicts.py"

JOB_OUTCOMES = (
    Mutant(
        "outcome: deletes that were applied and are gone from an unknown history block their group",
        "commit/conflicts.py",
        "            or _undeleted(group, undone)\n",
        "",
        (f"{OUTCOMES}::test_rows_whose_deletion_was_undone_meanwhile_are_not_lost",),
    ),
    Mutant(
        "outcome: a branch that waits to be published is looked for before every commit",
        "commit/publish.py",
        "text = refusal_to_commit(self.plan, parent.pinned)",
        "text = None",
        (f"{OUTCOMES}::test_a_branch_that_begins_to_wait_while_the_job_runs_is_not_locked_out",),
    ),
    Mutant(
        "outcome: what was read by another name mapping is not committed",
        "commit/publish.py",
        "if text is None and parent.pinned.name_mapping != self.name_mapping:",
        "if False:",
        (f"{OUTCOMES}::test_groups_that_were_read_by_another_name_mapping_are_rewritten",),
    ),
    Mutant(
        "outcome: what was read by another name mapping is not reused",
        "control/resume.py",
        "dead.intent.name_mapping == pinned.name_mapping",
        "True",
        (f"{OUTCOMES}::test_a_dead_jobs_groups_of_another_name_mapping_are_not_reused",),
    ),
    Mutant(
        "outcome: a state from before the commit tells nothing about its files",
        "control/uncommitted_files.py",
        "return not job.commits or fresh.metadata.snapshot_by_id(job.snapshot_id or -1) is not None",
        "return True",
        (f"{OUTCOMES}::test_a_catalog_that_shows_an_old_state_after_the_commit_costs_no_file",),
    ),
    Mutant(
        "outcome: recovery looks at a job again once it holds the table",
        "control/dead_jobs.py",
        "if found is None or not found.is_open:",
        "if found is None:",
        (f"{OUTCOMES}::test_a_job_that_ends_while_recovery_looks_for_dead_ones_keeps_its_outcome",),
    ),
    Mutant(
        "outcome: files that another job took over are kept",
        "control/recovery.py",
        "leftovers = finding.files - finding.referenced - keep",
        "leftovers = finding.files - finding.referenced",
        (f"{RESUME}::test_only_missing_groups_are_rewritten",),
    ),
    Mutant(
        "outcome: a job owns adopted outputs before the dead job is concluded",
        "control/resume.py",
        "            adopted.hand_over(context.record)\n",
        "",
        (RESUME, OUTCOMES),
    ),
    Mutant(
        "outcome: outputs that are too old are not reused",
        "control/resume.py",
        "if now_ms - finished.finished_ms < self.max_output_age_ms\n            and ",
        "if ",
        (RESUME,),
    ),
    Mutant(
        "outcome: each chunk of a job has its own number",
        "control/round.py",
        "self.totals.chunks += 1",
        "self.totals.chunks = 1",
        (f"{CHUNKS}::test_every_chunk_is_a_snapshot_of_its_own",),
    ),
    Mutant(
        "outcome: groups that were left out are planned again",
        "control/round.py",
        "                self.totals.leave(group, conflicts[group.group_id])\n",
        "                pass\n",
        (f"{CONFLICTS}::test_a_group_that_conflicted_is_planned_again_and_committed",),
    ),
    Mutant(
        "outcome: after an interrupted commit nothing is removed before recovery has looked",
        "control/job.py",
        "if record.job.sent is None:",
        "if True:",
        (f"{OUTCOMES}::test_an_interrupted_commit_keeps_its_files_until_a_fence_exists",),
    ),
    Mutant(
        "outcome: outputs that are about to be removed can no longer be taken over",
        "control/journal.py",
        "return self._store.withdraw(self.job.table_uuid, self.job.job_id, self.job.job_id, groups)",
        "return True",
        ("tests/control/test_lease.py",),
    ),
)
