"""What may be copied, and that copied bytes are described in their new place as they were in the old one."""

from tests.mutants.mutant import Mutant

PLANNED = ("tests/planning/test_modes.py",)
COPIED = ("tests/copying/test_copy.py", "tests/copying/test_refusals.py")
LINEAGE = ("tests/copying/test_lineage.py",)
VERIFIED = ("tests/verify/test_row_groups.py",)
PAGES = ("tests/copying/test_writers.py",)
NANS = ("tests/copying/test_nans.py",)
JOBS = ("tests/control/test_copies.py",)
MIXED = ("tests/copying/test_mixed_footers.py",)
SPLICED = ("tests/splicing/test_readers.py",)

COPIES = (
    Mutant(
        "nothing is copied while a delete applies to it (plan) [I1]",
        "planning/modes.py",
        "        if deletes:\n",
        "        if deletes > 1:\n",
        PLANNED,
    ),
    Mutant(
        "rows of copied row groups keep their ids, not those of another row group [I8]",
        "execute/kernel/copy/lineage.py",
        "np.arange(first + before, first + before + rows, dtype=np.int64)",
        "np.arange(first, first + rows, dtype=np.int64)",
        LINEAGE,
    ),
    Mutant(
        "rows that inherit their ids are not copied to a file from which they would inherit others [I8]",
        "execute/kernel/copy/lineage.py",
        "not statistics.has_null_count or statistics.null_count:",
        "not statistics.has_null_count:",
        LINEAGE,
    ),
    Mutant(
        "bounds are written only if NaN is counted: otherwise a DELETE by bounds drops NaN [I9]",
        "execute/kernel/columns/metrics.py",
        "(pa.types.is_floating(leaf.type) and leaf.field_id not in self.nans)",
        "False",
        COPIED,
    ),
    Mutant(
        "manifests have no bounds of encoded columns with NaN: to Spark it is above them [I9]",
        "execute/kernel/columns/metrics.py",
        "if self.nans.get(leaf.field_id):",
        "if False:",
        ("tests/execute/test_nan_bounds.py",),
    ),
    Mutant(
        "NaN that one manifest does not count is not counted of the copy [I9]",
        "execute/kernel/copy/nans.py",
        "        if len(known) < len(found):\n",
        "        if not known:\n",
        NANS,
    ),
    Mutant(
        "NaN of a whole file is not that of a part of it [I9]",
        "execute/kernel/copy/nans.py",
        "if len(numbers) < len(source.groups_with_rows):",
        "if False:",
        NANS,
    ),
    Mutant(
        "a receipt of footers breaks when a footer is another",
        "execute/kernel/write/digest.py",
        "start = max(0, size - _ENDING - length)",
        "start = size - _ENDING",
        JOBS,
    ),
    Mutant(
        "nothing is split by copying that has no row groups to split between [I10]",
        "planning/modes.py",
        "if outputs > 1 and average > self.target / 2:",
        "if False:",
        PLANNED,
    ),
    Mutant(
        "a copy of rows that must be encoded is refused",
        "verify/row_groups.py",
        'if group.mode != "copy" or group.deletes',
        "if group.deletes",
        VERIFIED,
    ),
    Mutant(
        "copied files hold every row group of their inputs once",
        "verify/row_groups.py",
        "    if lost or strange:\n",
        "    if lost and strange:\n",
        VERIFIED,
    ),
    Mutant(
        "a copy whose bytes nobody has seen is not taken over from a dead job [I7]",
        "control/resume.py",
        "if not all(output.digest for output in done.result.outputs):",
        "if False:",
        JOBS,
    ),
    Mutant(
        "no receipt of contents is given for bytes that nobody has seen",
        "commit/receipt.py",
        "    if not copied:\n",
        "    if True:\n",
        JOBS,
    ),
    Mutant(
        "nothing is copied while a delete applies to it (worker) [I1]",
        "execute/kernel/copy/eligibility.py",
        "    if task.deletes:\n",
        "    if False:\n",
        COPIED,
    ),
    Mutant(
        "what one input's footer does not count is not known of the output",
        "execute/kernel/columns/metrics.py",
        "statistics.has_null_count else None",
        "statistics.has_null_count else 0",
        COPIED,
    ),
    Mutant(
        "pages are where the new footer says",
        "execute/kernel/copy/merge.py",
        "metadata[field] = (I64, found[1] + shift)",
        "metadata[field] = (I64, found[1])",
        COPIED,
    ),
    Mutant(
        "pages are where the new offset index says",
        "execute/kernel/read/source.py",
        "(I64, location[LocationField.OFFSET][1] + shift)",
        "(I64, location[LocationField.OFFSET][1])",
        PAGES,
    ),
    Mutant(
        "bounds of several writers are not passed off as one's",
        "execute/kernel/copy/eligibility.py",
        "keeps_bounds=len(writers) == 1,",
        "keeps_bounds=True,",
        COPIED,
    ),
    Mutant(
        "files in another schema than the table's are not copied",
        "execute/kernel/copy/eligibility.py",
        "if reason := difference(found, expected_elements(task.arrow_schema), same_bytes=False):",
        "if reason := None:",
        COPIED,
    ),
    Mutant(
        "row groups of a copy are numbered all or not at all: else arrow-rs refuses the file",
        "execute/kernel/copy/merge.py",
        "        GroupField.ORDINAL: (I16, ordinal),\n",
        "",
        MIXED,
    ),
    Mutant(
        "an audit finds copies that arrow-rs refuses",
        "execute/kernel/write/digest.py",
        "return len({GroupField.ORDINAL in group for group in groups}) > 1",
        "return False",
        JOBS,
    ),
    Mutant(
        "no output has more row groups than arrow-rs can open",
        "execute/kernel/copy/assemble.py",
        "if len(part) > MAX_ROW_GROUPS:",
        "if False:",
        MIXED,
    ),
    Mutant(
        "row groups sorted each by itself are not passed off as a sorted file",
        "execute/kernel/copy/merge.py",
        "keeps_sorting = common.keeps_sorting and len({piece.source.input.path for piece in pieces}) == 1",
        "keeps_sorting = common.keeps_sorting",
        MIXED,
    ),
    Mutant(
        "bounds that some row groups lack are not passed off as those of all",
        "parquet/uniform.py",
        "if len({field in statistics for statistics in with_values}) > 1:",
        "if False:",
        (*MIXED, *SPLICED),
    ),
    Mutant(
        "statistics that count nulls in some row groups only are left out",
        "parquet/uniform.py",
        "        return _ALL\n",
        "        return frozenset((_NULLS,))\n",
        MIXED,
    ),
    Mutant(
        "page indexes are those of all column chunks of an output or of none",
        "parquet/uniform.py",
        "return cls(offsets, offsets and all(bounded))",
        "return cls(True, True)",
        (*MIXED, *SPLICED),
    ),
    Mutant(
        "what engines divide a file by is true of every row group",
        "execute/kernel/copy/merge.py",
        "        GroupField.TOTAL_COMPRESSED: (I64, _total(placed, MetadataField.COMPRESSED)),\n",
        "",
        MIXED,
    ),
)
