"""Rules of metadata files that the catalog does not know, and of what they keep [I6]."""

from tests.mutants.mutant import Mutant

TESTS = "tests/control/test_other_states.py"
STATES = "observe/unlogged_metadata.py"
GUARD = "control/other_states.py"

OTHER_STATES = (
    Mutant(
        "other states: commits of another catalog refuse a search for orphans",
        GUARD,
        "if (base := state.unknown_base(self.history)) is not None:",
        "if (base := state.unknown_base(self.history)) is not None and False:",
        (f"{TESTS}::test_orphans_of_a_catalog_that_is_behind_another_one_are_refused",),
    ),
    Mutant(
        "other states: what one of them names stays",
        "observe/orphans.py",
        "        for paths in named:\n            self.take_out(paths)\n",
        "",
        (f"{TESTS}::test_files_of_a_single_commit_of_another_catalog_are_kept",),
    ),
    Mutant(
        "other states: the files of their snapshots stay too",
        STATES,
        '        for piece in live_entries(io, new, check, _leave_out):\n            yield piece["path"]\n',
        "",
        (f"{TESTS}::test_files_of_a_single_commit_of_another_catalog_are_kept",),
    ),
    Mutant(
        "other states: older ones count too if the log reaches back to them",
        STATES,
        "head.last_updated_ms >= self.oldest_ms - _CLOCKS_MS",
        "head.last_updated_ms >= self.newest_ms",
        (f"{TESTS}::test_catalogs_that_have_diverged_are_refused_in_both",),
    ),
    Mutant(
        "other states: files that fell out of the log protect nothing",
        STATES,
        "head.last_updated_ms >= self.oldest_ms - _CLOCKS_MS",
        "head.last_updated_ms >= 0",
        (
            f"{TESTS}::test_what_a_commit_that_never_landed_left_goes_once_the_log_is_newer",
            f"{TESTS}::test_old_metadata_files_are_not_read_in_full",
        ),
    ),
    Mutant(
        "other states: a file that has just fallen out of the log is an orphan",
        GUARD,
        "if state.fell_out_of(self.history):",
        "if False:",
        ("tests/control/test_orphans.py::test_an_old_metadata_file_that_nothing_tracks_is_an_orphan",),
    ),
    Mutant(
        "other states: a directory of metadata outside of the location is listed",
        "control/orphan_plan.py",
        "        listed.metadata_files += list_metadata_files(table, elsewhere)\n",
        "",
        (f"{TESTS}::test_metadata_in_a_directory_of_its_own_is_looked_at",),
    ),
    Mutant(
        "other states: those that are declared dead keep nothing",
        GUARD,
        "            if state.key in self._dead:\n",
        "            if False:\n",
        (f"{TESTS}::test_what_a_commit_that_never_landed_left_is_kept_until_it_is_declared_dead",),
    ),
    Mutant(
        "other states: what a dead one builds on is dead",
        GUARD,
        "                self._dead |= set(older)\n",
        "",
        (f"{TESTS}::test_declaring_the_newest_file_dead_lets_all_go_that_it_builds_on",),
    ),
    Mutant(
        "other states: a metadata file in use cannot be declared dead",
        GUARD,
        "if used := sorted(key",
        "if used := False and sorted(key",
        (f"{TESTS}::test_a_metadata_file_that_the_table_uses_is_not_dead",),
    ),
    Mutant(
        "other states: the newest one is read before the others",
        STATES,
        "start, length = 0, 1",
        "start, length = 0, _READERS",
        (f"{TESTS}::test_only_the_newest_of_many_states_is_read_before_the_refusal",),
    ),
    Mutant(
        "other states: an expiry keeps what a newer one names",
        "control/expiry_plan.py",
        "        self._protect_newer_states(table, files, retained, expired)\n",
        "",
        (
            f"{TESTS}::test_an_expiry_keeps_what_a_newer_metadata_file_names",
            f"{TESTS}::test_an_expiry_from_a_catalog_that_is_behind_another_one_is_refused",
        ),
    ),
    Mutant(
        "other states: a commit that lost does not hold up an expiry",
        STATES,
        "self.log[-1:] == (history.current,)",
        "True",
        (f"{TESTS}::test_an_expiry_is_not_held_up_by_a_commit_that_lost",),
    ),
    Mutant(
        "quarantine: the time in it is measured by the clock of the storage",
        "control/orphans.py",
        "return now if of_store is None else min(now, of_store)",
        "return now",
        ("tests/control/test_orphans.py::test_the_time_in_quarantine_is_measured_by_the_clock_of_the_storage",),
    ),
    Mutant(
        "quarantine: a purge deletes only what the record names",
        "control/quarantine.py",
        "return {path: there[path] for path in there if path in named}, sorted(there.keys() - named)",
        "return there, []",
        ("tests/control/test_orphans.py::test_a_purge_deletes_only_what_the_record_names",),
    ),
    Mutant(
        "orphans: the root of a bucket has no prefix",
        "storage/s3/store.py",
        'return f"{directory}/" if directory else ""',
        'return f"{directory}/"',
        ("tests/s3/test_orphans.py::test_a_table_at_the_root_of_a_bucket_is_listed",),
    ),
)
