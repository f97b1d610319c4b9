"""A tidy table scores 100, and every point lost has a reason."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.scenes import HOUR, NOW, Delete, File, Scene, statistics_of
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import Health
from tidyberg.model.sizes import MB
from tidyberg.planning.health import assess


def health(scene: Scene) -> Health:
    options = PlanOptions()
    return assess(statistics_of(scene.inventory(), options), options, 512 * MB, NOW)


def test_an_empty_table_and_a_tidy_one_score_100() -> None:
    assert health(Scene([])) == Health(100, ())
    assert health(Scene([File(512 * MB)] * 20)) == Health(100, ())
    assert health(Scene([File(400 * MB)] * 20)) == Health(100, ())


def test_one_small_file_per_partition_costs_nothing() -> None:
    assert health(Scene([File(partition=n) for n in range(50)], days=range(50))).score == 100


def test_thousands_of_small_files_score_low_and_a_few_lose_little() -> None:
    many, few = health(Scene([File()] * 5_000)), health(Scene([File()] * 10))
    assert many.score <= 25
    assert 60 <= few.score <= 90
    assert any("5,000 of 5,000 files are below 32 MB" in reason for reason in many.reasons)
    assert any("1 of 1 partition holds more than 100 files" in reason for reason in many.reasons)


def test_delete_files_cost_points() -> None:
    with_deletes = health(Scene([File(512 * MB)] * 10, [Delete()] * 5))
    assert with_deletes.score == 90
    (one,) = health(Scene([File(512 * MB)] * 10, [Delete()])).reasons
    assert "1 delete file with up to 10 deleted rows is applied on every read" in one
    assert with_deletes.reasons == ("-10: 5 delete files with up to 50 deleted rows are applied on every read",)


def test_a_table_with_any_loss_scores_below_100() -> None:
    assert health(Scene([File(512 * MB)] * 1_000, [Delete()])).score == 99


def test_untidy_partitions_that_were_written_within_the_hot_window_are_mentioned() -> None:
    scene = Scene([File(snapshot=2)] * 50, snapshots=((1, HOUR, "append"), (2, 60_000, "append")))
    assert health(scene).reasons[-1] == "1 untidy partition was written in the last 10 min"


@given(st.lists(st.tuples(st.integers(1, 900 * MB), st.integers(0, 3)), max_size=40), st.integers(0, 60))
def test_the_score_is_between_0_and_100_and_perfect_only_without_reasons(
    files: list[tuple[int, int]], deletes: int
) -> None:
    scene = Scene([File(size, part) for size, part in files], [Delete()] * deletes, days=range(4))
    judged = health(scene)
    assert 0 <= judged.score <= 100
    assert (judged.score == 100) == (not judged.reasons)
