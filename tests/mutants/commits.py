"""How a commit ends once or not at all."""

from tests.mutants.mutant import Mutant

COMMIT = ("tests/commit",)
RECOVERY = ("tests/control/test_recovery.py",)

OUTCOMES = (
    Mutant(
        "every commit asserts the table's uuid",
        "commit/new_snapshot.py",
        "AssertTableUUID(uuid=metadata.table_uuid),\n",
        "",
        COMMIT,
    ),
    Mutant(
        "every commit asserts where its branch is",
        "commit/new_snapshot.py",
        "AssertRefSnapshotId(ref=branch, snapshot_id=parent_id),\n",
        "",
        COMMIT,
    ),
    Mutant(
        "a table of the same name but another uuid gets no commit",
        "commit/loop.py",
        "if str(table.metadata.table_uuid) != self.table_uuid:",
        "if False:",
        COMMIT,
    ),
    Mutant(
        "the table is asked whether an unanswered commit landed before it is sent again [I7]",
        "commit/loop.py",
        "if (landed := commit.landed(state, attempt)) is not None:",
        "if (landed := None) is not None:",
        COMMIT,
    ),
    Mutant(
        "a landed commit whose snapshot was expired is known by its live files [I7]",
        "commit/publish.py",
        "if self._attempts and (groups := self._live_groups(state)):",
        "if False and (groups := self._live_groups(state)):",
        COMMIT,
    ),
    Mutant(
        "nothing that a snapshot references is deleted by recovery [I6]",
        "control/recovery.py",
        "leftovers = finding.files - finding.referenced - keep",
        "leftovers = finding.files - keep",
        RECOVERY,
    ),
    Mutant(
        "while a sent commit may still land its files are kept [I6]",
        "control/recovery.py",
        "if finding.doubt:",
        "if False:",
        RECOVERY,
    ),
    Mutant(
        "branch retention settings are kept",
        "commit/new_snapshot.py",
        "max_ref_age_ms=ref.max_ref_age_ms,",
        "max_ref_age_ms=None,",
        COMMIT,
    ),
    Mutant(
        "before any commit every output is looked up",
        "commit/outputs.py",
        "if size != file.size:",
        "if False:",
        ("tests/commit/test_outputs.py",),
    ),
)
