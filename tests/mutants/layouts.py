"""Rules of the layout: the order of bounds, the depth of overlap, and when a sort is worth it [I9 I10]."""

from tests.mutants.mutant import Mutant

VALUES = ("tests/planning/test_key_values.py",)
OVERLAP = ("tests/planning/test_overlap.py",)
SORTING = ("tests/planning/test_sorting.py",)
ORDERS = ("tests/planning/test_sort_orders.py",)

LAYOUTS = (
    Mutant(
        "-0.0 is below 0.0, and negative floats are in the right order",
        "planning/key_values.py",
        "    return np.where(bits < 0, _SIGN - bits - 1, bits)",
        "    return bits",
        VALUES,
    ),
    Mutant(
        "NaN is not part of the bounds, and above all values",
        "planning/key_values.py",
        "    upper[values.rows & (column.nans > 0)] = last + 1\n",
        "",
        VALUES,
    ),
    Mutant(
        "nulls are last where the field says so",
        "planning/key_values.py",
        "null_rank = last + 2 if field.nulls_last else -1",
        "null_rank = last + 2 if field.descending else -1",
        VALUES,
    ),
    Mutant(
        "a descending field turns the bounds around",
        "planning/key_values.py",
        "        lower, upper = last + 1 - upper, last + 1 - lower\n",
        "        pass\n",
        VALUES,
    ),
    Mutant(
        "a bucket does not keep the order of values",
        "planning/key_values.py",
        '    if transform == "identity":\n        return values\n',
        '    if transform == "identity" or transform.startswith("bucket"):\n        return values\n',
        VALUES,
    ),
    Mutant(
        "a date that became a timestamp counts days in its old bounds",
        "planning/key_values.py",
        "            numbers[rows] *= _PER_DAY[isinstance(kind, _NANO_TIMES)]\n",
        "            pass\n",
        VALUES,
    ),
    Mutant(
        "a file without bounds overlaps every file of its partition",
        "planning/overlap.py",
        "np.where(field.known, field.upper, _AFTER_ALL)",
        "field.upper",
        OVERLAP,
    ),
    Mutant(
        "a later field of a key counts only where the fields before it have one value",
        "planning/overlap.py",
        "        undecided = undecided & field.constant\n",
        "",
        OVERLAP,
    ),
    Mutant(
        "files of different partitions do not overlap",
        "planning/overlap.py",
        "    both = np.concatenate((partition, partition)).astype(np.int64)\n",
        "    both = np.zeros(2 * len(partition), np.int64)\n",
        OVERLAP,
    ),
    Mutant(
        "files that only touch at a value do not overlap [I10]",
        "planning/overlap.py",
        "        depths[0::2] = gaps - opened  # these files pass through\n",
        "        depths[0::2] = gaps\n",
        OVERLAP,
    ),
    Mutant(
        "files in order take part where the overlap with new files would be too deep",
        "planning/sort_choice.py",
        "        more = (layout.deepest(taken) > limit) & ~taken & able\n",
        "        more = np.zeros_like(taken)\n",
        SORTING,
    ),
    Mutant(
        "files in order stay while the overlap is low enough",
        "planning/sort_choice.py",
        "        more = (layout.deepest(taken) > limit) & ~taken & able\n",
        "        more = (layout.deepest(taken) > 1) & ~taken & able\n",
        SORTING,
    ),
    Mutant(
        "a claim of another order is no claim of this one",
        "planning/layout.py",
        "to_numpy() == key.order_id",
        "to_numpy() != 0",
        SORTING,
    ),
    Mutant(
        "files that were sorted together do not overlap each other [I10]",
        "planning/layout.py",
        "    runs = np.where(in_order & sorted_by_us[run], run, _NO_RUN).astype(np.int64)\n",
        "    runs = np.full(len(run), _NO_RUN, np.int64)\n",
        SORTING,
    ),
    Mutant(
        "files that were sorted together leave room for others between them [I10]",
        "planning/layout.py",
        "self.spans.united(self.runs, together)",
        "self.spans.joined(self.runs, together)",
        SORTING,
    ),
    Mutant(
        "nulls and NaN do not make a lookup read a file, because bounds leave them out [I10]",
        "planning/key_values.py",
        "np.where(is_rest, 0, counts)",
        "np.where(is_rest, counts, counts)",
        SORTING,
    ),
    Mutant(
        "a sort that lets queries skip nothing is refused [I10]",
        "planning/sorting.py",
        "        if saved >= _LEAST_SAVED_FILES or",
        "        if saved >= -1e9 or",
        SORTING,
    ),
    Mutant(
        "a sort by a key with one value is refused [I10]",
        "planning/sorting.py",
        "        if layout.is_one_value(files):\n",
        "        if False:\n",
        SORTING,
    ),
    Mutant(
        "an order is claimed only if all its fields are the same",
        "planning/sort_orders.py",
        "if key.fields == fields]",
        "if key.fields[0] == fields[0]]",
        ORDERS,
    ),
    Mutant(
        "nulls are last by default where a field is descending",
        "planning/sort_text.py",
        "        nulls_last = descending\n",
        "        nulls_last = False\n",
        ORDERS,
    ),
)
