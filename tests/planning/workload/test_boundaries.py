"""Only files that straddle the bounds of frequent ranges are cut, and the others stay as they are."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tests.builders.workloads import TableOfRows, between, equal
from tidyberg.model.sizes import MB
from tidyberg.model.workload import Comparison, Condition, Operator, ScanFilter
from tidyberg.planning.boundary_text import MOST_BOUNDARIES
from tidyberg.planning.workload.pruning import with_ranks


def nearly_sorted(files: int = 50, rows: int = 50_000, reach: int = 4_000) -> TableOfRows:
    """Values arrive nearly in order, as times do: neighbouring files overlap a little."""
    random = np.random.default_rng(4)
    values = np.linspace(0, 100_000, rows) + random.integers(-reach, reach, rows)
    return TableOfRows.of({"ts": pa.array(values.astype(np.int64))}, files)


def test_files_around_the_bounds_are_cut_and_others_stay() -> None:
    table = nearly_sorted()
    ranges: list[ScanFilter | Condition] = [between("ts", 20_000, 39_999), between("ts", 40_000, 59_999)]
    advice = table.recommender(ranges).recommend()
    choice = advice.boundary
    assert choice is not None
    assert choice.column == "ts"
    assert choice.boundaries == ("20000", "40000", "60000")
    assert 0 < choice.files < 25
    assert choice.bytes == choice.files * 10 * 1024 * 1024 < choice.full_bytes
    assert choice.share < 0.9 * advice.share
    assert choice.share <= choice.full_share + 0.02, "as good as a full sort, for a part of its bytes"
    bounds = table.bounds()
    low, high = (
        dict(zip(bounds.paths, side, strict=True)) for side in (bounds.columns["ts"].lows, bounds.columns["ts"].highs)
    )
    cuts = (20_000, 40_000, 60_000)
    expected = [path for path in bounds.paths if any(low[path] < cut <= high[path] for cut in cuts)]
    assert sorted(choice.paths) == sorted(expected)


def test_the_estimate_is_what_a_cut_table_reads() -> None:
    table = nearly_sorted()
    ranges: list[Condition] = [between("ts", 20_000, 39_999), between("ts", 40_000, 59_999)]
    choice = table.recommender(ranges, every=5).recommend().boundary
    assert choice is not None
    chosen = np.array([path in choice.paths for path in table.bounds().paths])
    moved = chosen[table.file_of_row]
    values = table.rows["ts"].to_numpy()
    segments = np.searchsorted([20_000, 40_000, 60_000], values, side="right")
    kept = [table.rows.filter(pa.array(table.file_of_row == number)) for number in np.flatnonzero(~chosen)]
    cut = []
    for segment in np.unique(segments[moved]):
        piece = np.sort(values[moved & (segments == segment)])
        files = max(1, round(chosen.sum() * len(piece) / moved.sum()))
        cut += [pa.table({"ts": one}) for one in np.array_split(piece, files)]
    sizes = [one.num_rows for one in (*kept, *cut)]
    after = TableOfRows(pa.concat_tables([*kept, *cut]), np.repeat(np.arange(len(sizes)), sizes), [0] * len(sizes))
    measured = sum(map(after.reads, ranges)) / len(ranges) / len(table.partitions)
    assert abs(choice.share - measured) < 0.2 * measured


def test_there_is_no_choice_without_known_bounds_or_without_a_gain() -> None:
    table = nearly_sorted()
    assert table.recommender([Comparison("ts", Operator.GE, None)]).recommend().boundary is None
    in_order = TableOfRows.of({"ts": pa.array(np.arange(50_000))}, 50)
    assert in_order.recommender([between("ts", 1_000, 1_999)]).recommend().boundary is None
    assert table.recommender([Comparison("ts", Operator.IS_NULL)]).recommend().boundary is None


def test_a_bound_between_two_values_cuts_no_file_that_ends_there() -> None:
    """`<= 39` is cut after 39 and `< 40` before 40: a file that ends with 39 straddles neither."""
    tens = TableOfRows.of({"ts": pa.array(np.arange(100))}, 10)
    mixed = TableOfRows(
        pa.concat_tables([tens.rows, pa.table({"ts": np.arange(100)})]),
        np.r_[tens.file_of_row, np.full(100, 10)],
        [0] * 11,
    )
    for condition in (
        Comparison("ts", Operator.LE, (39,)),
        Comparison("ts", Operator.LT, (40,)),
        Comparison("ts", Operator.GT, (59,)),
        Comparison("ts", Operator.GE, (60,)),
    ):
        recommender = mixed.recommender([condition])
        columns = recommender._columns
        known = [with_ranks(condition, columns)]
        cut = recommender.boundaries("ts", known, [1.0]).choose()
        assert cut is not None
        assert cut.files.tolist() == [10]
        assert cut.weights.tolist() == [1.0] * 12, "ten files stay, and one becomes two"


def test_the_heaviest_bounds_are_taken() -> None:
    table = nearly_sorted()
    rare = [ScanFilter(equal("ts", number), 1) for number in range(0, 100_000, 1_000)]
    often = ScanFilter(Comparison("ts", Operator.LT, (50_000,)), 1000)
    recommender = table.recommender([*rare, often])
    columns, filters = recommender._columns, recommender.filters
    known = [with_ranks(one.condition, columns) for one in filters]
    weights = [one.weight for one in filters]
    bounds = recommender.boundaries("ts", known, weights)._bounds()
    assert len(bounds) == MOST_BOUNDARIES
    assert (2 * columns["ts"].ranks[50_000], "50000") in bounds


def test_a_cut_that_rewrites_all_files_must_beat_a_full_sort() -> None:
    values = np.random.default_rng(3).integers(0, 10_000, 40_000)
    table = TableOfRows.of({"a": pa.array(values)}, 40)
    assert table.recommender([between("a", 1_000, 8_999)]).recommend().boundary is None, "32 files instead of 33"
    narrow = table.recommender([between("a", 1_000, 1_499)]).recommend().boundary
    assert narrow is not None, "2 files instead of 3"
    assert (narrow.bytes, narrow.full_bytes) == (40 * 10 * MB, 40 * 10 * MB)


def test_a_bound_that_would_leave_a_small_file_is_no_boundary() -> None:
    """The rows from 98 on are a fifth of a file of 10 MB: less than a quarter, unless small files are smaller."""
    tens = TableOfRows.of({"ts": pa.array(np.arange(100))}, 10)
    recommender = tens.recommender([Comparison("ts", Operator.LT, (98,))])
    known = [with_ranks(one.condition, recommender._columns) for one in recommender.filters]
    assert recommender.boundaries("ts", known, [1.0]).choose() is None
    cut = replace(recommender, small_bytes=1024 * 1024).boundaries("ts", known, [1.0]).choose()
    assert cut is not None
    assert (cut.files.tolist(), cut.boundaries) == ([9], ("98",))


def test_files_between_which_others_lie_are_cut_apart() -> None:
    """Boxes of what is cut do not reach over files that stay."""
    tens = TableOfRows.of({"ts": pa.array(np.arange(1_000))}, 10)
    recommender = tens.recommender([Comparison("ts", Operator.LT, (150,)), Comparison("ts", Operator.LT, (850,))])
    known = [with_ranks(one.condition, recommender._columns) for one in recommender.filters]
    cut = recommender.boundaries("ts", known, [1.0, 1.0]).choose()
    assert cut is not None
    assert (cut.files.tolist(), cut.boundaries, len(cut.weights)) == ([1, 8], ("150", "850"), 12)
    wide = cut.boxes["ts"].highs - cut.boxes["ts"].lows
    assert wide.max() < 100
