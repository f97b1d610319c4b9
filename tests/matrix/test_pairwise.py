"""The cells of the normal run cover every pair of the long run."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

from tests.matrix.cells import Cell
from tests.matrix.pairwise import covering, full_product
from tests.matrix.plan import all_cells, cells_in_turns, cells_of_each_mode, pairwise_cells
from tests.matrix.readers import READERS

AXES = {"a": "uvwxyz", "b": "klm", "c": "12"}


def pairs_of(found: Iterable[Sequence[Any]]) -> set[Any]:
    return {pair for one in found for pair in combinations(enumerate(one), 2)}


def values_of(cell: Cell) -> tuple[str, ...]:
    return str(cell.writer), str(cell.shape), str(cell.mode), str(cell.layout)


def with_readers(cells: Iterable[Cell]) -> list[tuple[str, ...]]:
    return [(*values_of(cell), reader.name) for cell in cells for reader in cell.filtering]


def test_every_pair_of_values_is_covered() -> None:
    found = covering(AXES, lambda _: True)
    assert pairs_of([tuple(one.values()) for one in found]) == pairs_of(product(*AXES.values()))
    assert len(found) == 18  # not one more than the two longest axes need


def test_every_value_is_combined_with_every_value_of_the_pivot() -> None:
    found = covering(AXES, lambda _: True, "c")
    for axis in ("a", "b"):
        assert {(one[axis], one["c"]) for one in found} == set(product(AXES[axis], AXES["c"]))
    assert len(found) == 12  # not one more than the longest axis needs
    assert len({(one["a"], one["b"]) for one in found}) >= 11  # of 18 pairs


def test_forbidden_combinations_are_left_out() -> None:
    def allowed(one: object) -> bool:
        return one != {"a": "u", "b": "k", "c": "1"}

    assert len(full_product(AXES, allowed)) == 35
    for pivot in (None, "c"):
        assert all(allowed(one) for one in covering(AXES, allowed, pivot))
    possible = [tuple(one.values()) for one in full_product(AXES, allowed)]
    assert pairs_of([tuple(one.values()) for one in covering(AXES, allowed)]) == pairs_of(possible)


def test_every_possible_pair_of_a_writer_shape_mode_layout_and_reader_is_in_the_normal_run() -> None:
    everything, chosen = all_cells(), pairwise_cells()
    assert all(cell.filtering == READERS for cell in everything)
    assert pairs_of(with_readers(chosen)) == pairs_of(with_readers(everything))
    possible = {values_of(cell)[:2] for cell in everything}
    assert len(chosen) <= len(possible) + 6  # of a writer and a shape: no fewer cells have all of them


def test_each_mode_is_combined_with_every_writer_shape_and_layout() -> None:
    everything, chosen, in_turns = all_cells(), cells_of_each_mode(), cells_in_turns()
    for axis in ("writer", "shape", "layout"):
        wanted = {(cell.mode.name, str(getattr(cell, axis))) for cell in everything}
        assert {(cell.mode.name, str(getattr(cell, axis))) for cell in chosen} == wanted
        assert {(cell.mode.name, str(getattr(cell, axis))) for cell in in_turns} == wanted
    assert len(chosen) < 120
