"""Rules of format version 3 [I8]: row ids, upgrades, vectors that go with their files, metadata files."""

from tests.mutants.mutant import Mutant

COMMITS = ("tests/commit/test_format_v3.py",)

FORMAT_V3 = (
    Mutant(
        "v3: entries that stay say the first row id they had inherited",
        "commit/entries.py",
        "self._write_first_row_id(out, entry.first_row_id)",
        "self._write_first_row_id(out, None)",
        COMMITS,
    ),
    Mutant(
        "v3: files without a first row id follow each other from their manifest's",
        "commit/entries.py",
        "first_row_id, next_row_id = next_row_id, next_row_id + values[103]",
        "first_row_id = next_row_id",
        COMMITS,
    ),
    Mutant(
        "v3: the inventory's files follow each other from their manifest's first row id",
        "manifests/inherit.py",
        "inherited = pc.add(base, pa.array(before - at_start[manifest]))",
        "inherited = base",
        ("tests/observe/test_inventory.py",),
    ),
    Mutant(
        "v3: files of a manifest without a first row id have none",
        "manifests/inherit.py",
        "return pc.if_else(pc.is_null(base), base, pc.coalesce(own, inherited))",
        "return pc.coalesce(own, inherited)",
        ("tests/observe/test_inventory.py",),
    ),
    Mutant(
        "v3: a rewritten manifest does not keep the first row id of the old one",
        "commit/manifests.py",
        "        520: None,\n",
        "",
        COMMITS,
    ),
    Mutant(
        "v3: manifests that have a first row id keep it",
        "commit/manifests.py",
        "if format_version > 2 and fields[517] == DATA and fields.get(520) is None:",
        "if format_version > 2 and fields[517] == DATA:",
        COMMITS,
    ),
    Mutant(
        "v3: existing rows get room for ids too",
        "commit/manifests.py",
        "next_row_id + fields[512] + fields[513]",
        "next_row_id + fields[512]",
        COMMITS,
    ),
    Mutant(
        "v3: rows that got ids since the plan are not rewritten without them",
        "commit/conflicts.py",
        "if row is not None and not group.keeps_data and row.first_row_id != file.first_row_id:",
        "if False:",
        COMMITS,
    ),
    Mutant(
        "v3: the vector of a replaced file is removed with it, even if it was rewritten meanwhile",
        "commit/dangling.py",
        "chosen = deletes.filter(pc.or_(of_replaced, was_applied))",
        "chosen = deletes.filter(was_applied)",
        COMMITS,
    ),
    Mutant(
        "a commit is built again after an upgrade before it was sent",
        "commit/new_snapshot.py",
        "if base_metadata.format_version != self.format_version:",
        "if False:",
        COMMITS,
    ),
    Mutant(
        "metadata files keep fields that nobody knows",
        "catalog/metadata_file.py",
        "return unknown | known",
        "return known",
        ("tests/commit/test_metadata_file.py",),
    ),
)
