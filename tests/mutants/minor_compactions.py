"""Rules of minor compactions: what a merged delete contains, which deletes leave, and what counts as a conflict."""

from tests.mutants.mutant import Mutant

MINOR = "tests/deletes/test_minor_compaction.py"
MODEL = "tests/deletes/test_minor_model.py"
VECTORS = "tests/execute/test_vector_files.py"

MINOR_COMPACTIONS = (
    Mutant(
        "minor: equality deletes of v2 stay for files whose positions were merged [I4]",
        "commit/dangling.py",
        "not group.group.keeps_data or group.merges_keys]",
        "True]",
        ("tests/commit/test_dangling.py",),
    ),
    Mutant(
        "minor: data files stay in the table",
        "commit/snapshot.py",
        "() if member.group.keeps_data else member.manifests.items()",
        "member.manifests.items()",
        (f"{MINOR}::test_new_deletes_have_the_sequence_number_of_the_plans_snapshot",),
    ),
    Mutant(
        "minor: merged deletes have the sequence number of the plan's snapshot [I3]",
        "commit/manifests.py",
        "encode.added(delete, new.snapshot_id, new.sequence_number) for",
        "encode.added(delete, new.snapshot_id, new.sequence_number - 1) for",
        (f"{MINOR}::test_new_deletes_have_the_sequence_number_of_the_plans_snapshot",),
    ),
    Mutant(
        "minor: equality deletes that become vectors make an overwrite, which Java's compactions look at",
        "commit/snapshot.py",
        "return Operation.OVERWRITE if converts else Operation.REPLACE",
        "return Operation.REPLACE",
        (MINOR,),
    ),
    Mutant(
        "minor: a table that was upgraded meanwhile gets no position delete files",
        "commit/conflicts.py",
        "if version != plan.format_version:",
        "if False:",
        (f"{MINOR}::test_an_upgrade_meanwhile_lets_no_position_delete_file_into_v3",),
    ),
    Mutant(
        "minor: deletes that another run has merged are a conflict",
        "commit/conflicts.py",
        "if not any(plan.deletes[position].identity in live for position in group.deletes):",
        "if False:",
        (f"{MINOR}::test_another_minor_compaction_meanwhile_leaves_one_vector_per_file",),
    ),
    Mutant(
        "minor: a new position delete or vector on the same file is a conflict [I2]",
        "commit/conflicts.py",
        'if kind == "equality" or sequence_number <= plan_sequence_number:\n                continue\n            key',
        "if True:\n                continue\n            key",
        (f"{MINOR}::test_a_new_vector_on_the_same_file_is_a_conflict",),
    ),
    Mutant(
        "minor: a delete for several files leaves only if all of them are merged [I4 I10]",
        "planning/merged_deletes.py",
        "leaves = reached & ~NeededDeletes(others, partitions, counted).among(rows)",
        "leaves = reached",
        (f"{MINOR}::test_a_global_equality_delete_leaves_only_with_all_partitions",),
    ),
    Mutant(
        "minor: deletes that no data file needs leave in the same commit",
        "planning/merged_deletes.py",
        "        if len(dangling):\n            first",
        "        if False:\n            first",
        (f"{MINOR}::test_deletes_that_no_data_file_needs_leave",),
    ),
    Mutant(
        "minor: v2 merges no equality deletes",
        "planning/merged_deletes.py",
        "merged = leaves & (self._is_position | self._is_equality if self._vectors else self._is_position)",
        "merged = leaves & (self._is_position | self._is_equality)",
        (f"{MINOR}::test_v2_leaves_equality_deletes", MODEL),
    ),
    Mutant(
        "minor: deletes of several groups are merged in one commit",
        "control/round.py",
        "is not None and not any(\n            group.keeps_data for group in self._groups.values()\n        )",
        "is not None",
        (f"{MINOR}::test_deletes_are_merged_in_one_commit_even_if_asked_otherwise",),
    ),
    Mutant(
        "minor: limits take all groups or none",
        "planning/decide.py",
        "    if strategy.keeps_data:\n        return take_all_or_nothing(",
        "    if False:\n        return take_all_or_nothing(",
        (f"{MINOR}::test_a_limit_takes_all_or_nothing",),
    ),
    Mutant(
        "minor: merged deletes are no reason for a rewrite by number",
        "planning/delete_ratios.py",
        "index.names_file & by_compaction]",
        "index.names_file & ~by_compaction]",
        (f"{MINOR}::test_auto_leaves_merged_deletes_until_they_delete_many_rows",),
    ),
    Mutant(
        "minor: the positions that were written are read back",
        "verify/merged_deletes.py",
        "elif len(found) != delete.records or positions_digest(found) != delete.digest:",
        "elif False:",
        (f"{MINOR}::test_verification_notices_wrong_positions",),
    ),
    Mutant(
        "minor: full verification compares the rows that survive",
        "verify/merged_deletes.py",
        "if old.rows != new.rows or not np.array_equal(read_sums(old), read_sums(new)):",
        "if False:",
        (f"{MINOR}::test_verification_notices_a_file_whose_deletes_are_missing",),
    ),
    Mutant(
        "minor: a file without null keys in range is skipped only if null is not deleted",
        "execute/kernel/deletes/key_bounds.py",
        "or (deleted.null_count and facts.nulls != 0)",
        "",
        ("tests/execute/test_key_bounds.py",),
    ),
    Mutant(
        "minor: a file is skipped only if its values are outside the range of the keys",
        "execute/kernel/deletes/key_bounds.py",
        'numbers["max"].as_py() < lower or numbers["min"].as_py() > upper',
        'numbers["max"].as_py() <= lower or numbers["min"].as_py() >= upper',
        ("tests/execute/test_key_bounds.py",),
    ),
    Mutant(
        "minor: a vector's checksum is that of the spec",
        "execute/kernel/deletes/vector_files.py",
        "zlib.crc32(content)",
        "zlib.adler32(content)",
        (VECTORS,),
    ),
    Mutant(
        "minor: a container with more than 4,096 values is a bitmap",
        "execute/kernel/deletes/vector_files.py",
        "    if len(values) <= _ARRAY_LIMIT:\n        return values.tobytes(), False",
        "    if len(values) <= 2 * _ARRAY_LIMIT:\n        return values.tobytes(), False",
        (VECTORS,),
    ),
    Mutant(
        "minor: a commit that would change nothing is not made",
        "commit/snapshot.py",
        "if not removed and not merged:",
        "if False:",
        (f"{MINOR}::test_a_commit_that_would_change_nothing_is_a_conflict",),
    ),
    Mutant(
        "minor: a file that was removed and added again is a conflict [I3]",
        "commit/conflicts.py",
        "row.sequence_number != file.sequence_number",
        "False",
        ("tests/commit/test_dangling.py",),
    ),
    Mutant(
        "minor: files that are only counted may need a delete too [I4 I10]",
        "planning/needed_deletes.py",
        "if counted_files is not None:",
        "if False:",
        ("tests/control/test_remote_manifests.py",),
    ),
)
