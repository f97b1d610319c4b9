"""Iceberg Java and parquet-mr find the same rows after every rewrite, by every filter; and all read what Java wrote."""

import json
import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from tests.matrix.cells import Cell, Tally, canonical, count, judge
from tests.matrix.filters import filters_of, some
from tests.matrix.java import JAVA_READERS, JAVA_WRITERS, Asked, Files, JavaWriter, fill
from tests.matrix.limits import limit_of
from tests.matrix.modes import COPY, MODES, SPLICE, Mode, rewrite
from tests.matrix.plan import LONG, cells_of_each_mode
from tests.matrix.readers import READERS, Arrow
from tests.matrix.tables import NAME, Built, build, data_files
from tests.matrix.tally import PROPERTY
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse

Record = Callable[[str, object], None]
MOST_FILTERS = 72 if LONG else 24  # other ones from cell to cell

_JAVA = list(product(JAVA_WRITERS, MODES))
# A cell takes Spark ten seconds and more: the normal run has four, the long one each of Java's writers in every mode.
_FEW = (("java-bloom", COPY), ("java-v2", SPLICE), ("java-lz4", COPY))
JAVA_CELLS = [cell for cell in _JAVA if LONG or (cell[0].name, cell[1]) in _FEW]
# Files of other writers: each mode with every writer, shape and layout that Spark knows the types of.
_FOREIGN = [cell for cell in cells_of_each_mode() if cell.shape.spark]
FOREIGN_CELLS = _FOREIGN if LONG else [next(cell for cell in _FOREIGN if cell.writer.name == "mixed-all")]


def before_and_after(
    java: JavaCatalog,
    warehouse: Warehouse,
    writer: str,
    truth: pa.Table,
    mode: Mode,
    tally: Tally,
    number: int,
    **options: bool,
) -> list[str]:
    """Returns the problems of the rewritten table. `tally` counts what was done."""
    inputs = Files(NAME, truth.schema.names, data_files(warehouse))
    old = warehouse.catalog.load_table(NAME).metadata.current_snapshot_id
    before = [Asked(java, reader, inputs).rows() for reader in JAVA_READERS if not reader.by_path]
    assert all(rows == before[0] for rows in before)
    count(tally, rewrite(warehouse, NAME, mode, **options))
    outputs = Files(NAME, truth.schema.names, data_files(warehouse))
    filters = some(filters_of(truth), MOST_FILTERS, number)
    wrong = []
    for reader in JAVA_READERS:
        asked = Asked(java, reader, outputs)
        if asked.rows() != before[0]:  # of files alone too: they need no deletes and no older schema any more
            wrong.append(f"{reader} reads other rows")
        tally.filters += len(filters)
        lost = {one: problem for one, problem in asked.answers(filters).items() if problem}
        earlier = Asked(java, reader, inputs, old).answers(list(lost)) if lost else {}
        for one, problem in lost.items():
            error = "" if problem == "other rows" else problem
            limit = limit_of(reader.name, writer, one, truth, error)
            if limit is None or not earlier[one]:
                wrong.append(f"{reader} finds {problem[:300]} by {one}")
            else:
                tally.limits[f"{limit.reader}: {limit.what}"] += 1
    return wrong


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
@pytest.mark.parametrize(
    ("number", "writer", "mode"),
    [(number, *cell) for number, cell in enumerate(JAVA_CELLS)],
    ids=[f"{writer}-{mode}" for writer, mode in JAVA_CELLS],
)
def test_all_readers_find_the_same_rows_in_rewritten_files_of_java(
    warehouse: Warehouse,
    java: JavaCatalog,
    tmp_path: Path,
    number: int,
    writer: JavaWriter,
    mode: Mode,
    record_property: Record,
) -> None:
    fill(java, NAME, writer, tmp_path / "spark", version=2 + number % 2)
    table = warehouse.catalog.load_table(NAME)
    inputs = tuple(data_files(warehouse))
    truth = Arrow(inputs).rows()
    if writer.int96:  # which Arrow takes for nanoseconds without a zone
        place = truth.schema.get_field_index("at")
        truth = truth.set_column(place, "at", truth["at"].cast(pa.timestamp("us", tz="UTC")))
    tally = Tally(f"{writer}-{mode}", mode.name)
    wrong = before_and_after(java, warehouse, writer.name, truth, mode, tally, number)
    if mode is COPY and not writer.int96 and not tally.bytes_copied:
        wrong.append(f"not copied: {tally.reasons}")
    if mode is SPLICE and writer.name == "java-plain" and not tally.bytes_spliced:
        wrong.append("nothing was spliced")
    built, rows = Built(table, inputs, truth), canonical(truth, truth.schema)
    for kind in READERS:
        filters = filters_of(truth, 64 if LONG else 3)
        wrong += judge(kind, writer.name, built, rows, data_files(warehouse), tally, filters)
    assert not wrong, "\n".join(wrong[:20])
    record_property(PROPERTY, json.dumps(tally.as_dict()))


@pytest.mark.parametrize(("number", "cell"), list(enumerate(FOREIGN_CELLS)), ids=[str(cell) for cell in FOREIGN_CELLS])
def test_java_finds_the_same_rows_in_rewritten_files_of_other_writers(
    warehouse: Warehouse,
    java: JavaCatalog,
    number: int,
    cell: Cell,
    record_property: Record,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "pyiceberg")
    built = build(warehouse, cell.shape, cell.writer, cell.layout)
    tally = Tally(str(cell), cell.mode.name)
    options = {"rewrite_to_current_spec": True} if cell.layout.moves else {}
    wrong = before_and_after(java, warehouse, cell.writer.name, built.rows, cell.mode, tally, number, **options)
    assert not wrong, "\n".join(wrong[:20])
    record_property(PROPERTY, json.dumps(tally.as_dict()))
