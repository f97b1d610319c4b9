"""The order of rows: what comes before what, and which files may claim to be in order."""

from tests.mutants.mutant import Mutant

SORTING = ("tests/execute/order/test_sorting.py",)
RANGES = ("tests/execute/order/test_ranges.py",)
CURVES = ("tests/test_curves.py",)
MERGING = ("tests/execute/order/test_merging.py",)
TASKS = ("tests/execute/test_sorted_tasks.py",)
TABLES = ("tests/control/test_sorted_tables.py",)
CLAIMS = ("tests/verify/test_orders.py",)
CUTS = ("tests/execute/test_range_cuts.py",)
DISJOINT = ("tests/execute/test_disjoint_runs.py",)
PLANNED = ("tests/planning/test_sort_order.py",)

ORDERS = (
    Mutant(
        "strings are taken as values of fixed width only if all of them are equally long",
        "execute/kernel/order/gathering.py",
        " or np.any(np.diff(offsets) != width)",
        "",
        CUTS,
    ),
    Mutant(
        "strings are taken from where the array begins in its buffers",
        "execute/kernel/order/gathering.py",
        "column.buffers()[2].slice(first)",
        "column.buffers()[2]",
        CUTS,
    ),
    Mutant(
        "rows are sliced only if every batch is in the order of its ranges",
        "execute/kernel/range_sort/cut.py",
        "if not rises.all():",
        "if not rises.any():",
        CUTS,
    ),
    Mutant(
        "rows that take more memory than expected are not merged in memory",
        "execute/kernel/merge_runs.py",
        "if self._bytes > _decoded_limit(self._task):",
        "if False:",
        TASKS,
    ),
    Mutant(
        "a merge looks whether it must stop",
        "execute/kernel/ordered_rows.py",
        "            self.raise_if_stopped()\n            self.write_in_order(table)",
        "            self.write_in_order(table)",
        TASKS,
    ),
    Mutant(
        "files are written one after the other only if the next begins where the last one ends",
        "execute/kernel/disjoint_runs.py",
        "if low < len(self._runs) and not self._may_follow(run, self._runs[low]):",
        "if False:",
        DISJOINT,
    ),
    Mutant(
        "a file that is not sorted is merged, whatever its first and last rows are",
        "execute/kernel/disjoint_runs.py",
        "if check.first_wrong is not None:\n            return None",
        "if False:\n            return None",
        DISJOINT,
    ),
    Mutant(
        "files that do not overlap are written in the order of their keys",
        "execute/kernel/disjoint_runs.py",
        "self._runs.insert(low, run)",
        "self._runs.append(run)",
        DISJOINT,
    ),
    Mutant(
        "nulls come first or last, as the field of the sort order says",
        "execute/kernel/order/keys.py",
        "(flags if self.last else ~flags)",
        "(~flags)",
        SORTING,
    ),
    Mutant(
        "all nulls are equal, whatever lies in their place",
        "execute/kernel/order/keys.py",
        "np.where(self.is_null if rows is None else self.is_null[rows], np.uint64(0), words)",
        "words",
        SORTING,
    ),
    Mutant(
        "a descending field turns its values around",
        "execute/kernel/order/keys.py",
        "words = ~words",
        "words = words.copy()",
        SORTING,
    ),
    Mutant(
        "NaN is greater than all other floats, and all NaNs are equal",
        "execute/kernel/order/keys.py",
        "words[np.isnan(numbers)] = _LAST",
        "words = words.copy()",
        SORTING,
    ),
    Mutant(
        "-0.0 is less than 0.0, and negative floats are less than positive ones",
        "execute/kernel/order/keys.py",
        "numbers = _buffer(values, np.float32 if values.type.bit_width == 32 else np.float64).astype(np.float64)",
        "numbers = _buffer(values, np.float32 if values.type.bit_width == 32 else np.float64).astype(np.float64) + 0.0",
        SORTING,
    ),
    Mutant(
        "a field with a transform orders rows by the result of the transform",
        "execute/kernel/order/values.py",
        "apply_transform(self.field.transform, combined(self.leaf.of(table)), must_fit=False)",
        'apply_transform("identity", combined(self.leaf.of(table)), must_fit=False)',
        SORTING,
    ),
    Mutant(
        "rows with equal keys are told apart by the next field",
        "execute/kernel/order/word_sort.py",
        "if bits.are_taken:\n            break",
        "break",
        SORTING,
    ),
    Mutant(
        "strings that differ only in zero bytes at the end are ordered by their length",
        "execute/kernel/order/byte_strings.py",
        "return (self.lengths if rows is None else self.lengths[rows]).astype(np.uint64)",
        "return np.zeros(len(self.lengths) if rows is None else len(rows), np.uint64)",
        SORTING,
    ),
    Mutant(
        "bytes of the next string in memory do not count",
        "execute/kernel/order/byte_strings.py",
        "words &= _MASKS[np.clip(lengths - skip, 0, WORD_BYTES)]",
        "words &= _MASKS[8]",
        SORTING,
    ),
    Mutant(
        "a key between two bounds belongs to the range between them",
        "execute/kernel/order/ranges.py",
        "self._range_at(np.append(0, ends))",
        "self._range_at(np.append(begins, self.sampled))",
        RANGES,
    ),
    Mutant(
        "a heavy key is spread over all ranges that may hold it",
        "execute/kernel/order/ranges.py",
        "begins[bound] + part * (ends[bound] - begins[bound])",
        "begins[bound] + 0 * part",
        RANGES,
    ),
    Mutant(
        "consecutive places on the Hilbert curve are neighbours",
        "curves.py",
        "state = next_state[step]",
        "state = 0 * next_state[step]",
        CURVES,
    ),
    Mutant(
        "a row is merged only when no run can have a lesser one any more",
        "execute/kernel/order/merging.py",
        "lasts = [run.last_row for run in runs if not run.is_read]",
        "lasts = [run.last_row for run in runs if not run.is_read][:1]",
        MERGING,
    ),
    Mutant(
        "a run whose rows are not in order is refused, whatever it claims [I9]",
        "execute/kernel/order/merging.py",
        "if self._check.first_wrong is not None:",
        "if False:",
        MERGING,
    ),
    Mutant(
        "the first row of a batch is compared with the last row of the batch before",
        "execute/kernel/order/order_check.py",
        "if self._last is not None:",
        "if False:",
        MERGING,
    ),
    Mutant(
        "outputs along a curve claim no sort order [I9]",
        "execute/kernel/ordered_rows.py",
        "if self._check is None or self._key.order_id is None or",
        "if",
        TASKS,
    ),
    Mutant(
        "a group in which a file claims no order is not merged in it",
        "planning/drafts.py",
        "in_order=bool(candidates.in_order[members].all())",
        "in_order=bool(candidates.in_order[members].any())",
        PLANNED,
    ),
    Mutant(
        "a claim of an older sort order is not one of the current order",
        "planning/kept_order.py",
        "== key.order_id",
        "> 0",
        PLANNED,
    ),
    Mutant(
        "the manifest entry of an output that is in order says so [I9]",
        "commit/entries.py",
        "140: file.sort_order_id,",
        "",
        TABLES,
    ),
    Mutant(
        "outputs that claim a sort order do not overlap [I9]",
        "verify/orders.py",
        "if highest <= lowest:",
        "if True:",
        CLAIMS,
    ),
    Mutant(
        "an output with nulls is on the side of the nulls [I9]",
        "verify/orders.py",
        "if _has_nulls(with_nulls, field) and _has_values(without, field):",
        "if False:",
        CLAIMS,
    ),
    Mutant(
        "full verification reads the order of outputs back [I9]",
        "execute/kernel/row_checksum.py",
        "check.add(batch)",
        "pass",
        TABLES,
    ),
)
