"""The rules of the contract, with the numbers of the contract."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.scenes import HOUR, NOW
from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.sizes import MB
from tidyberg.planning.hot_partitions import heat
from tidyberg.planning.rules import fragment_ratio, hours_since, score_partition, should_compact


def why(files: int, size: int, deletes: int) -> str | None:
    return should_compact(
        files,
        size,
        deletes,
        max_file_count_per_partition=100,
        small_file_threshold=32 * MB,
        max_delete_ratio=0.1,
    )


def test_fragment_ratio_is_delete_files_per_data_file() -> None:
    assert fragment_ratio(10, 1) == 0.1
    assert fragment_ratio(0, 3) == 3.0


@pytest.mark.parametrize(
    ("files", "size", "deletes", "reason"),
    [
        (101, 101 * 512 * MB, 0, "too many files"),
        (100, 100 * 512 * MB, 0, None),
        (10, 10 * 32 * MB - 1, 0, "small files"),
        (10, 10 * 32 * MB, 0, None),
        (10, 10 * 512 * MB, 1, None),
        (10, 10 * 512 * MB, 2, "delete files"),
        (0, 0, 5, None),
    ],
)
def test_should_compact_by_count_average_size_and_deletes(
    files: int, size: int, deletes: int, reason: str | None
) -> None:
    assert why(files, size, deletes) == reason


@pytest.mark.parametrize(
    ("files", "small", "fragments", "hours", "score"),
    [
        (100, 100, 1.0, 24.0, 1.0),
        (100, 0, 0.0, 0.0, 0.3),
        (50, 0, 0.0, 0.0, 0.15),
        (1000, 0, 0.0, 0.0, 0.3),
        (1, 0, 0.5, 0.0, 0.003 + 0.15),
        (1, 0, 3.0, 0.0, 0.003 + 0.9),
        (1, 0, 0.0, 12.0, 0.003 + 0.1),
        (1, 0, 0.0, 1000.0, 0.003 + 0.2),
        (1, 0, 0.0, None, 0.003 + 0.2),
        (4, 1, 0.0, 0.0, 0.012 + 0.05),
        (0, 0, 0.0, None, 0.0),
    ],
)
def test_score_weighs_files_fragments_age_and_small_files(
    files: int, small: int, fragments: float, hours: float | None, score: float
) -> None:
    assert score_partition(files, small, fragments, hours) == pytest.approx(score)


@given(st.integers(1, 10_000), st.integers(0, 100), st.floats(0, 1), st.floats(0, 1_000))
def test_score_lies_between_0_and_1_while_there_are_fewer_deletes_than_files(
    files: int, small_percent: int, fragments: float, hours: float
) -> None:
    assert 0 <= score_partition(files, files * small_percent // 100, fragments, hours) <= 1.000001


def test_hours_since_is_none_without_a_time() -> None:
    assert hours_since(NOW - 3 * HOUR, NOW) == 3
    assert hours_since(None, NOW) is None


def written(ago_ms: int | None, commits: int) -> PartitionStatistics:
    last = None if ago_ms is None else NOW - ago_ms
    return PartitionStatistics(0, 1, 0, 1, 1, 0, 0, 0.0, last, None, commits)


def test_a_partition_is_hot_until_its_last_write_leaves_the_window() -> None:
    def hot(ago_ms: int | None, commits: int, needed: int = 2) -> str | None:
        return heat(written(ago_ms, commits), now_ms=NOW, window_seconds=600, commits=needed)

    assert hot(60_000, 4) == "4 commits in the last 10 min, cools 00:09 UTC"
    assert hot(60_000, 1, needed=1) == "1 commit in the last 10 min, cools 00:09 UTC"
    assert hot(60_000, 1) is None
    assert hot(600_000, 4) is None
    assert hot(599_999, 4) is not None
    assert hot(None, 0) is None
    assert "last 90 s" in str(heat(written(0, 2), now_ms=NOW, window_seconds=90, commits=2))
    long = heat(written(0, 2), now_ms=NOW, window_seconds=366 * 86_400, commits=2)
    assert long == "2 commits in the last 366 d, cools 2027-11-14 00:00 UTC"
    assert "last 2 h" in str(heat(written(0, 2), now_ms=NOW, window_seconds=7200, commits=2))
