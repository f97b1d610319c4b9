"""Files of every writer are rewritten in every way, and every reader finds the same rows with every filter."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.matrix.cells import Cell, run_cell
from tests.matrix.filters import some
from tests.matrix.plan import LONG, cells
from tests.matrix.tally import PROPERTY

CELLS = cells()
MOST_FILTERS = 100_000 if LONG else 48  # of hundreds that a table has


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
@pytest.mark.parametrize(("number", "cell"), list(enumerate(CELLS)), ids=[str(cell) for cell in CELLS])
def test_readers_find_after_what_they_found_before(
    tmp_path: Path,
    number: int,
    cell: Cell,
    record_property: Callable[[str, object], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "pyiceberg")  # it logs every column without statistics
    tally = run_cell(cell, tmp_path, lambda filters: some(filters, MOST_FILTERS, number))
    record_property(PROPERTY, json.dumps(tally.as_dict()))
