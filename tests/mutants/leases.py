"""Rules of who may commit and delete: leases, fences, and jobs that wake up too late [I6, I7]."""

from tests.mutants.mutant import Mutant

STOPPED = "tests/control/test_stopped.py"
RECOVERY = "tests/control/test_recovery.py"
STORES = "tests/record/contract/test_runs.py"


def _stopped(moment: str, takeover: str = "recovered") -> tuple[str, ...]:
    return (f"{STOPPED}::test_a_job_that_is_stopped_and_continued_too_late_does_no_harm[{moment}-2-{takeover}]",)


LEASES = (
    Mutant(
        "lease: a commit requires that no fence was put up against it",
        "commit/snapshot.py",
        "                no_fence(self.job_id, self.chunk),\n",
        "",
        _stopped("after the lease was checked for the commit"),
    ),
    Mutant(
        "lease: recovery believes nothing before the fence stands",
        "control/recovery.py",
        "            return table, str(error) or type(error).__name__\n",
        "            return table, None\n",
        (f"{RECOVERY}::test_files_of_a_sent_commit_are_kept_while_it_may_still_succeed",),
    ),
    Mutant(
        "lease: a fence that may be lost is put up",
        "control/recovery.py",
        "if swaps_in_process(catalog) and job.owner is not None and is_alive(job.owner) is False:",
        "if swaps_in_process(catalog):",
        _stopped("after the lease was checked for the commit"),
    ),
    Mutant(
        "lease: a fence that was begun is put up, and what was written for it goes",
        "control/recovery.py",
        " and not self.store.paths(_fencing(job))):",
        "):",
        (f"{STOPPED}::test_a_recovery_that_is_stopped_while_it_fences_does_no_harm[killed]",),
    ),
    Mutant(
        "lease: what was written for a fence stays until it stands",
        "control/recovery.py",
        " and fence_name(job.job_id, job.sent.chunk) in table.metadata.refs:",
        ":",
        (f"{RECOVERY}::test_metadata_that_another_recovery_may_swap_in_is_kept_while_its_fence_is_in_doubt",),
    ),
    Mutant(
        "lease: only a sequence number that is taken makes a fence needless",
        "control/recovery.py",
        "last_sequence_number(table.metadata) >= sent.sequence_number",
        "last_sequence_number(table.metadata) + 1 >= sent.sequence_number",
        _stopped("after the lease was checked for the commit"),
    ),
    Mutant(
        "lease: a fence whose time is over expires",
        "commit/fence.py",
        "max_ref_age_ms=max(0, now_ms - snapshot.timestamp_ms) + KEPT_MS,",
        "max_ref_age_ms=None,",
        (f"{RECOVERY}::test_a_fence_decides_a_sent_commit_at_once",),
    ),
    Mutant(
        "lease: the next commit takes fences away",
        "commit/new_snapshot.py",
        "        *needless_fences(metadata),\n",
        "",
        (f"{RECOVERY}::test_a_fence_decides_a_sent_commit_at_once",),
    ),
    Mutant(
        "lease: without sequence numbers a fence stays until it expires",
        "commit/fence.py",
        "if metadata.format_version == 1:",
        "if False:",
        (f"{RECOVERY}::test_a_fence_decides_a_sent_commit_at_once",),
    ),
    Mutant(
        "lease: it is checked before every commit",
        "control/journal.py",
        "heartbeat_ms=self._lease.now_ms())\n        self._lease.check()",
        "heartbeat_ms=self._lease.now_ms())",
        _stopped("before the lease is checked for the commit"),
    ),
    Mutant(
        "lease: who lost the table says nothing of its job any more",
        "control/journal.py",
        "if not self._store.save(self.job, holder=self.job.job_id):",
        "if not self._store.save(self.job):",
        ("tests/control/test_journal.py",),
    ),
    Mutant(
        "lease: what a job wrote after it lost its table is looked at again",
        "control/dead_jobs.py",
        "        self.store.save(replace(found, unresolved=True))\n        return self.recover(found)",
        "        return None",
        _stopped("after the lease was checked for the commit"),
    ),
    Mutant(
        "lease: live outputs are this job's commit only while it has the table",
        "commit/publish.py",
        "            self.journal.check_ownership()  # otherwise a job that took over may have committed them\n",
        "",
        _stopped("after the lease was checked for the commit", "gone on with"),
    ),
    Mutant(
        "lease: who did not renew it in time has lost it (SQLite)",
        "record/sqlite.py",
        "held[0] != job_id and held[2] > now_ms:",
        "held[0] != job_id:",
        (STORES,),
    ),
    Mutant(
        "lease: who lost the table records nothing (SQLite)",
        "record/sqlite.py",
        "if holder is not None and not _holds(connection, job.table_uuid, holder):",
        "if False:",
        (STORES,),
    ),
    Mutant(
        "lease: who lost the table has finished nothing (SQLite)",
        "record/sqlite.py",
        "if table_uuid is None or _holds(connection, table_uuid, job_id):",
        "if True:",
        (STORES,),
    ),
    Mutant(
        "lease: what an open job took over is not removed with the job it came from",
        "control/recovery.py",
        "keep = finding.files & self.taken_over(job)",
        "keep = frozenset[str]()",
        ("tests/control/test_resume.py",),
    ),
)
