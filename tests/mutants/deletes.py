"""Which rows deletes take, how long delete files stay, and what conflicts."""

from tests.mutants.mutant import Mutant

COMMIT = ("tests/commit",)
RACES = ("tests/deletes/test_races.py", "tests/commit")
LIFETIME = ("tests/commit/test_dangling.py", "tests/deletes/test_lifetime.py", "tests/deletes/test_races.py")
KERNEL_DELETES = ("tests/execute/test_deletes.py", "tests/execute/test_equality.py")
PLANNED_DELETES = ("tests/planning/test_deletes.py", "tests/deletes/test_compact_deletes.py")
INVENTORY = ("tests/observe/test_inventory.py", "tests/observe/test_manifest.py")

DELETES = (
    Mutant(
        "an equality delete applies to strictly older data only (kernel)",
        "execute/kernel/deletes/equality.py",
        "self._latest[codes] > sequence_number",
        "self._latest[codes] >= sequence_number",
        KERNEL_DELETES,
    ),
    Mutant(
        "an equality delete applies to strictly older data only (which files are looked at)",
        "execute/kernel/deletes/deleted_rows.py",
        "if file.input.sequence_number < key_set.latest  # I3",
        "if file.input.sequence_number + 1 < key_set.latest  # I3",
        KERNEL_DELETES,
    ),
    Mutant(
        "an equality delete of a partition applies to strictly older data only (plan)",
        "planning/deletes.py",
        "equality[oldest < self._deletes.sequence[equality]],",
        "equality[oldest + 1 < self._deletes.sequence[equality]],",
        PLANNED_DELETES,
    ),
    Mutant(
        "an equality delete of an unpartitioned spec is global (plan)",
        "planning/deletes.py",
        "everywhere[oldest < self._deletes.sequence[everywhere]],",
        "everywhere[:0],",
        PLANNED_DELETES,
    ),
    Mutant(
        "an equality delete of an unpartitioned spec is global (inventory)",
        "observe/inventory.py",
        'scope = pc.if_else(is_global, "global",',
        'scope = pc.if_else(is_global, "partition",',
        INVENTORY,
    ),
    Mutant(
        "a position delete applies to data of its own commit too",
        "execute/kernel/deletes/deleted_rows.py",
        "return file.sequence_number <= delete.sequence_number and",
        "return file.sequence_number < delete.sequence_number and",
        KERNEL_DELETES,
    ),
    Mutant(
        "a position delete names one file by equal bounds of its path column",
        "manifests/entries.py",
        "pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.binary()))",
        "lower",
        INVENTORY,
    ),
    Mutant(
        "where a deletion vector applies, position delete files are ignored",
        "execute/kernel/deletes/deleted_rows.py",
        "if file.path not in vectors}",
        "}",
        KERNEL_DELETES,
    ),
    Mutant(
        "null keys equal null",
        "execute/kernel/deletes/equality.py",
        "pc.index_in(values, value_set=among)",
        "pc.index_in(values, value_set=among, skip_nulls=True)",
        KERNEL_DELETES,
    ),
    Mutant(
        "NaN keys equal NaN, whatever their bits",
        "execute/kernel/deletes/equality.py",
        "column = pc.if_else(pc.is_nan(column), nan, column)",
        "column = pc.if_else(pc.is_nan(column), column, column)",
        KERNEL_DELETES,
    ),
    Mutant(
        "all columns of an equality key count together",
        "execute/kernel/deletes/equality.py",
        "found = (codes != _ABSENT) & (more != _ABSENT)",
        "found = (codes != _ABSENT) | (more != _ABSENT)",
        KERNEL_DELETES,
    ),
    Mutant(
        "each equality delete counts from its own sequence number",
        "execute/kernel/deletes/equality.py",
        "np.maximum.at(self._latest, codes, per_row)",
        "np.maximum.at(self._latest, codes, per_row.max(initial=0))",
        KERNEL_DELETES,
    ),
    Mutant(
        "positions outside the file are damage, not ignored",
        "execute/kernel/deletes/deleted_rows.py",
        "positions[-1] >= file.records",
        "positions[-1] > file.records",
        KERNEL_DELETES,
    ),
    Mutant(
        "a deletion vector is identified by path, offset and size [I5]",
        "commit/entries.py",
        "identity=(values[100], values.get(144), values.get(145)),",
        "identity=(values[100], None, None),",
        ("tests/commit",),
    ),
)


LIFETIMES = (
    Mutant(
        "an equality delete stays while an older file of its partition is left [I4]",
        "planning/needed_deletes.py",
        "return bool(oldest < sequence_number)",
        "return bool(oldest + 1 < sequence_number)",
        LIFETIME,
    ),
    Mutant(
        "a global equality delete stays while any older file of any spec is left [I4]",
        "planning/needed_deletes.py",
        'if scope == "global" else self._oldest_data[partition]',
        'if scope == "nowhere" else self._oldest_data[partition]',
        LIFETIME,
    ),
    Mutant(
        "a file-scoped delete stays with its file [I4]",
        "planning/needed_deletes.py",
        "return referenced is not None and self._sequence_numbers.get(referenced, _NONE_LEFT) <= sequence_number",
        "return False",
        LIFETIME,
    ),
    Mutant(
        "a partition-scoped position delete stays while a file of its time is left [I4]",
        "planning/needed_deletes.py",
        "self._oldest_data[partition] <= sequence_number and",
        "self._oldest_data[partition] < 0 and",
        LIFETIME,
    ),
    Mutant(
        "only deletes that were applied may go [I4]",
        "commit/dangling.py",
        "[identity in applied for identity in identities(deletes)]",
        "[True for identity in identities(deletes)]",
        LIFETIME,
    ),
    Mutant(
        "what stays is judged by the commit's parent, not by the plan (race of an equality delete and an append)",
        "commit/dangling.py",
        'return data_files.filter(pc.invert(pc.is_in(data_files["path"], value_set=paths)))',
        "return data_files.slice(0, 0)",
        LIFETIME,
    ),
)


CONFLICTS = (
    Mutant(
        "replaced files must be live at the parent [I2]",
        "commit/conflicts.py",
        "if missing:",
        "if len(missing) == len(group.files):",
        RACES,
    ),
    Mutant(
        "a position delete that came after the plan blocks its group [I2]",
        "commit/conflicts.py",
        'if kind == "equality" or sequence_number <= plan_sequence_number:',
        'if kind == "equality" or sequence_number <= plan_sequence_number + 1:',
        RACES,
    ),
    Mutant(
        "a partition-scoped position delete blocks its partition's groups [I2]",
        "commit/conflicts.py",
        "for key in (path, (row.spec_id, row.partition)):",
        "for key in (path,):",
        RACES,
    ),
    Mutant(
        "deletes of another history, as old as the plan but unseen by it, block their group",
        "commit/conflicts.py",
        'return set(files["path"].filter(pa.array(index.touched(old & unknown))).to_pylist())',
        "return set()",
        RACES,
    ),
    Mutant(
        "a branch rolled back behind the plan gets no commit",
        "commit/conflicts.py",
        "if descends is False or (descends is None and parent.sequence_number < plan.sequence_number):",
        "if False:",
        COMMIT,
    ),
)
