"""How values, columns and row ids come out as they went in."""

from tests.mutants.mutant import Mutant

METRICS = ("tests/execute/test_metrics.py",)
PARTS = ("tests/execute/test_parts.py",)
ABSENT = ("tests/execute/test_evolution.py", "tests/execute/test_tasks.py")
PROJECTION = ("tests/execute/test_project.py",)
LINEAGE_TESTS = ("tests/execute/test_lineage.py",)

VALUES = (
    Mutant(
        "bounds exclude NaN",
        "execute/kernel/columns/single_values.py",
        "if math.isnan(value):",
        "if False:",
        METRICS,
    ),
    Mutant(
        "a zero as lower bound covers both zeros",
        "execute/kernel/columns/single_values.py",
        "return -0.0 if lower else 0.0",
        "return 0.0",
        METRICS,
    ),
    Mutant(
        "truncated upper bounds are rounded up",
        "execute/kernel/columns/single_values.py",
        "return _next_text(text[:length])",
        "return text[:length].encode()",
        METRICS,
    ),
    Mutant(
        "truncated upper bounds of bytes are rounded up",
        "execute/kernel/columns/single_values.py",
        "return _next_bytes(value[:length])",
        "return value[:length]",
        METRICS,
    ),
    Mutant(
        "split offsets are ascending row group starts",
        "execute/kernel/columns/metrics.py",
        "min(chunk.data_page_offset, chunk.dictionary_page_offset)",
        "max(chunk.data_page_offset, chunk.dictionary_page_offset)",
        METRICS,
    ),
    Mutant(
        "floats of plain pages get no dictionary",
        "execute/kernel/write/dictionaries.py",
        "if plain_floats:",
        "if False:",
        ("tests/execute/test_dictionaries.py",),
    ),
    Mutant(
        "the rows before a cut belong to another task",
        "execute/kernel/read/reader.py",
        "max(0, file.first_row - place), min(batch.num_rows, file.end_row - place)",
        "0, min(batch.num_rows, file.end_row - place)",
        PARTS,
    ),
    Mutant(
        "the rows behind a cut belong to another task",
        "execute/kernel/read/reader.py",
        "max(0, file.first_row - place), min(batch.num_rows, file.end_row - place)",
        "max(0, file.first_row - place), batch.num_rows",
        PARTS,
    ),
    Mutant(
        "positions count from the start of the file, even if a task reads only a part of it",
        "execute/kernel/deletes/surviving_rows.py",
        "first = file.first_row",
        "first = 0",
        PARTS,
    ),
    Mutant(
        "positions of deleted keys count from the start of the file, even if a task reads only a part of it",
        "execute/kernel/deletes/key_sets.py",
        "offset = file.first_row",
        "offset = 0",
        PARTS,
    ),
    Mutant(
        "parts that leave out rows, or take them twice, are not committed",
        "verify/parts.py",
        "if begin != row or end < begin:",
        "if end < begin:",
        PARTS,
    ),
    Mutant(
        "only one task reports the facts of a row group",
        "execute/kernel/deletes/surviving_rows.py",
        "for number in file.row_groups if starts[number] >= file.first_row]",
        "for number in file.row_groups]",
        PARTS,
    ),
    Mutant(
        "recovery looks for the outputs of every part",
        "commit/outputs.py",
        "if group_of(path) in groups or",
        'if (group_of(path) in groups and "p0000" not in path) or',
        ("tests/control/test_parts.py",),
    ),
    Mutant(
        "INT96 timestamps are read in microseconds",
        "execute/kernel/read/reader.py",
        "coerce_int96_timestamp_unit=self._int96_unit(footer, selection),",
        'coerce_int96_timestamp_unit="ns",',
        ("tests/execute/test_read.py",),
    ),
    Mutant(
        "a column of an encoded file has bounds in all row groups or in none",
        "execute/kernel/write/output.py",
        "changes = hidden or _may_have_partial_bounds(self._footer[0])",
        "changes = hidden",
        ("tests/execute/test_partial_bounds.py",),
    ),
    Mutant(
        "INT96 timestamps of nanoseconds are read in nanoseconds",
        "execute/kernel/read/reader.py",
        'return "ns" if nanoseconds else "us"',
        'return "us"',
        ("tests/execute/test_read.py",),
    ),
)


EVOLUTION = (
    Mutant(
        "the partition's value goes before the initial default, also where it is null",
        "execute/tasks/evolution.py",
        "            values[field.source_id] = value\n",
        "            values[field.source_id] = value if value is not None else values.get(field.source_id)\n",
        ABSENT,
    ),
    Mutant(
        "only identity transforms tell a column's value",
        "execute/tasks/evolution.py",
        "if isinstance(field.transform, IdentityTransform):",
        "if True:",
        ABSENT,
    ),
    Mutant(
        "initial defaults fill nested fields too",
        "execute/tasks/evolution.py",
        "        yield from _fields_below(field.field_type)\n",
        "",
        ABSENT,
    ),
    Mutant(
        "the text null and a missing value are two partitions",
        "execute/tasks/build.py",
        "firsts[path]: inventory.partitions[partition]",
        "firsts[path]: inventory.partitions[0]",
        ABSENT,
    ),
    Mutant(
        "a required column that a file lacks is never null",
        "execute/kernel/columns/project.py",
        "if not wanted.nullable:",
        "if False:",
        PROJECTION,
    ),
    Mutant(
        "a null struct stays null",
        "execute/kernel/columns/project.py",
        "mask = array.is_null() if array.null_count else None",
        "mask = None",
        PROJECTION,
    ),
    Mutant(
        "one field id in a file makes all its columns count by id",
        "execute/kernel/columns/field_ids.py",
        "return field_id(column) is not None or any(_has_id(child) for _, child in children(column.type))",
        "return field_id(column) is not None",
        PROJECTION,
    ),
    Mutant(
        "without a name mapping the first column is field 1",
        "execute/kernel/columns/field_ids.py",
        "return {(column.name,): identifier for identifier, column in enumerate(schema, start=1)}",
        "return {(column.name,): identifier for identifier, column in enumerate(schema, start=0)}",
        PROJECTION,
    ),
    Mutant(
        "numbers that would change are refused",
        "execute/kernel/columns/project.py",
        "return bool(source.bit_width <= wanted.bit_width)",
        "return True",
        PROJECTION,
    ),
)


LINEAGE = (
    Mutant(
        "a row id is inherited by the position in the whole file [I8]",
        "execute/kernel/columns/lineage.py",
        "start = file.first_row_id + first",
        "start = file.first_row_id",
        LINEAGE_TESTS,
    ),
    Mutant(
        "a stored row id counts before an inherited one [I8]",
        "execute/kernel/columns/lineage.py",
        "pc.coalesce(stored_ids, inherited)",
        "inherited",
        LINEAGE_TESTS,
    ),
    Mutant(
        "positions of inherited row ids count deleted rows [I8]",
        "execute/kernel/deletes/surviving_rows.py",
        "yield first, fill_lineage(batch, file.input, first) if task.lineage else batch",
        "yield first, fill_lineage(batch, file.input, 0) if task.lineage else batch",
        LINEAGE_TESTS,
    ),
    Mutant(
        "the last update is inherited from the file's data sequence number, ids or not [I8]",
        "execute/kernel/columns/lineage.py",
        "if stored_updates.null_count:",
        "if stored_updates.null_count and file.first_row_id is not None:",
        LINEAGE_TESTS,
    ),
    Mutant(
        "tables of format v3 keep row lineage [I8]",
        "execute/tasks/build.py",
        "lineage = pinned.format_version >= 3",
        "lineage = pinned.format_version > 3",
        ("tests/execute/test_format_v3.py",),
    ),
    Mutant(
        "no bounds of row ids where some are yet to be given [I8 I9]",
        "execute/kernel/columns/metrics.py",
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
        "execute/kernel/deletes/delete_files.py",
        "len(positions) != vector.records",
        "len(positions) < vector.records",
        ("tests/execute/test_vectors.py",),
    ),
)
