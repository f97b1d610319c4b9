"""Both curves visit every cell once; the Hilbert curve moves by one step; coordinates are ranks among quantiles."""

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.tasks import field
from tidyberg.execute.kernel.order.curves import (
    MAX_CURVE_COLUMNS,
    coordinate_bits,
    curve_space,
    hilbert_indexes,
    interleaved,
)
from tidyberg.execute.kernel.order.sorting import sorted_positions
from tidyberg.failures import KernelFailure
from tidyberg.model.sort_key import Curve, SortField, SortKey


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
    found = interleaved(list(points.T))
    assert found.tolist() == [reference_zorder(tuple(point), bits) for point in points.tolist()]


@pytest.mark.parametrize(("columns", "side"), [(2, 64), (3, 16), (4, 8), (5, 4)])
def test_neighbours_on_the_hilbert_curve_differ_by_one_step(columns: int, side: int) -> None:
    """The low corner of the space is a smaller curve of the same kind."""
    points = points_of(columns, side)
    indexes = hilbert_indexes(interleaved(list(points.T)), columns)
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
    own = hilbert_indexes(interleaved(list(centres.T)), columns).astype(np.int64)
    around = [hilbert_indexes(interleaved(list((centres + move).T)), columns).astype(np.int64) for move in moves]
    gaps = np.array(around) - own
    assert ((gaps == 1).sum(axis=0) == 1).all(), "exactly one neighbour comes next"
    assert ((gaps == -1).sum(axis=0) == 1).all(), "exactly one neighbour came before"


def test_the_hilbert_curve_is_a_reflection_of_the_reference() -> None:
    """Both start in a corner; a curve through a square may first go along either axis."""
    points = points_of(2, 32)
    found = hilbert_indexes(interleaved(list(points.T)), 2).tolist()
    along = [reference_hilbert((x, y), 5) for x, y in points.tolist()]
    across = [reference_hilbert((y, x), 5) for x, y in points.tolist()]
    assert found in (along, across)


SCHEMA = pa.schema([field("a", pa.float64(), 1), field("b", pa.string(), 2)])
HILBERT = SortKey((SortField(1), SortField(2)), Curve.HILBERT)
ZORDER = SortKey((SortField(1), SortField(2)), Curve.ZORDER)


def test_coordinates_are_ranks_so_distances_between_values_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    ranks = rng.permutation(4096), rng.permutation(4096)
    plain = pa.table([ranks[0].astype(float), [f"{n:04d}" for n in ranks[1]]], schema=SCHEMA)
    skewed = pa.table([np.exp(ranks[0] / 10.0), ["prefix" * 20 + f"{n:04d}" for n in ranks[1]]], schema=SCHEMA)
    for key in (HILBERT, ZORDER):
        assert sorted_positions(plain, key).tolist() == sorted_positions(skewed, key).tolist()
        assert curve_space(skewed, key).indexes(skewed).tolist() == curve_space(plain, key).indexes(plain).tolist()
    expected = interleaved(list(ranks))
    assert curve_space(plain, ZORDER).indexes(plain).tolist() == expected.tolist()
    assert curve_space(plain, HILBERT).indexes(plain).tolist() == hilbert_indexes(expected, 2).tolist()


def test_a_column_of_two_values_divides_the_curve_as_well_as_any_other() -> None:
    rng = np.random.default_rng(2)
    table = pa.table([rng.random(1000), np.where(rng.random(1000) < 0.5, "no", "yes")], schema=SCHEMA)
    half = table.take(sorted_positions(table, ZORDER)).slice(0, 250)["b"].to_pylist()
    assert half.count("no") > 240


def test_nulls_have_the_least_coordinate_and_nan_the_greatest() -> None:
    values = [1.0, None, math.nan, math.inf, -math.inf]
    table = pa.table([values, ["x"] * 5], schema=SCHEMA)
    for key in (HILBERT, ZORDER):
        assert sorted_positions(table, key).tolist() == [1, 4, 0, 3, 2]


def test_values_outside_the_sample_belong_to_the_nearest_quantile() -> None:
    space = curve_space(pa.table([[1.0, 2.0, 3.0, 4.0], list("abcd")], schema=SCHEMA), ZORDER)
    inside = space.indexes(pa.table([[1.0, 2.0, 4.0], list("abd")], schema=SCHEMA)).tolist()
    outside = space.indexes(pa.table([[0.0, 2.5, 9.0], ["", "bb", "zzz"]], schema=SCHEMA)).tolist()
    assert outside == inside


@pytest.mark.parametrize("key", [HILBERT, ZORDER])
@pytest.mark.parametrize("values", [[], [None] * 4, [7.0] * 4], ids=["empty", "all-null", "one-value"])
def test_samples_without_a_difference_give_one_cell(key: SortKey, values: list[float | None]) -> None:
    table = pa.table([values, ["x"] * len(values)], schema=SCHEMA)
    assert sorted_positions(table, key).tolist() == list(range(len(values)))


@pytest.mark.parametrize("columns", [1, MAX_CURVE_COLUMNS + 1])
def test_curves_over_too_few_or_too_many_columns_are_refused(columns: int) -> None:
    key = SortKey((SortField(1),) * columns, Curve.HILBERT)
    with pytest.raises(KernelFailure, match=f"needs 2 to {MAX_CURVE_COLUMNS} columns, but the key has {columns}"):
        curve_space(SCHEMA.empty_table(), key)
