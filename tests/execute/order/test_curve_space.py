"""Coordinates on curves are ranks among quantiles."""

import math

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.tasks import field
from tidyberg.curves import MAX_CURVE_COLUMNS, hilbert_places, zorder_places
from tidyberg.execute.kernel.order.curve_space import curve_space
from tidyberg.execute.kernel.order.sorting import sorted_positions
from tidyberg.failures import KernelFailure
from tidyberg.model.sort_key import Curve, SortField, SortKey

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
    assert curve_space(plain, ZORDER).indexes(plain).tolist() == zorder_places(ranks).tolist()
    assert curve_space(plain, HILBERT).indexes(plain).tolist() == hilbert_places(ranks).tolist()


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
