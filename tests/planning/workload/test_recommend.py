"""The recommended layout is the one that skips most files, and predictions are near what is then read."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.tasks import field
from tests.builders.workloads import TableOfRows, between, equal, sort_by
from tidyberg.execute.kernel.order.sorting import sorted_positions
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.model.workload import (
    AllOf,
    Anything,
    Comparison,
    Condition,
    LayoutChoice,
    Operator,
    ScanFilter,
)
from tidyberg.planning.workload.layouts import Simulation
from tidyberg.planning.workload.recommend import candidates, filter_columns, heaviest, only_columns

HILBERT, ZORDER = (LayoutChoice(("a", "b"), curve) for curve in (Curve.HILBERT, Curve.ZORDER))


def uniform(rows: int = 40_000, files: int = 40, seed: int = 1) -> TableOfRows:
    """Two columns without any order, which no file can be skipped by."""
    random = np.random.default_rng(seed)
    return TableOfRows.of({name: pa.array(random.integers(0, 100_000, rows)) for name in "abc"}, files)


def test_one_filter_column_is_sorted_by() -> None:
    advice = uniform().recommender([between("a", 5_000, 6_000), equal("a", 70_000)]).recommend()
    assert advice.best == sort_by("a")
    assert advice.share > 0.9
    assert next(one.share for one in advice.scores if one.layout == advice.best) < 0.05
    assert [(one.before, one.after) for one in advice.filters] == [(40, 1), (40, 1)]


def test_two_columns_that_are_filtered_apart_need_a_curve() -> None:
    filters = [between("a", 5_000, 9_000), between("b", 50_000, 54_000)]
    advice = uniform().recommender(filters).recommend()
    assert advice.best is not None
    assert advice.best.curve is not None
    assert set(advice.best.columns) == {"a", "b"}
    shares = {one.layout: one.share for one in advice.scores}
    assert shares[advice.best] < 0.6 * shares[sort_by("a")]
    assert advice.best == HILBERT or shares[HILBERT] > shares[ZORDER]


def test_the_weights_of_queries_decide() -> None:
    often, seldom = ScanFilter(between("b", 1_000, 2_000), 1000), ScanFilter(between("a", 1_000, 2_000), 1)
    assert uniform().recommender([often, seldom]).recommend().best == sort_by("b")


def test_scans_with_rare_filters_are_not_reported_as_scans_without_a_filter() -> None:
    filters: list[Condition] = [equal("a", number) for number in range(510)]
    advice = uniform().recommender([*filters, Anything()]).recommend()
    assert (advice.scans, advice.unfiltered, advice.unmeasured, len(advice.filters)) == (511, 1, 10, 500)
    assert advice.columns == (("a", 510.0),)


def test_none_is_honest_if_the_table_is_in_order_already() -> None:
    ordered = pa.array(np.sort(np.random.default_rng(2).integers(0, 100_000, 20_000)))
    advice = TableOfRows.of({"a": ordered}, 40).recommender([equal("a", 500), between("a", 5_000, 6_000)]).recommend()
    assert advice.best is None
    assert "no order of the filter columns" in advice.why
    assert advice.share < 0.06
    assert all(one.before == one.after for one in advice.filters)


def test_none_is_honest_if_every_file_has_what_is_asked_for() -> None:
    flags = pa.array(np.random.default_rng(3).integers(0, 2, 20_000))
    table = TableOfRows.of({"a": flags}, 40)
    advice = table.recommender([Comparison("a", Operator.IN, (0, 1))]).recommend()
    assert (advice.best, advice.share) == (None, 1.0)


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        ([], "the log has no query"),
        ([Anything()], "no query filters this table by a column"),
        ([Comparison("gone", Operator.EQ, (1,))], "no query filters this table by a column"),
    ],
)
def test_none_without_filters(filters: list[Condition], why: str) -> None:
    advice = uniform(400, 4).recommender(filters).recommend()
    assert advice.best is None
    assert why in advice.why
    assert advice.scores == ()


def test_none_without_rows_or_files() -> None:
    empty = TableOfRows.of({"a": pa.array([], pa.int64())}, 1)
    assert "no rows could be sampled" in empty.recommender([equal("a", 1)]).recommend().why
    nothing = TableOfRows(pa.table({"a": pa.array([], pa.int64())}), np.zeros(0, np.int64), [])
    assert "the table has no file" in nothing.recommender([equal("a", 1)]).recommend().why


@pytest.mark.parametrize("values", [[7] * 4_000, [None] * 4_000], ids=["one value", "all null"])
def test_a_column_with_one_value_is_no_key(values: list[int | None]) -> None:
    table = TableOfRows.of({"a": pa.array(values, pa.int64())}, 20)
    assert table.recommender([equal("a", 7), Comparison("a", Operator.IS_NULL)]).recommend().best is None


def test_nulls_are_kept_apart_by_a_sort() -> None:
    random = np.random.default_rng(5)
    values = [None if random.random() < 0.1 else int(number) for number in random.integers(0, 1000, 20_000)]
    table = TableOfRows.of({"a": pa.array(values, pa.int64())}, 40)
    advice = table.recommender([Comparison("a", Operator.IS_NULL)]).recommend()
    assert advice.best == sort_by("a")
    assert advice.filters[0].after == pytest.approx(4, abs=1)


def test_partitions_are_laid_out_one_by_one_and_unsampled_ones_stay() -> None:
    random = np.random.default_rng(6)
    table = TableOfRows.of({"a": pa.array(random.integers(0, 1000, 20_000))}, 40, [0] * 20 + [1] * 20)
    recommender = table.recommender([equal("a", 500)])
    assert recommender.after(sort_by("a"))[0] == 2, "a file of each partition"
    first_only = table.recommender([equal("a", 500)])
    first_only = type(first_only)(
        first_only.table,
        first_only.workload,
        first_only.files,
        type(first_only.sample)(first_only.sample.rows.slice(0, 10_000), first_only.sample.files[:10_000]),
        first_only.target_bytes,
    )
    assert first_only.after(sort_by("a"))[0] == 21


def test_bytes_are_those_of_the_files_that_a_filter_reads() -> None:
    random = np.random.default_rng(6)
    table = TableOfRows.of({"a": pa.array(random.integers(0, 1000, 20_000))}, 40, [0] * 20 + [1] * 20)
    recommender = table.recommender([equal("a", 500)])
    sizes = np.repeat([10.0, 90.0], 20)
    assert recommender.before(sizes).tolist() == [2_000]
    assert recommender.after(sort_by("a"), sizes).tolist() == [10 + 90], "a file of each partition"
    (lookup,) = recommender.recommend().filters
    assert (lookup.bytes_before, lookup.bytes_after) == (40 * 10 * MB, 2 * 10 * MB)


def test_few_sampled_rows_never_promise_more_than_they_can_show() -> None:
    """Ranges of a file with few sampled rows would be too narrow, so fewer files are simulated."""
    table = uniform(40_000, 40)
    few = table.recommender([between("a", 5_000, 6_000)], every=200)
    (simulation,) = few._simulations.values()
    assert simulation.simulated_files == 200 // 32
    assert few.after(sort_by("a"))[0] >= 40 / 6


def test_unknown_values_are_measured_with_typical_ones() -> None:
    unknown = AllOf((Comparison("a", Operator.GE, None), Comparison("a", Operator.LT, None)))
    advice = uniform().recommender([unknown]).recommend()
    assert advice.best == sort_by("a")
    assert advice.filters[0].is_typical
    assert 4 <= advice.filters[0].after <= 6, "a tenth of 40 files, and its ends"


def test_candidates_are_bounded_and_simple_ones_come_first() -> None:
    found = candidates(["a", "b", "c", "d", "e", "f"])
    assert len(found) == len(set(found)) == 4 + 6 + 12 + 2
    assert [len(one.columns) for one in found[:5]] == [1, 1, 1, 1, 2]
    assert not any({"e", "f"} & set(one.columns) for one in found)
    assert candidates(["a"]) == [sort_by("a")]


def test_equal_filters_add_up_and_the_heaviest_remain() -> None:
    many = [ScanFilter(equal("a", number % 10), 1.0, "x") for number in range(25)]
    found = heaviest(many, 5)
    assert [(one.condition, one.weight) for one in found] == [(equal("a", number), 3.0) for number in range(5)]
    assert filter_columns([ScanFilter(AllOf((equal("a", 1), equal("b", 2), equal("a", 3))), 2.0)]) == [
        ("a", 2.0),
        ("b", 2.0),
    ]


def test_conditions_on_other_columns_rule_nothing_out() -> None:
    known = frozenset("a")
    assert only_columns(AllOf((equal("a", 1), equal("b", 2))), known) == equal("a", 1)
    assert only_columns(equal("b", 2), known) == Anything()


@pytest.mark.parametrize("layout", [HILBERT, ZORDER], ids=str)
def test_a_simulated_curve_orders_rows_as_a_rewrite_does(layout: LayoutChoice) -> None:
    random = np.random.default_rng(4)
    table = TableOfRows.of({name: pa.array(random.permutation(4096)) for name in "ab"}, 1)
    (simulated,) = table.recommender([equal("a", 1), equal("b", 1)])._simulations.values()
    schema = pa.schema([field("a", pa.int64(), 1), field("b", pa.int64(), 2)])
    rows = pa.table(table.rows.columns, schema=schema)
    written = sorted_positions(rows, SortKey((SortField(1), SortField(2)), layout.curve))
    assert simulated.order(layout).tolist() == written.tolist()


# --- Predictions against what is read afterwards -------------------------------------------------------------------


def skewed(seed: int, rows: int = 60_000, files: int = 60) -> TableOfRows:
    """A number, a number with heavy values that depends on it, a URL-like text, and nulls."""
    random = np.random.default_rng(seed)
    a = random.integers(0, 1_000_000, rows)
    b = (random.exponential(300, rows) + a / 10_000).astype(np.int64)
    b[random.random(rows) < 0.2] = 7
    s = [f"https://example.org/shop/item/{number:06d}" for number in random.integers(0, 20_000, rows)]
    nullable = pa.array(b, mask=random.random(rows) < 0.05)
    return TableOfRows.of({"a": pa.array(a), "b": nullable, "s": pa.array(s)}, files)


def random_predicates(table: TableOfRows, seed: int, count: int) -> list[Condition]:
    random = np.random.default_rng(seed)
    found: list[Condition] = []
    while len(found) < count:
        parts: list[Condition] = []
        for name in random.choice(["a", "b", "s"], random.integers(1, 3), replace=False).tolist():
            values = sorted(
                one
                for one in table.rows[name].take(pa.array(random.integers(0, 60_000, 3))).to_pylist()
                if one is not None
            )
            if len(values) < 2:
                continue
            kind = random.integers(0, 4)
            parts.append(
                equal(name, values[0])
                if kind == 0
                else Comparison(name, Operator.LT, (values[0],))
                if kind == 1
                else between(name, values[0], values[1])
            )
        if parts:
            found.append(AllOf(tuple(parts)) if len(parts) > 1 else parts[0])
    return found


def relative_errors(table: TableOfRows, filters: Sequence[Condition], layout: LayoutChoice, every: int) -> list[float]:
    """Writes all rows in the layout, and compares the files that filters read with the prediction from a sample."""
    recommender = table.recommender(filters, every)
    kept = [one.condition for one in recommender.filters]
    predicted = dict(zip(kept, recommender.after(layout).tolist(), strict=True))
    whole = table.recommender(filters)
    (everything,) = whole._simulations.values()
    written = table.written_as(Simulation(everything.columns, everything.files).order(layout))
    measured = {one: written.reads(one) for one in kept}
    return [abs(predicted[one] - measured[one]) / max(1, measured[one]) for one in kept]


LAYOUTS = [
    sort_by("a"),
    sort_by("b", "s"),
    LayoutChoice(("a", "b"), Curve.ZORDER),
    LayoutChoice(("a", "s"), Curve.HILBERT),
    LayoutChoice(("a", "b", "s"), Curve.HILBERT),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_predicted_files_are_near_those_that_are_read_afterwards(layout: LayoutChoice, seed: int) -> None:
    table = skewed(seed)
    filters = random_predicates(table, seed + 100, 20)
    errors = relative_errors(table, filters, layout, every=10)
    assert len(errors) == 20
    assert np.median(errors) < 0.2
