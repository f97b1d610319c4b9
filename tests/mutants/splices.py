"""Pages that are moved when rows are encoded: which may be, and what is said of them in their new place."""

from tests.mutants.mutant import Mutant

SPLICED = ("tests/splicing/test_splice.py",)
UNFOLDED = ("tests/splicing/test_unfold.py",)

PARTS = ("tests/splicing/test_parts.py",)
DELETED = ("tests/splicing/test_deletes.py",)
PROVEN = ("tests/verify/test_splices.py",)

CORES = ("tests/execute/test_several_cores.py",)

SPLICES = (
    Mutant(
        "columns that threads encoded come to lie in their own places [I1]",
        "execute/kernel/write/encoders.py",
        "[leaf_numbers[p] for p in bundle]",
        "leaf_numbers[: len(bundle)]",
        CORES,
    ),
    Mutant(
        "threads that encode end with their task, before its outputs are removed [I6]",
        "execute/kernel/write/encoders.py",
        "self._pool.shutdown(cancel_futures=True)",
        "self._pool.shutdown(wait=False)",
        CORES,
    ),
    Mutant(
        "of a file that tasks share no page is moved, for each would take all of its rows [I1]",
        "execute/kernel/splice/inputs.py",
        "if not is_whole(self.file):",
        "if False:",
        PARTS,
    ),
    Mutant(
        "ids of rows behind a cut count from the start of their file [I8]",
        "execute/kernel/splice/writer.py",
        "first = file.first_row",
        "first = 0",
        PARTS,
    ),
    Mutant(
        "a bound that may be cut is not called exact [I9]",
        "execute/kernel/write/merged_chunk.py",
        "if False in flags or None not in flags:",
        "if None not in flags:",
        SPLICED,
    ),
    Mutant(
        "no page of a file that loses rows is moved [I1]",
        "execute/kernel/deletes/surviving_rows.py",
        "is_movable = not self._deleted_rows.may_delete_from(file.input)",
        "is_movable = True",
        DELETED,
    ),
    Mutant(
        "pages of a file that a delete touches are refused, whatever the worker counts (proof) [I1]",
        "verify/groups.py",
        "    raise_problems(group, list(splice_problems(group, result, deletes, paths_of)))\n",
        "",
        ("tests/control/test_splices.py",),
    ),
    Mutant(
        "a delete of a whole partition touches only the files that it names (proof)",
        "verify/splices.py",
        'if delete.kind != "position" or file.path in paths_of(delete):',
        "if True:",
        PROVEN,
    ),
    Mutant(
        "an equality delete touches every older file (proof) [I3]",
        "verify/splices.py",
        "return file.sequence_number < delete.sequence_number",
        "return False",
        PROVEN,
    ),
    Mutant(
        "pages of a file that tasks share are refused (proof) [I1]",
        "verify/parts.py",
        "    _check_splices(task, parts)\n",
        "",
        PROVEN,
    ),
    Mutant(
        "deleted rows are left out of a file that is encoded beside moved pages [I1]",
        "execute/kernel/splice/writer.py",
        "yield without_rows(fill_lineage(batch, file.input, first) if lineage else batch, first, deleted)",
        "yield fill_lineage(batch, file.input, first) if lineage else batch",
        DELETED,
    ),
    Mutant(
        "an encoded file has the same number of rows in all columns [I1]",
        "execute/kernel/splice/writer.py",
        "wanted = file.end_row - file.first_row - len(deleted)",
        "wanted = file.end_row - file.first_row",
        DELETED,
    ),
    Mutant(
        "lineage is not moved, for a null there stands for what a row inherits from its file [I8]",
        "execute/kernel/splice/eligibility.py",
        "own = len(target) - (len(LINEAGE_FIELDS) if task.lineage else 0)",
        "own = len(target)",
        SPLICED,
    ),
    Mutant(
        "only pages that need no dictionary are moved",
        "parquet/pages.py",
        "if encoding != PLAIN:",
        "if False:",
        SPLICED,
    ),
    Mutant(
        "pages of one column are compressed in one way",
        "execute/kernel/write/source_chunks.py",
        "!= CODEC_IDS[settings.compression]:",
        "== 99:",
        SPLICED,
    ),
    Mutant(
        "page indexes lead to the rows of their pages",
        "execute/kernel/write/merged_chunk.py",
        "row += page.values",
        "row += page.values - 1",
        SPLICED,
    ),
    Mutant(
        "bounds of a moved column are those of all its parts [I9]",
        "execute/kernel/write/merged_chunk.py",
        "min(lowers, key=key)",
        "max(lowers, key=key)",
        SPLICED,
    ),
    Mutant(
        "NaN is counted in floats that are moved [I9]",
        "execute/kernel/write/floats.py",
        "self.nans + count",
        "self.nans",
        SPLICED,
    ),
    Mutant(
        "a dictionary stands for its column only where each entry is used once, in order",
        "parquet/levels.py",
        "if seen < values or found[:whole] != expected[:whole]:",
        "if seen < values:",
        UNFOLDED,
    ),
    Mutant(
        "a dictionary with an entry that no row has is not the column",
        "parquet/dictionaries.py",
        "if seen != entries:",
        "if False:",
        UNFOLDED,
    ),
    Mutant(
        "nulls keep their places among the values of an unfolded dictionary",
        "parquet/levels.py",
        "present = int(np.count_nonzero(each == most))",
        "present = int(np.count_nonzero(each))",
        UNFOLDED,
    ),
    Mutant(
        "no bounds of pages are claimed where there may be NaN",
        "execute/kernel/write/source_chunks.py",
        "statistics.upper is None or leaf.type in _FLOATS:",
        "statistics.upper is None:",
        UNFOLDED,
    ),
)
