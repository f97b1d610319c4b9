"""Iceberg Java and parquet-mr find the same rows after every rewrite, by every filter; and all read what Java wrote."""

import json
import logging
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from tests.matrix.cells import Cell, Tally, count, judge
from tests.matrix.filters import filters_of
from tests.matrix.java import JAVA_READERS, JAVA_WRITERS, Asked, JavaReader, JavaWriter, fill, some
from tests.matrix.limits import limit_of
from tests.matrix.modes import COPY, MODES, SPLICE, Mode, rewrite
from tests.matrix.plan import LONG, covering_cells
from tests.matrix.readers import READERS, Arrow
from tests.matrix.tables import NAME, Built, build
from tests.matrix.tally import PROPERTY
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse, local_path

Record = Callable[[str, object], None]
MOST_FILTERS = 400 if LONG else 24

_JAVA = list(product(JAVA_WRITERS, MODES))
# A cell takes Spark ten seconds and more: the normal run has three, the long one each of Java's writers in every mode.
_FEW = (("java-bloom", COPY), ("java-v2", SPLICE), ("java-lz4", COPY))
JAVA_CELLS = [cell for cell in _JAVA if LONG or (cell[0].name, cell[1]) in _FEW]
# Files of other writers: each mode with every writer, shape and layout that Spark knows the types of.
FOREIGN_CELLS = [cell for cell in covering_cells() if LONG and cell.shape.spark]


def data_files(warehouse: Warehouse, name: str = NAME) -> list[str]:
    table = warehouse.catalog.load_table(name)
    return [local_path(file.path) for file in warehouse.live_files(table) if not file.content.value]


def before_and_after(
    java: JavaCatalog, warehouse: Warehouse, truth: pa.Table, mode: Mode, tally: Tally, number: int, **options: bool
) -> list[str]:
    """What is wrong with the rewritten table; `tally` counts what was done."""
    columns = truth.schema.names
    readers: Sequence[JavaReader] = JAVA_READERS
    before = {reader.name: Asked(java, reader, NAME, data_files(warehouse)).rows(columns) for reader in readers}
    rewritten = rewrite(warehouse, NAME, mode, **options)
    count(tally, rewritten)
    wanted = some(filters_of(truth), MOST_FILTERS, number)
    wrong = []
    for reader in readers:
        asked = Asked(java, reader, NAME, data_files(warehouse))
        if asked.rows(columns) != before[reader.name]:
            wrong.append(f"{reader} reads other rows")
        for one, (found, expected) in zip(wanted, asked.found(wanted), strict=True):
            tally.filters += 1
            if found == expected:
                continue
            limit = limit_of(reader.name, "", one, truth)
            if limit is None:
                wrong.append(f"{reader} finds {len(found)} rows, not {len(expected)}, by {one}")
            else:
                tally.limits[f"{limit.reader}: {limit.what}"] += 1
    return wrong


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
@pytest.mark.parametrize(
    ("number", "writer", "mode"),
    [(number, *cell) for number, cell in enumerate(JAVA_CELLS)],
    ids=[f"{writer}-{mode}" for writer, mode in JAVA_CELLS],
)
def test_files_of_java(
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
    wrong = before_and_after(java, warehouse, truth, mode, tally, number)
    if mode is COPY and not writer.int96 and not tally.bytes_copied:
        wrong.append(f"not copied: {tally.reasons}")
    if mode is SPLICE and writer.name == "java-plain" and not tally.bytes_spliced:
        wrong.append("nothing was spliced")
    for kind in READERS:
        built = Built(table, inputs, truth)
        wrong += judge(kind, writer.name, built, data_files(warehouse), tally, columns=64 if LONG else 3)
    assert not wrong, "\n".join(wrong[:20])
    record_property(PROPERTY, json.dumps(tally.as_dict()))


@pytest.mark.parametrize(("number", "cell"), list(enumerate(FOREIGN_CELLS)), ids=[str(cell) for cell in FOREIGN_CELLS])
def test_files_of_others(
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
    wrong = before_and_after(java, warehouse, built.rows, cell.mode, tally, number, **options)
    assert not wrong, "\n".join(wrong[:20])
    record_property(PROPERTY, json.dumps(tally.as_dict()))
