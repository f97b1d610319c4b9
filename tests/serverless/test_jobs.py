"""Invocations with little time: they commit what is done, say what is left, and the next one goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.control import chunks, leftovers
from tests.builders.sales_table import REF, REGIONS, regional
from tests.serverless.functions import FakeContext, function_on, slow_tasks
from tidyberg.errors import BadInput, UnknownTable
from tidyberg.execute.engine import CancelToken
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.sizes import MB
from tidyberg.record.process import this_process
from tidyberg.serverless.function import Function, JobsFailed
from tidyberg.serverless.jobs import largest_group
from tidyberg.testing import Warehouse

SALES = {"tables": ["db.sales"], "options": {"strategy": "full"}}


@pytest.fixture
def function(warehouse: Warehouse, tmp_path: Path) -> Iterator[Function]:
    made = function_on(warehouse, tmp_path)
    with made.control:
        yield made


def test_invocations_go_on_until_the_table_is_done(
    warehouse: Warehouse, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = regional(warehouse, regions=REGIONS)
    rows = warehouse.rows(table)
    answers: list[Any] = []
    while not answers or not answers[-1]["finished"]:
        context = FakeContext()
        monkeypatch.setattr("tidyberg.execute.inline.run_task", slow_tasks(context, 20.0))
        answers.append(function(SALES, context))
        assert warehouse.rows(table) == rows
        assert not leftovers(warehouse, table)
    reports = [answer["tables"][0] for answer in answers]
    assert [report["done"]["groups"] for report in reports] == [2, 2, 1]  # 50 s of 60 s are for tasks of 20 s
    assert [report["left"]["groups"] for report in reports] == [3, 1, 0]
    assert [report["outcome"] for report in reports] == ["partly", "partly", "committed"]
    assert answers[0]["left"] == ["db.sales"]
    assert "2 groups are committed, 3 are left" in reports[0]["message"]
    assert len(chunks(table)) == len(set(chunks(table))) == 3  # one commit each
    assert len(warehouse.live_files(table)) == len(REGIONS)
    assert function(SALES, FakeContext())["tables"][0]["outcome"] == "tidy"


def test_a_task_that_is_stopped_by_the_limit_leaves_nothing_and_loses_nothing(
    warehouse: Warehouse, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = regional(warehouse, regions=REGIONS)
    rows, context = warehouse.rows(table), FakeContext()
    # The tasks do not say how slow they are, so the engine starts one that does not end in time.
    monkeypatch.setattr("tidyberg.execute.inline.run_task", slow_tasks(context, 30.0, hurry=False))
    report = function(SALES, context)["tables"][0]
    assert (report["outcome"], report["done"]["groups"]) == ("partly", 2)
    assert warehouse.rows(table) == rows
    assert not leftovers(warehouse, table)


def test_without_any_time_nothing_is_begun(warehouse: Warehouse, function: Function) -> None:
    regional(warehouse)
    times = iter([60.0] * 2)
    context = FakeContext()
    context.on_ask = lambda: setattr(context, "seconds", next(times, 5.0))
    answer = function(SALES, context)
    assert answer["tables"][0]["outcome"] == "not-started"
    assert answer["finished"] is False
    assert function.control.history(REF) == []


def test_files_that_never_fit_are_reported_and_do_not_ask_for_another_invocation(
    warehouse: Warehouse, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = regional(warehouse)
    before = table.refresh().metadata.snapshots
    monkeypatch.setattr("tidyberg.execute.time_budget.TimeBudget.is_too_large", lambda *_: True)
    answer = function(SALES, FakeContext())
    report = answer["tables"][0]
    assert answer["finished"] is True
    assert report["outcome"] == "out-of-time"
    assert "2 tasks are too large to end within the limit" in report["message"]
    assert "Spark" in report["message"]
    assert table.refresh().metadata.snapshots == before
    assert not leftovers(warehouse, table)


def test_a_table_that_another_job_holds_is_reported_and_left_alone(warehouse: Warehouse, function: Function) -> None:
    table = regional(warehouse)
    store, uuid = function.control.store, str(table.metadata.table_uuid)
    assert store.acquire(uuid, "other", this_process(), now_ms=function.control.now_ms(), ttl_ms=60_000) is None
    answer = function(SALES, FakeContext())
    assert answer["tables"][0]["outcome"] == "busy"
    assert "Job other is working on db.sales" in answer["tables"][0]["message"]
    assert answer["finished"] is False
    assert answer["failed"] == 0


def test_a_broken_table_does_not_stop_the_others(warehouse: Warehouse, function: Function) -> None:
    regional(warehouse)
    answer = function({**SALES, "tables": ["db.missing", "db.sales"]}, FakeContext())
    by_table = {report["table"]: report for report in answer["tables"]}
    assert by_table["db.missing"]["error"]["code"] == "unknown-table"
    assert by_table["db.sales"]["outcome"] == "committed"
    assert answer["failed"] == 1
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {"tables": ["db.missing"]}}
    with pytest.raises(JobsFailed, match=r"1 table failed: db\.missing"):
        function(event, FakeContext())


def test_the_table_whose_last_job_is_the_oldest_comes_first(warehouse: Warehouse, function: Function) -> None:
    regional(warehouse)
    warehouse.create_table("db.other")
    function(SALES, FakeContext())
    answer = function({"tables": ["db.*"]}, FakeContext())
    assert [report["table"] for report in answer["tables"]] == ["db.other", "db.sales"]


@pytest.mark.parametrize("kind", ["maintain", "expire"])
def test_other_kinds_of_jobs_run_too(warehouse: Warehouse, function: Function, kind: str) -> None:
    table = regional(warehouse)
    rows = warehouse.rows(table)
    options = {"data": {"strategy": "full"}} if kind == "maintain" else {}
    answer = function({**SALES, "kind": kind, "options": options}, FakeContext())
    assert answer["finished"] is True, answer
    assert warehouse.rows(table) == rows
    if kind == "maintain":
        done = {step["step"]: step["status"] for step in answer["tables"][0]["done"]["steps"]}
        assert done["data"] == "done"
        assert len(warehouse.live_files(table)) == 2


def test_maintenance_that_runs_out_of_time_is_not_finished(
    warehouse: Warehouse, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    regional(warehouse, regions=REGIONS)
    context = FakeContext()
    monkeypatch.setattr("tidyberg.execute.inline.run_task", slow_tasks(context, 20.0))
    answer = function({**SALES, "kind": "maintain", "options": {"data": {"strategy": "full"}}}, context)
    assert answer["finished"] is False
    assert answer["failed"] == 0
    assert answer["tables"][0]["outcome"] == "partly"
    assert "data" in answer["tables"][0]["left"]["steps"]


def test_tables_come_from_the_settings_if_the_event_names_none(warehouse: Warehouse, tmp_path: Path) -> None:
    regional(warehouse)
    made = function_on(warehouse, tmp_path, TIDYBERG_SERVERLESS__TABLES='["db.sales"]')
    with made.control:
        answer = made({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}, FakeContext())
    assert [report["table"] for report in answer["tables"]] == ["db.sales"]


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        ({"kind": "compact"}, BadInput, "Neither the event nor the settings name a table"),
        ({"tables": ["nothing.*"]}, UnknownTable, "matches 'nothing"),
        ({**SALES, "options": {"target_size": 1}}, BadInput, "target_size"),
        ({**SALES, "kind": "maintain", "options": {"unknown": 1}}, BadInput, "unknown"),
    ],
)
def test_wrong_requests_change_nothing(
    warehouse: Warehouse, function: Function, event: dict[str, Any], error: type[Exception], words: str
) -> None:
    table = regional(warehouse)
    before = table.refresh().metadata_location
    with pytest.raises(error, match=words):
        function(event, FakeContext())
    assert table.refresh().metadata_location == before
    assert function.control.history(REF) == []


def test_a_group_is_a_quarter_of_an_invocation_and_does_not_vary_with_milliseconds() -> None:
    assert largest_group(45 * MB, 50.0) == 512 * MB
    assert largest_group(45 * MB, 49.9) == largest_group(44 * MB, 50.1) == 512 * MB
    assert largest_group(45 * MB, 890.0) == 8192 * MB  # the target of the table is then the limit
    assert largest_group(1.0, 0.0) == 8 * MB


def test_a_function_runs_inline_within_its_memory(warehouse: Warehouse, tmp_path: Path) -> None:
    made = function_on(warehouse, tmp_path, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="512", TIDYBERG_ENGINE="spark")
    with made.control:
        engine = made.control.open_engine()
        assert engine.name == "inline"
        assert engine.resources.memory_gb == 0.5
        assert engine.resources.cores == 1
        regional(warehouse)
        options = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
        result = made.control.compact(REF, options, cancel=CancelToken())
    assert result.outcome == "committed"
