"""Which rows a join finds for equality deletes, and which keys it may leave out."""

from tests.mutants.mutant import Mutant

KERNELS = ("tests/joining/test_kernels.py",)
IN_PARTS = ("tests/joining/test_keys_in_parts.py",)
COMPACTIONS = ("tests/joining/test_compaction.py",)

KEY_JOINS = (
    Mutant(
        "an equality delete applies to strictly older data only (join)",
        "execute/kernel/deletes/join/joining.py",
        "matcher.positions(key_columns(rows), sequence_numbers(rows))",
        "matcher.positions(key_columns(rows), sequence_numbers(rows) - 1)",
        KERNELS,
    ),
    Mutant(
        "every older data file is joined",
        "execute/kernel/deletes/join/maps.py",
        "if file.sequence_number < self.latest:  # I3",
        "if file.sequence_number + 1 < self.latest:  # I3",
        KERNELS,
    ),
    Mutant(
        "a key deleted several times is deleted by the latest",
        "execute/kernel/deletes/join/chunks.py",
        'aggregate([(_SEQUENCE, "max")])',
        'aggregate([(_SEQUENCE, "min")]).rename_columns([*names, f"{_SEQUENCE}_max"])',
        KERNELS,
    ),
    Mutant(
        "null equals null (ranges of files)",
        "execute/kernel/deletes/join/key_ranges.py",
        "if (one.nulls and other.nulls) or one.intervals is None",
        "if one.intervals is None",
        KERNELS,
    ),
    Mutant(
        "null equals null (keys within ranges)",
        "execute/kernel/deletes/join/key_ranges.py",
        "np.where(np.asarray(column.is_null()), known.nulls, within)",
        "np.where(np.asarray(column.is_null()), False, within)",
        KERNELS,
    ),
    Mutant(
        "one file with nulls is enough for nulls in the ranges of all",
        "execute/kernel/deletes/join/key_ranges.py",
        "nulls[number] = nulls[number] or column.nulls",
        "nulls[number] = column.nulls",
        KERNELS,
    ),
    Mutant(
        "a filter keeps every key that it got, also two for one word",
        "execute/kernel/deletes/join/key_filter.py",
        "        while len(places):",
        "        if len(places):",
        KERNELS,
    ),
    Mutant(
        "rows are looked up in the filter by the hash that its keys have",
        "execute/kernel/deletes/join/maps.py",
        "held = key_filter.may_hold(second)",
        "held = key_filter.may_hold(first)",
        KERNELS,
    ),
    Mutant(
        "the filter holds the keys of all delete files",
        "execute/kernel/deletes/join/survey.py",
        "words[begin : begin + len(piece)] |= piece",
        "words[begin : begin + len(piece)] = piece",
        KERNELS,
    ),
    Mutant(
        "both sides of a part are divided alike",
        "execute/kernel/deletes/join/joining.py",
        "self._divide(part.rows(), [subpart.rows_spool for subpart in subparts], level)",
        "self._divide(part.rows(), [subpart.rows_spool for subpart in subparts], level + 1)",
        KERNELS,
    ),
    Mutant(
        "a deletion vector does not hide what a join found",
        "execute/kernel/deletes/deleted_rows.py",
        "return _united([self._by_position.get(path, _NONE), self._joined.positions(path)])",
        "return self._by_position.get(path, self._joined.positions(path))",
        COMPACTIONS,
    ),
    Mutant(
        "the deletes of a partition are joined with its own rows only",
        "execute/tasks/key_joins.py",
        "together[partitions[task.group_id], ids].append(task)",
        "together[None, ids].append(task)",
        COMPACTIONS,
    ),
    Mutant(
        "the joins of a later round have other numbers",
        "control/round.py",
        "self.totals.joins += len(self._joins)",
        "self.totals.joins += 0",
        COMPACTIONS,
    ),
    Mutant(
        "every file of a join is removed, also of attempts that failed [I6]",
        "commit/outputs.py",
        " or join_of(path) in intent.joins",
        "",
        COMPACTIONS,
    ),
    Mutant(
        "a row that one part of the deleted keys removes stays removed",
        "execute/kernel/deletes/row_bits.py",
        "self._bits[path][places[starts]] |= ",
        "self._bits[path][places[starts]] = ",
        IN_PARTS,
    ),
    Mutant(
        "a key in a part has the sequence number of its own delete [I3]",
        "execute/kernel/deletes/keys_in_parts.py",
        "for keys, _ in part], [number for _, number in part]",
        "for keys, _ in part], [self.key_set.latest for _, number in part]",
        IN_PARTS,
    ),
    Mutant(
        "the last part of the deleted keys is looked up as well",
        "execute/kernel/deletes/keys_in_parts.py",
        "        if waiting:\n            yield waiting\n",
        "",
        IN_PARTS,
    ),
    Mutant(
        "no part of the deleted keys takes more memory than it may",
        "execute/kernel/deletes/keys_in_parts.py",
        "if waiting and size + more > self.memory_bytes:",
        "if waiting and size > 2 * self.memory_bytes:",
        IN_PARTS,
    ),
)
