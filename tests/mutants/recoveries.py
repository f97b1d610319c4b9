"""Rules of what a recovery may delete, whatever the job store says [I6], and of how many files a job may write."""

from tests.mutants.mutant import Mutant

FORGED = "tests/control/test_forged_records.py"
MANY = "tests/control/test_many_leftovers.py"
SCAN = "tests/control/test_scan.py"
CAPS = "tests/planning/test_output_caps.py"

RECOVERIES = (
    Mutant(
        "recovery: only what is the run's own is deleted",
        "commit/cleanup.py",
        "own = [path for path in sorted(paths) if ownership.owns(path, adopted)]",
        "own = sorted(paths)",
        (f"{FORGED}::test_paths_noted_for_a_living_run_are_deleted_only_if_they_are_its_own",),
    ),
    Mutant(
        "recovery: outputs lie below the table's own data locations",
        "commit/ownership.py",
        "return _is_below(path, self.data_roots) and (",
        "return (",
        (f"{FORGED}::test_file_names_contain_the_run_that_owns_them",),
    ),
    Mutant(
        "recovery: only directories of the table are looked into",
        "commit/outputs.py",
        "{directory for directory in written_to if ownership.holds(directory)}",
        "set(intent.directories.values())",
        (f"{FORGED}::test_a_forged_run_that_names_live_files_of_another_table_deletes_none",),
    ),
    Mutant(
        "recovery: a path with a detour is not below the table's location",
        "commit/ownership.py",
        'return {"", ".", ".."}.isdisjoint(path[len(root) + 1 :].split("/"))',
        "return True",
        (f"{FORGED}::test_a_path_through_the_tables_location_to_another_table_is_refused",),
    ),
    Mutant(
        "recovery: outputs carry the run's id",
        "commit/ownership.py",
        'and (output["run"] == self.run_id or path in adopted)',
        "",
        (f"{FORGED}::test_outputs_of_another_run_of_the_table_stay",),
    ),
    Mutant(
        "recovery: metadata carries the run's id",
        "commit/ownership.py",
        ".startswith(_mark(self.run_id))",
        '.startswith("")',
        (f"{FORGED}::test_file_names_contain_the_run_that_owns_them",),
    ),
    Mutant(
        "recovery: files that it did not name are nobody's",
        "commit/ownership.py",
        "return _is_below(path, self.metadata_roots) and self._is_metadata(name)",
        "return True",
        (f"{FORGED}::test_files_that_tidyberg_did_not_name_stay_whatever_the_record_says",),
    ),
    Mutant(
        "cleanup: only files with the name of metadata are not looked up in manifests [I6]",
        "commit/cleanup.py",
        "if all(_METADATA_NAME.fullmatch(name) for name in wanted):",
        "if any(_METADATA_NAME.fullmatch(name) for name in wanted):",
        ("tests/commit/test_cleanup.py",),
    ),
    Mutant(
        "recovery: which manifests are read does not depend on the record",
        "control/recovery.py",
        "referenced_paths(table, files, None, check)",
        "referenced_paths(table, files, intent.sequence_number, check)",
        (f"{FORGED}::test_a_forged_record_of_a_committed_run_deletes_nothing_that_a_snapshot_references",),
    ),
    Mutant(
        "recovery: of a table that is gone nothing is deleted",
        "control/recovery.py",
        "        if finding.table is None:\n            # A renamed",
        "        if False:\n            # A renamed",
        ("tests/control/test_recovery.py::test_a_job_whose_table_was_dropped_is_recovered",),
    ),
    Mutant(
        "recovery: only outputs that are the dead job's own are gone on with",
        "control/resume.py",
        "if not finding.files.issuperset(output.path for output in done.result.outputs):",
        "if False:",
        (f"{FORGED}::test_a_forged_result_that_names_another_file_is_not_committed",),
    ),
    Mutant(
        "recovery: it ends when it is cancelled",
        "commit/cleanup.py",
        "    def deleted(path: str) -> OSError | bool:\n        check()\n",
        "    def deleted(path: str) -> OSError | bool:\n",
        (f"{MANY}::test_a_cancelled_recovery_stops_at_once_and_the_next_one_finishes",),
    ),
    Mutant(
        "recovery: outputs are found whatever their numbers and attempts",
        "commit/outputs.py",
        "if group_of(path) in groups or",
        'if (group_of(path) in groups and "-a00-" in path) or',
        (f"{MANY}::test_many_leftovers_are_found_by_one_listing",),
    ),
    Mutant(
        "scan: files of open runs are theirs",
        "control/scan.py",
        "if _run_of(file.location) in claims or file.location in claims}",
        "if False}",
        (f"{SCAN}::test_outputs_of_a_run_in_the_store_are_not_strays",),
    ),
    Mutant(
        "scan: files that a snapshot references are no strays",
        "control/scan.py",
        "if file.location not in claimed and file.location not in referenced",
        "if file.location not in claimed",
        (f"{SCAN}::test_nothing_else_is_found",),
    ),
    Mutant(
        "scan: another table may lie below this one",
        "control/scan.py",
        " and all(map(_DIRECTORY.fullmatch, directories))",
        "",
        (f"{SCAN}::test_nothing_else_is_found",),
    ),
    Mutant(
        "scan: young files stay",
        "control/scan.py",
        "if stray.age_ms >= min_age_hours * HOUR_MS]",
        "]",
        (f"{SCAN}::test_young_files_stay",),
    ),
    Mutant(
        "scan: a file without a modification time counts as new",
        "control/scan.py",
        "if file.modified_ms > 0 else 0",
        "",
        (f"{SCAN}::test_a_file_without_a_modification_time_counts_as_new",),
    ),
    Mutant(
        "caps: a plan makes no more files than it reads",
        "planning/drafts.py",
        "outputs = min(outputs, len(members))",
        "pass",
        (CAPS,),
    ),
    Mutant(
        "caps: a plan makes no more files than a job may write",
        "planning/limits.py",
        "if candidate is not None and outputs + candidate.outputs > options.max_output_files:",
        "if False:",
        (CAPS,),
    ),
    Mutant(
        "caps: a table's own target is not below the floor",
        "planning/file_sizes.py",
        "max(_target_of_table(properties), options.min_target_file_size)",
        "_target_of_table(properties)",
        (CAPS,),
    ),
    Mutant(
        "caps: a writer that rolls far more often than planned ends",
        "execute/kernel/write/output.py",
        "if number >= task.max_outputs:",
        "if False:",
        ("tests/execute/test_write.py::test_a_writer_that_rolls_far_more_often_than_planned_ends_the_task",),
    ),
)
