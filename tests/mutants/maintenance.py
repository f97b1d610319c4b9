"""Rules of maintenance: which place of a policy wins, what a failure stops, and what a saved plan may do."""

from tests.mutants.mutant import Mutant

POLICY = "tests/settings/test_maintenance.py"
STEPS = "tests/control/test_maintain.py"
DECISION = "tests/planning/test_expiry.py"
LOOP = "control/maintenance/maintainer.py"

MAINTENANCE = (
    Mutant(
        "maintain: flags are stronger than table properties, and these are stronger than the settings",
        "settings/maintenance.py",
        "[*weak, *of_catalog.required, *_of_properties(ref, properties), *asked]",
        "[*asked, *_of_properties(ref, properties), *of_catalog.required, *weak]",
        (POLICY,),
    ),
    Mutant(
        "maintain: a table's own history.expire properties are stronger than the settings",
        "settings/maintenance.py",
        "        if name in properties:\n",
        "        if False:\n",
        (POLICY,),
    ),
    Mutant(
        "maintain: an exact name is stronger than a pattern",
        "settings/maintenance.py",
        "        (depth, not _is_pattern(name), name)\n",
        "        (depth, _is_pattern(name), name)\n",
        (POLICY,),
    ),
    Mutant(
        "maintain: a step that the policy switches off does not run",
        LOOP,
        "        if key is not None:\n",
        "        if False:\n",
        (f"{STEPS}::test_the_policy_switches_steps_off_and_says_where_it_was_given",),
    ),
    Mutant(
        "maintain: only steps whose verdict is run do run",
        LOOP,
        'if planned.verdict != "run" and not planned.takes_notes:',
        'if planned.verdict == "refused":',
        (STEPS,),
    ),
    Mutant(
        "maintain: nothing is deleted after a failure that leaves the table in doubt",
        LOOP,
        "if isinstance(result.failure, _IN_DOUBT):",
        "if isinstance(result.failure, TableReplaced):",
        (f"{STEPS}::test_a_failure_that_leaves_the_table_in_doubt_stops_every_later_step",),
    ),
    Mutant(
        "maintain: a failed step stops those that need it",
        LOOP,
        "if result.step in step.needs:",
        "if False:",
        (f"{STEPS}::test_other_failures_stop_only_steps_that_need_the_failed_one",),
    ),
    Mutant(
        "maintain: manifests are not rewritten if their files will be",
        "control/maintenance/manifests.py",
        'needs: frozenset[StepName] = frozenset({"deletes", "data"})',
        "needs: frozenset[StepName] = frozenset()",
        (f"{STEPS}::test_steps_run_in_the_order_in_which_they_free_most",),
    ),
    Mutant(
        "maintain: after the step deletes, a saved plan of data is out of date",
        LOOP,
        "as_planned=from_document is not None and not is_outdated",
        "as_planned=from_document is not None",
        (f"{STEPS}::test_a_saved_step_is_planned_again_if_an_earlier_one_made_it_outdated",),
    ),
    Mutant(
        "maintain: orphans are only reported unless the policy says more",
        "control/maintenance/orphans.py",
        "if request.policy.orphans.action == REPORT:",
        "if False:",
        (f"{STEPS}::test_orphans_are_only_reported_by_default",),
    ),
    Mutant(
        "maintain: a run that sees orphans for the first time records that",
        "control/maintenance/orphans.py",
        'takes_notes=found.verdict == "wait",',
        "takes_notes=False,",
        (f"{STEPS}::test_orphans_go_when_two_runs_have_seen_them",),
    ),
    Mutant(
        "maintain: only the step expire expires snapshots",
        "control/maintenance/data.py",
        '{"expire_snapshots": False, "snapshot_retention_hours": None}',
        "{}",
        (f"{STEPS}::test_a_compaction_of_the_policy_expires_nothing_by_itself",),
    ),
    Mutant(
        "maintain: a plan of a table that was created again is refused",
        LOOP,
        "if str(table.metadata.table_uuid) != plan.table_uuid:",
        "if False:",
        (f"{STEPS}::test_a_plan_for_a_dropped_table_is_refused",),
    ),
    Mutant(
        "maintain: a saved plan compacts exactly its own groups",
        "control/maintenance/data.py",
        "plan = planned.compaction if as_planned else None",
        "plan = None",
        (f"{STEPS}::test_commits_after_the_plan_are_not_touched",),
    ),
    Mutant(
        "maintain: a saved plan expires no snapshot that it does not name",
        "control/maintenance/expire.py",
        "planned.bounds if as_planned else None",
        "None",
        (f"{STEPS}::test_commits_after_the_plan_are_not_touched",),
    ),
    Mutant(
        "expiry: within bounds, other snapshots stay",
        "planning/expiry.py",
        "snapshot_ids=tuple(number for number in decision.snapshot_ids if number in planned),",
        "snapshot_ids=decision.snapshot_ids,",
        (f"{DECISION}::test_within_bounds_only_what_was_planned_expires",),
    ),
    Mutant(
        "expiry: within bounds, a ref that stays keeps its snapshot",
        "planning/expiry.py",
        "planned = set(bounds.snapshot_ids) - held",
        "planned = set(bounds.snapshot_ids)",
        (f"{DECISION}::test_within_bounds_a_ref_that_stays_keeps_its_snapshot",),
    ),
    Mutant(
        "maintain: an edited plan is refused",
        "planning/maintenance_document.py",
        "if plan.hash != maintenance_plan_hash(plan):",
        "if False:",
        (f"{STEPS}::test_a_document_reads_back_as_it_was_and_shows_edits",),
    ),
)
