"""Both curves visit every cell once; consecutive places on the Hilbert curve are neighbours."""

import itertools
from typing import Any

import numpy as np
import pytest

from tidyberg.curves import MAX_CURVE_COLUMNS, coordinate_bits, hilbert_places, zorder_places


def reference_zorder(point: tuple[int, ...], bits: int) -> int:
    found = 0
    for bit in reversed(range(bits)):
        for coordinate in point:
            found = found << 1 | (coordinate >> bit & 1)
    return found


def reference_hilbert(point: tuple[int, ...], bits: int) -> int:
    """Computes the place of a point by J. Skilling's method, which turns the axes bit by bit."""
    axes, count = list(point), len(point)
    top = 1 << (bits - 1)
    bit = top
    while bit > 1:
        below = bit - 1
        for axis in range(count):
            if axes[axis] & bit:
                axes[0] ^= below
            else:
                swapped = (axes[0] ^ axes[axis]) & below
                axes[0] ^= swapped
                axes[axis] ^= swapped
        bit >>= 1
    for axis in range(1, count):
        axes[axis] ^= axes[axis - 1]
    flipped = 0
    bit = top
    while bit > 1:
        if axes[count - 1] & bit:
            flipped ^= bit - 1
        bit >>= 1
    return reference_zorder(tuple(axis ^ flipped for axis in axes), bits)


def points_of(columns: int, side: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(itertools.product(range(side), repeat=columns)), np.int64)


@pytest.mark.parametrize("columns", range(2, MAX_CURVE_COLUMNS + 1))
def test_zorder_equals_the_reference(columns: int) -> None:
    bits = coordinate_bits(columns)
    points = np.random.default_rng(columns).integers(0, 1 << bits, (200, columns))
    found = zorder_places(list(points.T))
    assert found.tolist() == [reference_zorder(tuple(point), bits) for point in points.tolist()]


@pytest.mark.parametrize(("columns", "side"), [(2, 64), (3, 16), (4, 8), (5, 4)])
def test_neighbours_on_the_hilbert_curve_differ_by_one_step(columns: int, side: int) -> None:
    """The low corner of the space is a smaller curve of the same kind."""
    points = points_of(columns, side)
    indexes = hilbert_places(list(points.T))
    order = np.argsort(indexes)
    assert len(set(indexes.tolist())) == len(points), "every cell has its own place"
    assert indexes.max() == len(points) - 1, "the curve fills the corner before it leaves it"
    steps = np.abs(np.diff(points[order], axis=0)).sum(axis=1)
    assert set(steps.tolist()) == {1}


@pytest.mark.parametrize("columns", range(2, MAX_CURVE_COLUMNS + 1))
def test_random_neighbours_on_the_whole_hilbert_curve_differ_by_one_step(columns: int) -> None:
    """Cells around random points: those with consecutive places on the curve must be adjacent."""
    bits = coordinate_bits(columns)
    rng = np.random.default_rng(columns)
    centres = rng.integers(1, (1 << bits) - 1, (300, columns))
    moves = np.concatenate([np.eye(columns, dtype=np.int64), -np.eye(columns, dtype=np.int64)])
    own = hilbert_places(list(centres.T)).astype(np.int64)
    around = [hilbert_places(list((centres + move).T)).astype(np.int64) for move in moves]
    gaps = np.array(around) - own
    assert ((gaps == 1).sum(axis=0) == 1).all(), "exactly one neighbour comes next"
    assert ((gaps == -1).sum(axis=0) == 1).all(), "exactly one neighbour came before"


def test_the_hilbert_curve_is_a_reflection_of_the_reference() -> None:
    """Both start in a corner; a curve through a square may first go along either axis."""
    points = points_of(2, 32)
    found = hilbert_places(list(points.T)).tolist()
    along = [reference_hilbert((x, y), 5) for x, y in points.tolist()]
    across = [reference_hilbert((y, x), 5) for x, y in points.tolist()]
    assert found in (along, across)
