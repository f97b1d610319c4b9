"""The cells of the normal run leave nothing out that the long run has."""

from itertools import product

from tests.matrix.pairwise import covering, full_product
from tests.matrix.plan import all_cells, cells_in_turns, covering_cells

AXES = {"a": "uvwxyz", "b": "klm", "c": "12"}


def test_every_value_meets_every_value_of_the_pivot() -> None:
    found = covering(AXES, lambda _: True, "c")
    for axis in ("a", "b"):
        assert {(one[axis], one["c"]) for one in found} == set(product(AXES[axis], AXES["c"]))
    assert len(found) == 12  # not one more than the longest axis needs
    assert len({(one["a"], one["b"]) for one in found}) == 12  # of 18 pairs


def test_what_is_not_allowed_is_left_out() -> None:
    def allowed(one: object) -> bool:
        return one != {"a": "u", "b": "k", "c": "1"}

    assert len(full_product(AXES, allowed)) == 35
    assert all(allowed(one) for one in covering(AXES, allowed, "c"))


def test_each_mode_meets_every_writer_shape_and_layout() -> None:
    everything, chosen, in_turns = all_cells(), covering_cells(), cells_in_turns()
    for axis in ("writer", "shape", "layout"):
        wanted = {(cell.mode.name, str(getattr(cell, axis))) for cell in everything}
        assert {(cell.mode.name, str(getattr(cell, axis))) for cell in chosen} == wanted
        assert {(cell.mode.name, str(getattr(cell, axis))) for cell in in_turns} == wanted
    assert len(chosen) < 120
