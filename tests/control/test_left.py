"""A job reports which files it left, why, until when, and how to rewrite them. Only a tidy table is called tidy."""

from dataclasses import replace

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from tests.builders.events_table import REF
from tidyberg.control.control import Control
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import FULL_TARGET
from tidyberg.model.report import CompactionResult, Event, Notice
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse

AUTO = PlanOptions(strategy=Strategy.AUTO)


def compacted(control: Control, options: PlanOptions) -> tuple[CompactionResult, list[str]]:
    events: list[Event] = []
    result = control.compact(REF, options, on_event=events.append)
    return result, [event.message for event in events if isinstance(event, Notice)]


def codes(result: CompactionResult) -> list[tuple[str, str, int]]:
    return [(left.disposition, left.code, left.files) for left in result.left]


def hot_table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 30, 10, files_per_commit=10)


def test_hot_files_wait_and_are_not_called_tidy(warehouse: Warehouse, control: Control) -> None:
    hot_table(warehouse)
    result, notices = compacted(control, AUTO)
    assert result.outcome == result.job.outcome == "waiting"
    assert codes(result) == [("waiting", "hot", 30)]
    assert result.left[0].reason.startswith("hot: 3 commits in the last 10 min, cools ")
    assert result.left[0].take_now == {"force": True}
    assert notices == list(result.job.notes) == [str(result.left[0])]
    (recorded,) = control.history()
    assert (recorded.outcome, recorded.left) == ("waiting", result.left)

    taken = control.compact(REF, replace(AUTO, force=True))
    assert (taken.outcome, taken.stats.files_after, taken.left) == ("committed", 1, ())


@pytest.mark.parametrize("files", [2, 3, 4])
def test_too_few_files_wait_for_more(warehouse: Warehouse, control: Control, files: int) -> None:
    warehouse.append_files(warehouse.create_table(), files, 10)
    result, _ = compacted(control, AUTO)
    assert result.outcome == "waiting"
    assert codes(result) == [("waiting", "too-few-files", files)]
    assert str(result.left[0]).endswith("taken when there are as many as min_input_files")


@pytest.mark.parametrize("files", [2, 3, 4])
def test_full_means_full_from_two_files_on(warehouse: Warehouse, control: Control, files: int) -> None:
    warehouse.append_files(warehouse.create_table(), files, 10)
    result, _ = compacted(control, PlanOptions(strategy=Strategy.FULL))
    assert (result.outcome, result.stats.files_after) == ("committed", 1)
    assert control.compact(REF, PlanOptions(strategy=Strategy.FULL)).outcome == "tidy"


def test_full_merges_what_an_earlier_compaction_wrote_and_what_it_left(warehouse: Warehouse, control: Control) -> None:
    table = warehouse.append_files(warehouse.create_table(), 6, 10)
    first = control.compact(REF, replace(AUTO, force=True, max_files=5))
    assert (first.outcome, first.stats.files_after) == ("committed", 2)
    full = PlanOptions(strategy=Strategy.FULL)
    result = control.compact(REF, full)
    assert (result.outcome, result.stats.files_before, result.stats.files_after) == ("committed", 2, 1)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[FULL_TARGET] == str(result.plan.target_file_size)
    assert control.compact(REF, full).outcome == "tidy"


def test_one_small_file_is_tidy(warehouse: Warehouse, control: Control) -> None:
    warehouse.append_files(warehouse.create_table(), 1, 10)
    result, notices = compacted(control, AUTO)
    assert (result.outcome, result.left, notices) == ("tidy", (), [])


def test_files_that_must_not_be_rewritten_are_refused(warehouse: Warehouse, control: Control) -> None:
    warehouse.append_files(warehouse.create_table(properties={"encryption.key-id": "k"}), 10, 10)
    result, notices = compacted(control, AUTO)
    assert result.outcome == "refused"
    assert codes(result) == [("refused", "encrypted", 10)]
    assert result.left[0].take_now is None
    assert len(notices) == 1


def test_files_that_another_strategy_would_take_wait_for_it(warehouse: Warehouse, control: Control) -> None:
    warehouse.append_files(warehouse.create_table(), 10, 10)
    result, _ = compacted(control, PlanOptions(strategy=Strategy.DELETE_FILES))
    assert result.outcome == "waiting"
    assert codes(result) == [("waiting", "other-strategy", 10)]
    assert result.left[0].take_now == {"strategy": "auto"}


def test_a_table_is_not_called_tidy_when_the_filter_selects_nothing(warehouse: Warehouse, control: Control) -> None:
    _by_kind(warehouse, {"a": 6})
    result, _ = compacted(control, replace(AUTO, where="name = 'none'"))
    assert result.outcome == "waiting"
    assert codes(result) == [("waiting", "filtered", 6)]


def test_waiting_files_are_reported_beside_committed_ones(warehouse: Warehouse, control: Control) -> None:
    _by_kind(warehouse, {"a": 12, "b": 3})
    result, notices = compacted(control, AUTO)
    assert (result.outcome, result.stats.files_after) == ("committed", 4)
    assert codes(result) == [("waiting", "too-few-files", 3)]
    assert str(result.left[0]) in notices

    limited = control.compact(REF, replace(AUTO, max_files=2, force=True))
    assert codes(limited) == [("waiting", "limit", 1)]


def test_a_table_with_a_sort_order_that_is_compacted_unsorted_is_warned_about(
    warehouse: Warehouse, control: Control
) -> None:
    warehouse.catalog.create_namespace_if_not_exists("db")
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()))
    table = warehouse.catalog.create_table("db.events", SAMPLE_SCHEMA, sort_order=order)
    warehouse.append_files(table, 10, 10)
    result, notices = compacted(control, AUTO)
    assert result.outcome == "committed"
    (words,) = result.plan.warnings
    assert "rows of 10 files are not sorted" in words
    assert words in notices
    assert f"warning: {words}" in result.job.notes


def _by_kind(warehouse: Warehouse, files: dict[str, int]) -> Table:
    field = SAMPLE_SCHEMA.find_field("name")
    table = warehouse.create_table(
        partition_spec=PartitionSpec(PartitionField(field.field_id, 1000, IdentityTransform(), "name"))
    )
    for kind, number in files.items():
        warehouse.append_files(table, number, 10, values={"name": kind})
    return table
