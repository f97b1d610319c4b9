"""Rules of expiry as a job: who may ask for it, and what is reported if a part of it fails or dies [I6, I7]."""

from tests.mutants.mutant import Mutant

JOBS = "tests/service/test_expire_jobs.py"
THEN = "tests/control/test_then_expire.py"
SCHEDULES = "tests/service/test_schedule_kinds.py"

EXPIRY_JOBS = (
    Mutant(
        "expiry jobs: only admins may submit one, unless the settings say otherwise",
        "service/kinds/base.py",
        "least_role = Role.ADMIN",
        "least_role = Role.OPERATOR",
        (f"{JOBS}::test_only_admins_may_expire_unless_the_settings_say_otherwise",),
    ),
    Mutant(
        "expiry jobs: a compaction that expires snapshots needs the same right",
        "service/kinds/compact.py",
        "return frozenset((COMPACT, EXPIRE) if expires else (COMPACT,))",
        "return frozenset((COMPACT,))",
        (f"{JOBS}::test_a_compaction_that_expires_snapshots_needs_the_same_right",),
    ),
    Mutant(
        "expiry jobs: so does applying a plan that expires snapshots",
        "service/service.py",
        "            self._check_expiry(plan, who)\n",
        "",
        (f"{JOBS}::test_a_compaction_that_expires_snapshots_needs_the_same_right",),
    ),
    Mutant(
        "expiry jobs: so does a schedule",
        "service/schedules.py",
        "            self.access.require_kinds(who, KINDS[schedule.kind].rights(schedule.options))\n",
        "",
        (f"{SCHEDULES}::test_only_who_may_expire_may_schedule_it",),
    ),
    Mutant(
        "expiry jobs: an idempotency key belongs to one kind of job",
        "record/changes.py",
        "submission.plan_hash, submission.kind)",
        "submission.plan_hash)",
        ("tests/service/test_expire_jobs.py::test_keys_tell_kinds_apart",),
    ),
    Mutant(
        "expiry jobs: a run that died after its commit is finished, not repeated",
        "control/dead_jobs.py",
        "if found.expiry is not None:",
        "if False:",
        (f"{JOBS}::test_compaction_whose_expiry_died_after_its_commit_counts_what_expired",),
    ),
    Mutant(
        "expiry jobs: snapshots that an earlier attempt expired are not missed",
        "control/expiry_plan.py",
        "if number not in self.sent_before]",
        "]",
        (f"{JOBS}::test_named_snapshots_that_an_earlier_attempt_expired_are_not_missed",),
    ),
    Mutant(
        "expiry jobs: an expiry that is tried again repeats no compaction",
        "service/kinds/compact.py",
        "        if done is not None:\n            return _expire(context, done)\n",
        "",
        (f"{JOBS}::test_expiry_that_failed_is_tried_again_without_a_second_compaction",),
    ),
    Mutant(
        "expiry jobs: a failed expiry is reported, and the compaction stays committed",
        "control/then_expire.py",
        'replace(result, outcome="partly", failure=error,',
        "replace(result,",
        (f"{THEN}::test_a_failed_expiry_leaves_the_compaction_committed",),
    ),
    Mutant(
        "expiry jobs: nothing expires unless the options ask for it",
        "control/then_expire.py",
        "if not options.expire_snapshots:",
        "if False:",
        (f"{THEN}::test_without_the_option_nothing_expires",),
    ),
    Mutant(
        "expiry jobs: a scheduled expiry replaces no compaction",
        "service/timetable.py",
        "[timed for timed in scheduled if timed.schedule.kind == COMPACT]",
        "list(scheduled)",
        (f"{SCHEDULES}::test_an_expiry_replaces_no_compaction_of_the_default_schedule",),
    ),
)
