"""Rules of the storage report: every byte is counted once, and nothing is called an orphan without proof."""

from tests.mutants.mutant import Mutant

HOLDERS = "tests/planning/test_holders.py"
STORAGE = "tests/control/test_storage.py"

STORAGE_REPORTS = (
    Mutant(
        "storage: a file is freed only with the last snapshot that needs it",
        "observe/held_files.py",
        "np.minimum.at(self.file_levels, ids, levels)",
        "self.file_levels[ids] = levels",
        ("tests/observe/test_held_files.py",),
    ),
    Mutant(
        "storage: what could not be read may reference what looks like an orphan",
        "planning/holders.py",
        "Holder.ORPHAN if is_complete else Holder.UNKNOWN",
        "Holder.ORPHAN",
        (f"{HOLDERS}::test_nothing_is_called_an_orphan_if_something_could_not_be_read",),
    ),
    Mutant(
        "storage: files of a commit after the listing are not missing",
        "observe/held_files.py",
        "gone = absent(self.io, few, self.check)",
        "gone = list(few)",
        (f"{STORAGE}::test_a_commit_after_the_listing_makes_no_orphans_and_no_missing_files",),
    ),
    Mutant(
        "storage: metadata is read after the listing",
        "control/storage_report.py",
        "table = load_table(self.catalog, self.ref)  # as it is after the listing",
        "pass",
        (f"{STORAGE}::test_files_of_a_commit_during_the_listing_are_no_orphans",),
    ),
    Mutant(
        "storage: logged metadata files belong to the table",
        "observe/held_files.py",
        "named = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]",
        "named = [table.metadata_location]",
        (f"{STORAGE}::test_every_byte_on_disk_is_counted_once_as_a_model_says",),
    ),
    Mutant(
        "storage: statistics and partition statistics belong to their snapshots",
        "observe/held_files.py",
        "found = (*table.metadata.statistics, *table.metadata.partition_statistics)",
        "found = (*table.metadata.statistics,)",
        (f"{STORAGE}::test_every_byte_on_disk_is_counted_once_as_a_model_says",),
    ),
    Mutant(
        "storage: young orphans may belong to writers at work",
        "control/storage_report.py",
        "return StorageAction(command, every.bytes - young.bytes, 0,",
        "return StorageAction(command, every.bytes, 0,",
        (f"{STORAGE}::test_young_orphans_may_belong_to_writers",),
    ),
    Mutant(
        "storage: a location inside another is listed once",
        "observe/held_files.py",
        "return [root for root in roots if not is_below(root)]",
        "return list(roots)",
        (f"{STORAGE}::test_a_location_inside_another_is_listed_once",),
    ),
)
