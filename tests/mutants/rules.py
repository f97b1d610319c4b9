"""The rules of the format that a compaction must obey, each with a change of the code that breaks it."""

from tests.mutants.format_v3 import FORMAT_V3
from tests.mutants.moves import MOVES
from tests.mutants.mutant import Mutant
from tests.mutants.outcomes import JOB_OUTCOMES

COMMIT = ("tests/commit",)
RACES = ("tests/deletes/test_races.py", "tests/commit")
LIFETIME = ("tests/commit/test_dangling.py", "tests/deletes/test_lifetime.py", "tests/deletes/test_races.py")
KERNEL_DELETES = ("tests/execute/test_deletes.py", "tests/execute/test_equality.py")
PLANNED_DELETES = ("tests/planning/test_deletes.py", "tests/deletes/test_compact_deletes.py")
INVENTORY = ("tests/observe/test_inventory.py", "tests/observe/test_manifest.py")
METRICS = ("tests/execute/test_metrics.py",)
ABSENT = ("tests/execute/test_evolution.py", "tests/execute/test_tasks.py")
PROJECTION = ("tests/execute/test_project.py",)
LINEAGE_TESTS = ("tests/execute/test_lineage.py",)
RECOVERY = ("tests/control/test_recovery.py",)

SEQUENCE_NUMBERS = (
    Mutant(
        "outputs carry the data sequence number of the plan's snapshot [I3]",
        "commit/entries.py",
        "{0: ADDED, 1: snapshot_id, 3: sequence_number, 4: None}",
        "{0: ADDED, 1: snapshot_id, 3: None, 4: None}",
        COMMIT,
    ),
    Mutant(
        "the file sequence number of outputs is inherited",
        "commit/entries.py",
        "{0: ADDED, 1: snapshot_id, 3: sequence_number, 4: None}",
        "{0: ADDED, 1: snapshot_id, 3: sequence_number, 4: sequence_number}",
        COMMIT,
    ),
    Mutant(
        "kept entries carry their original snapshot id",
        "commit/manifests.py",
        "encode.existing(entry, EXISTING, entry.snapshot_id)",
        "encode.existing(entry, EXISTING, snapshot_id)",
        COMMIT,
    ),
    Mutant(
        "removed entries carry the new snapshot's id",
        "commit/manifests.py",
        "encode.existing(entry, DELETED, snapshot_id)",
        "encode.existing(entry, DELETED, entry.snapshot_id)",
        COMMIT,
    ),
    Mutant(
        "entries that were deleted before are not carried over",
        "commit/entries.py",
        "if values[0] == DELETED:",
        "if False:",
        COMMIT,
    ),
    Mutant(
        "a manifest's minimum sequence number reflects the older explicit number of outputs",
        "commit/manifests.py",
        "516: sequence_number,",
        "516: None,",
        COMMIT,
    ),
    Mutant(
        "a manifest's minimum sequence number is that of its live files",
        "commit/manifests.py",
        "516: min((entry.sequence_number for entry in kept), default=None),",
        "516: None,",
        COMMIT,
    ),
    Mutant(
        "counts of kept files and rows are right",
        "commit/manifests.py",
        "513: sum(entry.records for entry in kept),",
        "513: sum(entry.records for entry in source.entries),",
        COMMIT,
    ),
    Mutant(
        "manifests without live files leave the list",
        "commit/snapshot.py",
        "elif manifest.may_have_live_files:",
        "else:",
        COMMIT,
    ),
    Mutant(
        "only new entries inherit a sequence number",
        "observe/inventory.py",
        'may_inherit = pc.or_(pc.equal(entries["status"], _ADDED), pa.array(sequence == 0))',
        "may_inherit = pa.array(sequence >= 0)",
        ("tests/observe/test_damage.py", *INVENTORY),
    ),
    Mutant(
        "an entry's own sequence number goes before its manifest's",
        "observe/inventory.py",
        'pc.coalesce(entries["sequence_number"], inherited)',
        'pc.coalesce(inherited, entries["sequence_number"])',
        INVENTORY,
    ),
    Mutant(
        "partitions of doubles are told apart to the last bit",
        "observe/avro.py",
        "FieldReader(read_double, _Decoder.skip_double)",
        "FieldReader(_Decoder.read_double, _Decoder.skip_double)",
        INVENTORY,
    ),
)

DELETES = (
    Mutant(
        "an equality delete applies to strictly older data only (kernel)",
        "execute/kernel/equality.py",
        "self._latest[codes] > sequence_number",
        "self._latest[codes] >= sequence_number",
        KERNEL_DELETES,
    ),
    Mutant(
        "an equality delete applies to strictly older data only (which files are looked at)",
        "execute/kernel/deletes.py",
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
        "execute/kernel/deletes.py",
        "return file.sequence_number <= delete.sequence_number and",
        "return file.sequence_number < delete.sequence_number and",
        KERNEL_DELETES,
    ),
    Mutant(
        "a position delete names one file by equal bounds of its path column",
        "observe/manifest.py",
        "bound == dict(upper or ()).get(_DELETE_PATH_COLUMN)",
        "bound is not None",
        INVENTORY,
    ),
    Mutant(
        "where a deletion vector applies, position delete files are ignored",
        "execute/kernel/deletes.py",
        "if file.path not in vectors}",
        "}",
        KERNEL_DELETES,
    ),
    Mutant(
        "null keys equal null",
        "execute/kernel/equality.py",
        "pc.index_in(values, value_set=among)",
        "pc.index_in(values, value_set=among, skip_nulls=True)",
        KERNEL_DELETES,
    ),
    Mutant(
        "NaN keys equal NaN, whatever their bits",
        "execute/kernel/equality.py",
        "column = pc.if_else(pc.is_nan(column), nan, column)",
        "column = pc.if_else(pc.is_nan(column), column, column)",
        KERNEL_DELETES,
    ),
    Mutant(
        "all columns of an equality key count together",
        "execute/kernel/equality.py",
        "found = (codes != _ABSENT) & (more != _ABSENT)",
        "found = (codes != _ABSENT) | (more != _ABSENT)",
        KERNEL_DELETES,
    ),
    Mutant(
        "each equality delete counts from its own sequence number",
        "execute/kernel/equality.py",
        "np.maximum.at(self._latest, codes, per_row)",
        "np.maximum.at(self._latest, codes, per_row.max(initial=0))",
        KERNEL_DELETES,
    ),
    Mutant(
        "positions outside the file are damage, not ignored",
        "execute/kernel/deletes.py",
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
        "commit/dangling.py",
        "return bool(oldest < sequence_number)",
        "return bool(oldest + 1 < sequence_number)",
        LIFETIME,
    ),
    Mutant(
        "a global equality delete stays while any older file of any spec is left [I4]",
        "commit/dangling.py",
        'if scope == "global" else self._oldest_data[partition]',
        'if scope == "nowhere" else self._oldest_data[partition]',
        LIFETIME,
    ),
    Mutant(
        "a file-scoped delete stays with its file [I4]",
        "commit/dangling.py",
        "return referenced in self._paths",
        "return False",
        LIFETIME,
    ),
    Mutant(
        "a partition-scoped position delete stays while a file of its time is left [I4]",
        "commit/dangling.py",
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
        'remaining = parent.data_files.filter(pc.invert(pc.is_in(parent.data_files["path"], value_set=replaced)))',
        "remaining = parent.data_files.slice(0, 0)",
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

OUTCOMES = (
    Mutant(
        "every commit asserts the table's uuid",
        "commit/snapshot.py",
        "AssertTableUUID(uuid=metadata.table_uuid),\n",
        "",
        COMMIT,
    ),
    Mutant(
        "every commit asserts where its branch is",
        "commit/snapshot.py",
        "AssertRefSnapshotId(ref=branch, snapshot_id=parent_id),\n",
        "",
        COMMIT,
    ),
    Mutant(
        "a table of the same name but another uuid gets no commit",
        "commit/publish.py",
        "if str(table.metadata.table_uuid) != self.plan.table_uuid:",
        "if False:",
        COMMIT,
    ),
    Mutant(
        "the table is asked whether an unanswered commit landed before it is sent again [I7]",
        "commit/publish.py",
        "if landed := self._landed(table, parent, finished, attempt):",
        "if landed := None:",
        COMMIT,
    ),
    Mutant(
        "a landed commit whose snapshot was expired is known by its live files [I7]",
        "commit/publish.py",
        "if self._attempts and (groups := self._live_groups(parent, finished)):",
        "if False and (groups := self._live_groups(parent, finished)):",
        COMMIT,
    ),
    Mutant(
        "nothing that a snapshot references is deleted by recovery [I6]",
        "control/recovery.py",
        "leftovers = finding.files - finding.referenced - frozenset(keep)",
        "leftovers = finding.files - frozenset(keep)",
        RECOVERY,
    ),
    Mutant(
        "while a sent commit may still land its files are kept [I6]",
        "control/recovery.py",
        "if finding.may_land:",
        "if False:",
        RECOVERY,
    ),
    Mutant(
        "branch retention settings are kept",
        "commit/snapshot.py",
        "max_ref_age_ms=ref.max_ref_age_ms,",
        "max_ref_age_ms=None,",
        COMMIT,
    ),
    Mutant(
        "before any commit every output is looked up",
        "commit/outputs.py",
        "if size != file.size:",
        "if False:",
        ("tests/control/test_compact.py", "tests/commit"),
    ),
)

VALUES = (
    Mutant(
        "bounds exclude NaN",
        "execute/kernel/bounds.py",
        "if math.isnan(value):",
        "if False:",
        METRICS,
    ),
    Mutant(
        "a zero as lower bound covers both zeros",
        "execute/kernel/bounds.py",
        "return -0.0 if lower else 0.0",
        "return 0.0",
        METRICS,
    ),
    Mutant(
        "truncated upper bounds are rounded up",
        "execute/kernel/bounds.py",
        "return _next_text(text[:length])",
        "return text[:length].encode()",
        METRICS,
    ),
    Mutant(
        "truncated upper bounds of bytes are rounded up",
        "execute/kernel/bounds.py",
        "return _next_bytes(value[:length])",
        "return value[:length]",
        METRICS,
    ),
    Mutant(
        "split offsets are ascending row group starts",
        "execute/kernel/metrics.py",
        "starts.append(min(offsets))",
        "starts.append(max(offsets))",
        METRICS,
    ),
    Mutant(
        "INT96 timestamps are read in microseconds",
        "execute/kernel/read.py",
        'coerce_int96_timestamp_unit="us",',
        'coerce_int96_timestamp_unit="ns",',
        ("tests/execute/test_read.py",),
    ),
)

EVOLUTION = (
    Mutant(
        "the partition's value goes before the initial default, also where it is null",
        "execute/evolution.py",
        "            values[field.source_id] = value\n",
        "            values[field.source_id] = value if value is not None else values.get(field.source_id)\n",
        ABSENT,
    ),
    Mutant(
        "only identity transforms tell a column's value",
        "execute/evolution.py",
        "if isinstance(field.transform, IdentityTransform):",
        "if True:",
        ABSENT,
    ),
    Mutant(
        "initial defaults fill nested fields too",
        "execute/evolution.py",
        "        yield from _fields_below(field.field_type)\n",
        "",
        ABSENT,
    ),
    Mutant(
        "the text null and a missing value are two partitions",
        "execute/tasks.py",
        "firsts[path]: inventory.partitions[partition]",
        "firsts[path]: inventory.partitions[0]",
        ABSENT,
    ),
    Mutant(
        "a required column that a file lacks is never null",
        "execute/kernel/project.py",
        "if not wanted.nullable:",
        "if False:",
        PROJECTION,
    ),
    Mutant(
        "a null struct stays null",
        "execute/kernel/project.py",
        "mask = array.is_null() if array.null_count else None",
        "mask = None",
        PROJECTION,
    ),
    Mutant(
        "one field id in a file makes all its columns count by id",
        "execute/kernel/names.py",
        "return field_id(column) is not None or any(_has_id(child) for _, child in children(column.type))",
        "return field_id(column) is not None",
        PROJECTION,
    ),
    Mutant(
        "without a name mapping the first column is field 1",
        "execute/kernel/names.py",
        "return {(column.name,): identifier for identifier, column in enumerate(schema, start=1)}",
        "return {(column.name,): identifier for identifier, column in enumerate(schema, start=0)}",
        PROJECTION,
    ),
    Mutant(
        "numbers that would change are refused",
        "execute/kernel/project.py",
        "return bool(source.bit_width <= wanted.bit_width)",
        "return True",
        PROJECTION,
    ),
)

LINEAGE = (
    Mutant(
        "a row id is inherited by the position in the whole file [I8]",
        "execute/kernel/lineage.py",
        "start = file.first_row_id + first",
        "start = file.first_row_id",
        LINEAGE_TESTS,
    ),
    Mutant(
        "a stored row id counts before an inherited one [I8]",
        "execute/kernel/lineage.py",
        "pc.coalesce(stored_ids, inherited)",
        "inherited",
        LINEAGE_TESTS,
    ),
    Mutant(
        "positions of inherited row ids count deleted rows [I8]",
        "execute/kernel/run.py",
        "yield first, fill_lineage(batch, file.input, first) if task.lineage else batch",
        "yield first, fill_lineage(batch, file.input, 0) if task.lineage else batch",
        LINEAGE_TESTS,
    ),
    Mutant(
        "the last update is inherited from the file's data sequence number, ids or not [I8]",
        "execute/kernel/lineage.py",
        "if stored_updates.null_count:",
        "if stored_updates.null_count and file.first_row_id is not None:",
        LINEAGE_TESTS,
    ),
    Mutant(
        "tables of format v3 keep row lineage [I8]",
        "execute/tasks.py",
        "lineage = pinned.format_version >= 3",
        "lineage = pinned.format_version > 3",
        ("tests/execute/test_format_v3.py",),
    ),
    Mutant(
        "no bounds of row ids where some are yet to be given [I8 I9]",
        "execute/kernel/metrics.py",
        " or (found.nulls and leaf.field_id in (ROW_ID, LAST_UPDATED))",
        "",
        LINEAGE_TESTS,
    ),
    Mutant(
        "full verification covers lineage [I8]",
        "verify/contents.py",
        "lineage=by_group[result.group_id].lineage,",
        "lineage=False,",
        LINEAGE_TESTS,
    ),
    Mutant(
        "a deletion vector holds as many rows as its manifest says",
        "execute/kernel/delete_files.py",
        "len(positions) != vector.records",
        "len(positions) < vector.records",
        ("tests/execute/test_vectors.py",),
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *SEQUENCE_NUMBERS,
    *DELETES,
    *LIFETIMES,
    *CONFLICTS,
    *OUTCOMES,
    *VALUES,
    *EVOLUTION,
    *LINEAGE,
    *FORMAT_V3,
    *JOB_OUTCOMES,
    *MOVES,
)
