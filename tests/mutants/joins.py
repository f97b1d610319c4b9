"""Rules for tiny files that are read many at once."""

from tests.mutants.mutant import Mutant

JOINED = ("tests/execute/test_joined.py",)
CODE = "parquet/joined.py"

JOINS = (
    Mutant(
        "positions of deleted rows in joined files are those of their own file [I1]",
        "execute/kernel/deletes/surviving_rows.py",
        "parts.append(self._deleted_rows.positions(file) + first)",
        "parts.append(self._deleted_rows.positions(file))",
        JOINED,
    ),
    Mutant(
        "rows of joined files inherit ids from the beginning of their own file on [I8]",
        "execute/kernel/columns/lineage.py",
        "for file in files]) - (np.cumsum(counts) - counts)",
        "for file in files])",
        JOINED,
    ),
    Mutant(
        "rows of joined files inherit from those after them in all batches [I8]",
        "execute/kernel/columns/lineage.py",
        "        yield pa.RecordBatch.from_arrays([*batch.columns[:-2], *filled], schema=batch.schema)\n"
        "        first += batch.num_rows\n",
        "        yield pa.RecordBatch.from_arrays([*batch.columns[:-2], *filled], schema=batch.schema)\n",
        JOINED,
    ),
    Mutant(
        "rows of joined files that have no ids yet get none [I8]",
        "execute/kernel/columns/lineage.py",
        "mask=np.repeat(without_ids, counts) if without_ids.any() else None,",
        "mask=None,",
        JOINED,
    ),
    Mutant(
        "a page of a joined file holds the values of its chunk",
        CODE,
        "if not as_expected.all() or (headers.values[of_data] != chunks.values).any():",
        "if not as_expected.all():",
        JOINED,
    ),
    Mutant(
        "a chunk of a joined file holds the rows of its row group",
        CODE,
        "if values != rows or first < len(MAGIC)",
        "if first < len(MAGIC)",
        JOINED,
    ),
    Mutant(
        "the row groups of a joined file hold its rows",
        CODE,
        "if sum(group_rows) - rows_before != footer.num_rows:",
        "if False:",
        JOINED,
    ),
    Mutant(
        "pages that are decompressed together are as long as their headers say",
        CODE,
        "if not np.array_equal(found, written):",
        "if False:",
        JOINED,
    ),
    Mutant("joined files have one schema", CODE, "_raw_footer(content).startswith(self.opening)", "True", JOINED),
    Mutant(
        "joined files have one schema of Arrow's, where they have any",
        CODE,
        "and _arrow_schema(footer) == self.arrow_schema",
        "",
        JOINED,
    ),
    Mutant("joined files have one writer", CODE, "and footer.created_by == self.created_by", "", JOINED),
    Mutant(
        "files with lists are not joined",
        CODE,
        "if any(outline.leaves[column].repeated for column in columns):",
        "if False:",
        JOINED,
    ),
    Mutant(
        "files are not joined over whose bounds Arrow would end the process",
        "parquet/many_footers.py",
        "size is not None and (lengths != size).any():",
        "size is None:",
        ("tests/execute/test_footers.py",),
    ),
    Mutant(
        "strings that Arrow cannot read as dictionaries are read one by one",
        "execute/kernel/read/reader.py",
        "return _with_plain_fallback(decode, footer, names)",
        "return decode(footer, names)",
        ("tests/execute/test_delta_strings.py",),
    ),
    Mutant(
        "delta-encoded columns that the stored Arrow schema calls dictionaries are read plain",
        "execute/kernel/read/reader.py",
        "plain = without_dictionaries(footer)",
        "plain = footer",
        ("tests/execute/test_delta_strings.py",),
    ),
)
