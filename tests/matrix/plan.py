"""Chooses the cells of a run: few in the normal run, every writer, shape and mode in the long run."""

import os
from collections import Counter
from itertools import product

from tests.matrix.cells import Cell, is_possible
from tests.matrix.modes import MODES
from tests.matrix.pairwise import Combination, covering, full_product
from tests.matrix.readers import READERS
from tests.matrix.shapes import SHAPES, TINIEST
from tests.matrix.tables import LAYOUTS
from tests.matrix.writers import BY_NAME, WRITERS

# TEST_LONG=1 takes every writer, shape and mode, the layouts in turns; TEST_LONG=all every layout with each of them.
LONG = os.environ.get("TEST_LONG", "")
_AXES = {"writer": WRITERS, "shape": SHAPES, "mode": MODES, "layout": LAYOUTS}
_WITH_READERS = {**_AXES, "reader": READERS}
_TINIEST = (BY_NAME["arrow-one-page"], BY_NAME["polars"], BY_NAME["duckdb-v1"])


def cells() -> list[Cell]:
    if not LONG:
        return pairwise_cells()
    thousands = [Cell(writer, TINIEST, mode, LAYOUTS[0]) for writer in _TINIEST for mode in MODES]
    return [*(all_cells() if LONG == "all" else cells_in_turns()), *thousands]


def all_cells() -> list[Cell]:
    return [_cell(each) for each in full_product(_AXES, _allowed)]


def pairwise_cells() -> list[Cell]:
    """Covers every allowed pair of a writer, a shape, a mode, a layout and a filtering reader."""
    return [_cell(each) for each in covering(_WITH_READERS, _allowed)]


def cells_of_each_mode() -> list[Cell]:
    """Covers each mode with every writer, shape and layout. This is for slow readers."""
    return [_cell(each) for each in covering(_AXES, _allowed, "mode")]


def cells_in_turns() -> list[Cell]:
    """Covers every writer, shape and mode, each in the layout that its writer and mode have used least."""
    found, met = [], Counter[tuple[str, str, str]]()
    for writer, shape, mode in product(WRITERS, SHAPES, MODES):
        possible = [cell for cell in (Cell(writer, shape, mode, layout) for layout in LAYOUTS) if is_possible(cell)]
        if possible:
            chosen = min(possible, key=lambda cell: met[writer.name, mode.name, cell.layout.name])
            met[writer.name, mode.name, chosen.layout.name] += 1
            found.append(chosen)
    return found


def _cell(each: Combination) -> Cell:
    filtering = (each["reader"],) if "reader" in each else READERS
    return Cell(each["writer"], each["shape"], each["mode"], each["layout"], filtering)


def _allowed(each: Combination) -> bool:
    return is_possible(_cell(each))
