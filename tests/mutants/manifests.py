"""What manifests and their lists must say."""

from tests.mutants.mutant import Mutant

COMMIT = ("tests/commit",)
INVENTORY = ("tests/observe/test_inventory.py", "tests/observe/test_manifest.py")

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
        "516: self.sequence_number,",
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
        "513: sum(entry.records for entry in [*kept, *gone]),",
        COMMIT,
    ),
    Mutant(
        "manifests without live files leave the list",
        "commit/snapshot.py",
        "if path not in removed and manifest.may_have_live_files:",
        "if path not in removed:",
        COMMIT,
    ),
    Mutant(
        "manifests are merged with those alone that are of the same spec and kind of content",
        "commit/merging.py",
        "        source.listed.content,\n        source.listed.spec_id,\n        header,\n",
        "",
        COMMIT,
    ),
    Mutant(
        "a manifest that keeps nothing is not carried on by one that does",
        "commit/merging.py",
        "len(loss.removed) == len(source.entries),",
        "None,",
        COMMIT,
    ),
    Mutant(
        "rows that have no ids yet get them by their manifest's",
        "commit/merging.py",
        "source.listed.content == DATA and source.listed.first_row_id is None,",
        "None,",
        COMMIT,
    ),
    Mutant(
        "partition summaries of a merged manifest cover what all its sources hold [I9]",
        "commit/manifests.py",
        "fields[507] = _summaries(source, [*kept, *gone])",
        "pass",
        COMMIT,
    ),
    Mutant(
        "only new entries inherit a sequence number",
        "manifests/inherit.py",
        'may_inherit = pc.or_(pc.equal(entries["status"], _ADDED), pa.array(sequence == 0))',
        "may_inherit = pa.array(sequence >= 0)",
        ("tests/observe/test_damage.py", *INVENTORY),
    ),
    Mutant(
        "an entry's own sequence number goes before its manifest's",
        "manifests/inherit.py",
        'pc.coalesce(entries["sequence_number"], inherited)',
        'pc.coalesce(inherited, entries["sequence_number"])',
        INVENTORY,
    ),
    Mutant(
        "partitions of doubles differ in the last bit",
        "avro/records.py",
        '"double": read_double,',
        '"double": _Decoder.read_double,',
        ("tests/observe/test_manifest.py",),
    ),
    Mutant(
        "manifests that are no neighbours are joined without what lies between them",
        "manifests/entries.py",
        "if pieces and pieces[-1][0] is source and pieces[-1][2] == start:",
        "if pieces and pieces[-1][0] is source and pieces[-1][2] <= start:",
        ("tests/manifests/test_entries.py",),
    ),
    Mutant(
        "manifests of different tables are joined one after the other",
        "manifests/entries.py",
        "if pieces and pieces[-1][0] is source and pieces[-1][2] == start:",
        "if pieces and pieces[-1][2] == start:",
        ("tests/manifests/test_entries.py",),
    ),
)
