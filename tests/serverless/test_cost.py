"""The memory of a function and whether to use one: the contract's numbers, and what measurements say."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tidyberg.model.options import Calibration, Prices
from tidyberg.model.sizes import GB, MB
from tidyberg.serverless.cost import CompactionTask, LambdaCostOptimizer, MeasuredCostOptimizer

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("size", "memory"),
    [
        (0, 512),
        (100 * MB - 1, 512),
        (100 * MB, 1024),
        (500 * MB - 1, 1024),
        (500 * MB, 2048),
        (1000 * MB - 1, 2048),
        (1000 * MB, 3008),
        (10 * GB, 3008),
    ],
)
def test_memory_has_the_tiers_of_the_contract(size: int, memory: int) -> None:
    assert LambdaCostOptimizer.calculate_optimal_memory(size) == memory


@pytest.mark.parametrize(
    ("size", "duration", "frequency", "expected"),
    [
        (GB, 14 * MINUTE, 2 * 60 * MINUTE, True),
        (GB, 15 * MINUTE, 2 * 60 * MINUTE, False),
        (10 * GB, 14 * MINUTE, 2 * 60 * MINUTE, False),
        (10 * GB - 1, 14 * MINUTE, 2 * 60 * MINUTE, True),
        (10 * GB, 14 * MINUTE, 59 * MINUTE, True),
        (10 * GB, 14 * MINUTE, 60 * MINUTE, False),
    ],
)
def test_lambda_is_used_by_the_rule_of_the_contract(
    size: int, duration: timedelta, frequency: timedelta, expected: bool
) -> None:
    assert LambdaCostOptimizer.should_use_lambda(CompactionTask(size, duration, frequency)) is expected


def optimizer(rate: float = 45 * MB, timeout: float = 900.0) -> MeasuredCostOptimizer:
    calibration = Calibration(encode_bytes_per_core_second=rate)
    return MeasuredCostOptimizer(calibration, Prices(), timeout_seconds=timeout)


def test_a_single_group_uses_one_core_and_no_more_memory_is_paid_for() -> None:
    best = optimizer().best([512 * MB], 20)
    assert best is not None
    assert best.memory_mb == 1769
    more = optimizer().estimate(3538, [512 * MB], 20)
    assert more.seconds == pytest.approx(best.seconds)
    assert more.dollars == pytest.approx(2 * best.dollars, rel=0.01)


def test_many_groups_use_more_cores_for_about_the_same_price() -> None:
    small, large = (optimizer().estimate(memory, [512 * MB] * 20, 800) for memory in (1769, 7076))
    assert large.seconds < small.seconds / 2.5
    assert large.dollars < small.dollars * 1.25
    best = optimizer().best([512 * MB] * 20, 800)
    assert best is not None
    assert best.memory_mb > 1769


def test_a_group_that_does_not_end_in_one_invocation_is_refused() -> None:
    slow = optimizer(rate=1 * MB, timeout=60.0)
    assert slow.best([512 * MB], 5) is None
    refusals = {each.refusal for each in slow.estimates([512 * MB], 5)}
    assert refusals == {"its largest group takes longer than an invocation"}
    assert not slow.should_use_lambda([512 * MB], 5, cluster_dollars=1_000.0)


def test_work_of_many_invocations_pays_for_each_start() -> None:
    once = optimizer(timeout=900.0).estimate(1769, [512 * MB] * 20, 800)
    often = optimizer(timeout=60.0).estimate(1769, [512 * MB] * 20, 800)
    assert once.invocations == 1
    assert often.invocations > 4
    assert often.seconds - once.seconds == pytest.approx((often.invocations - 1) * 4.0)


def test_lambda_is_used_only_if_it_is_cheaper_than_the_cluster() -> None:
    best = optimizer().best([512 * MB] * 4, 40)
    assert best is not None
    assert optimizer().should_use_lambda([512 * MB] * 4, 40, best.dollars * 1.01)
    assert not optimizer().should_use_lambda([512 * MB] * 4, 40, best.dollars * 0.99)


def test_the_table_of_the_documentation_is_what_both_say() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lambda.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) MB \| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == 6
    for size, cells in rows:
        mb = int(size.replace(",", ""))
        groups = [512 * MB] * (mb // 512) + ([mb % 512 * MB] if mb % 512 else [])
        fixed = optimizer().estimate(LambdaCostOptimizer.calculate_optimal_memory(mb * MB), groups, mb // 8)
        measured = optimizer().best(groups, mb // 8)
        assert measured is not None
        expected = [f"{each.memory_mb:,} MB | {each.seconds:.0f} s | ${each.dollars:.5f}" for each in (fixed, measured)]
        assert cells == " | ".join(expected)
