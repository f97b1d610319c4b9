"""Packing keeps the properties of the contract, and file sizes are resolved."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import cpu_of
from tidyberg.errors import BadInput
from tidyberg.model.options import PlanOptions
from tidyberg.model.sizes import MB
from tidyberg.planning.file_sizes import FileSizes, resolve_sizes
from tidyberg.planning.pack import first_fit_decreasing, output_count, pack_files

targets = st.integers(100, 2_000)


@st.composite
def size_settings(draw: st.DrawFn) -> FileSizes:
    target = draw(targets)
    return resolve_sizes(
        PlanOptions(
            target_file_size=target,
            min_file_size=draw(st.none() | st.integers(1, target)),
            max_file_size=draw(st.none() | st.integers(target, 3 * target)),
            max_group_size=draw(st.none() | st.integers(1, 3 * target)),
            small_file_threshold=draw(st.integers(1, 2 * target)),
        ),
        {},
    )


files = st.lists(st.integers(0, 3_000), max_size=60)


def naive_first_fit_decreasing(sizes: list[int], capacity: int) -> list[list[int]]:
    oversized = [[n] for n in sorted(range(len(sizes)), key=lambda n: -sizes[n]) if sizes[n] > capacity]
    bins: list[list[int]] = []
    for position in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        if sizes[position] > capacity:
            continue
        for members in bins:
            if sum(sizes[n] for n in members) + sizes[position] <= capacity:
                members.append(position)
                break
        else:
            bins.append([position])
    return oversized + bins


@given(files, st.integers(1, 2_000))
def test_first_fit_equals_the_naive_one(sizes: list[int], capacity: int) -> None:
    packed = first_fit_decreasing(np.array(sizes, dtype=np.int64), capacity)
    assert packed == naive_first_fit_decreasing(sizes, capacity)


@given(files, size_settings())
def test_every_file_is_in_exactly_one_group(sizes: list[int], settings: FileSizes) -> None:
    packed = pack_files(sizes, settings)
    assert sorted(n for group in packed for n in group) == list(range(len(sizes)))


@given(files, size_settings())
def test_files_that_fit_into_one_group_form_one_group(sizes: list[int], settings: FileSizes) -> None:
    capacity = min(settings.target, settings.group_limit)
    while sum(sizes) > capacity:
        sizes = sizes[1:]
    alone = first_fit_decreasing(np.array(sizes, dtype=np.int64), capacity)
    assert [sorted(group) for group in pack_files(sizes, settings)] == [sorted(group) for group in alone]


@given(files, size_settings())
def test_no_group_of_several_files_is_above_twice_the_target(sizes: list[int], settings: FileSizes) -> None:
    for group in pack_files(sizes, settings):
        if len(group) > 1:
            assert sum(sizes[n] for n in group) <= min(2 * settings.target, settings.group_limit)


@given(files, size_settings())
def test_a_small_group_stays_only_if_no_other_group_can_take_it(sizes: list[int], settings: FileSizes) -> None:
    sizes = [size for size in sizes if size <= settings.target]  # larger ones are never merged
    totals = [sum(sizes[n] for n in group) for group in pack_files(sizes, settings)]
    for number, total in enumerate(totals):
        if total < settings.small:
            for other in totals[:number] + totals[number + 1 :]:
                apart = output_count(total, settings) + output_count(other, settings)
                assert total + other > settings.group_limit or output_count(total + other, settings) >= apart


@given(st.integers(0, 20_000), size_settings())
def test_outputs_are_within_the_size_limits_if_possible(total: int, settings: FileSizes) -> None:
    count = output_count(total, settings)
    assert count >= 1
    assert total <= count * settings.maximum  # none above the maximum
    if count > 1 and total < count * settings.small:  # below the threshold only where fewer would be too large
        assert total > (count - 1) * settings.maximum


def test_a_small_group_is_merged_into_the_emptiest_other_group() -> None:
    sizes = resolve_sizes(PlanOptions(target_file_size=100, small_file_threshold=30), {})
    # First fit: [90, 10], [95], [80, 20], [25] with the last below 30.
    packed = pack_files([90, 95, 80, 25, 20, 10], sizes)
    totals = sorted(sum([90, 95, 80, 25, 20, 10][n] for n in group) for group in packed)
    assert totals == [100, 100, 120]


def test_groups_are_not_merged_if_that_saves_no_file() -> None:
    sizes = resolve_sizes(PlanOptions(target_file_size=100, max_file_size=100, small_file_threshold=30), {})
    assert pack_files([95, 20], sizes) == [[0], [1]]


def test_outputs_are_as_near_to_the_target_as_whole_files_allow() -> None:
    sizes = resolve_sizes(PlanOptions(target_file_size=100 * MB), {})
    counts = {size: output_count(size * MB, sizes) for size in (1, 100, 149, 151, 200, 1000)}
    assert counts == {1: 1, 100: 1, 149: 1, 151: 2, 200: 2, 1000: 10}


def test_ten_times_the_files_take_about_ten_times_as_long() -> None:
    """Packing takes n log(bins) steps. Searching all bins for each file would take a hundred times as long."""
    sizes = resolve_sizes(PlanOptions(), {})
    random = np.random.default_rng(7)
    for spread in (32 * MB, 600 * MB):
        taken = []
        for files in (10_000, 100_000):
            measured = random.integers(1, spread, files)
            taken.append(cpu_of(partial(pack_files, measured, sizes), times=3))
        assert taken[1] < 30 * taken[0]


def test_sizes_come_from_options_then_table_then_default() -> None:
    table = {"write.target-file-size-bytes": str(64 * MB)}
    assert resolve_sizes(PlanOptions(), {}).target == 512 * MB
    assert resolve_sizes(PlanOptions(), table).target == 64 * MB
    given_sizes = resolve_sizes(PlanOptions(target_file_size=100 * MB), table)
    assert given_sizes == FileSizes(100 * MB, 75 * MB, 180 * MB, 200 * MB, 32 * MB)
    assert resolve_sizes(PlanOptions(target_file_size=8 * MB), {}).small == 6 * MB


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (PlanOptions(target_file_size=100, min_file_size=101), "min_file_size"),
        (PlanOptions(target_file_size=100, max_file_size=99), "max_file_size"),
    ],
)
def test_sizes_that_contradict_are_refused(options: PlanOptions, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        resolve_sizes(options, {})


@pytest.mark.parametrize("text", ["64MB", "0", "-1", ""])
def test_a_table_property_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"write\.target-file-size-bytes"):
        resolve_sizes(PlanOptions(), {"write.target-file-size-bytes": text})


@given(st.lists(st.integers(1, 20), min_size=30, max_size=200))
def test_groups_of_small_files_are_filled_evenly(sizes: list[int]) -> None:
    """A task with half the work of the others would leave its core idle for the rest of the time."""
    settings = FileSizes(target=100, minimum=75, maximum=180, group_limit=200, small=10)
    totals = [sum(sizes[n] for n in group) for group in pack_files(sizes, settings)]
    assert max(totals) - sum(totals) / len(totals) <= max(sizes)
