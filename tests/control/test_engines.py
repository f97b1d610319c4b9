"""`engine: auto` runs a job in this process if Spark would take longer to start, and says so."""

from dataclasses import replace
from pathlib import Path
from typing import Never

import pytest
import yaml

import tidyberg
from tests.builders.console import Run
from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tidyberg.control.engines import EngineChoice
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources, Strategy
from tidyberg.planning.price import Work, pricing_for
from tidyberg.testing import Warehouse

OPTIONS = PlanOptions(strategy=Strategy.FULL, min_input_files=2, hot_window_seconds=0)


@pytest.fixture
def config(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    warehouse.append_files(warehouse.create_table("db.events"), 8, 30)
    path = tmp_path / "tidyberg.yaml"
    path.write_text(yaml.safe_dump({"catalogs": {"lab": warehouse.properties}}))
    return path


def no_spark() -> Never:
    raise AssertionError("Spark was started")


def test_plan_shows_that_starting_spark_takes_longer(config: Path, run: Run) -> None:  # noqa: F811
    words = run("plan", "db.events")
    assert "Spark takes longer to start than one core needs for the job: --engine auto" in words.out
    assert run("plan", "db.events", "--json").json["better_inline"] is True
    auto = run("plan", "db.events", "--engine", "auto")
    assert "on this process" in auto.out
    assert "Spark would take longer to start than this takes here" in auto.out
    inline = run("plan", "db.events", "--engine", "inline", "--json").json
    assert inline["better_inline"] is False
    assert "Spark" not in run("plan", "db.events", "--engine", "inline").out


@pytest.mark.parametrize(("core_seconds", "better"), [(0.1, True), (3.9, True), (4.1, False)])
def test_all_the_work_must_fit_into_the_time_that_spark_takes_to_start(core_seconds: float, better: bool) -> None:
    pricing = pricing_for(OPTIONS, {}, Prices(), Calibration(), Resources())
    assert pricing.starts_longer_than_it_runs(Work(tasks=2, core_seconds=core_seconds)) is better
    assert not pricing.starts_longer_than_it_runs(Work())  # there is nothing to run


def test_the_start_of_spark_does_not_count_if_it_runs_already() -> None:
    pricing = pricing_for(OPTIONS, {}, Prices(), Calibration(seconds_per_job=0.2), Resources())
    assert not pricing.starts_longer_than_it_runs(Work(tasks=1, core_seconds=0.5))


def test_auto_runs_a_small_plan_here_and_the_result_says_why(config: Path, warehouse: Warehouse) -> None:
    inline = InlineEngine()
    with make_control(
        warehouse, open_engine=no_spark, open_inline=lambda: inline, inline_resources=inline.resources
    ) as control:
        control.expect_work()
        plan = control.plan(REF, OPTIONS)
        assert plan.better_inline
        result = control.compact(REF, OPTIONS)
    assert result.outcome == "committed"
    assert (result.job.engine, result.job.cluster) == ("inline", "inline")
    assert result.job.notes == (
        "engine auto: ran in this process, for starting Spark was estimated to take longer than the rewrite",
    )
    assert result.plan.hash == plan.hash


def test_auto_runs_a_large_plan_on_spark_and_the_result_says_why(config: Path, warehouse: Warehouse) -> None:
    spark, inline = InlineEngine(), InlineEngine()
    with make_control(warehouse) as control:
        small = control.plan(REF, OPTIONS)
    large = replace(small, better_inline=False)
    choice = EngineChoice(lambda: spark, lambda: inline)
    choice.choose(large)
    assert choice() is spark
    assert choice.reason.startswith("engine auto: ran on Spark, for the rewrite")
    choice.choose(small)
    assert choice() is inline
    fixed = EngineChoice(lambda: spark, None)
    fixed.choose(small)
    assert fixed() is spark
    assert fixed.reason == ""


def test_auto_is_an_engine_of_the_python_api(
    config: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidyberg.execute.spark.shared_spark.SharedSpark.borrow", lambda *_: no_spark())
    table = warehouse.catalog.load_table("db.events")
    result = tidyberg.compact(table, engine="auto", strategy="full", hot_window_seconds=0)
    assert (result.outcome, result.job.engine) == ("committed", "inline")


def test_auto_is_an_engine_of_the_settings(config: Path, run: Run) -> None:  # noqa: F811
    config.write_text("engine: auto\n" + config.read_text())
    done = run("compact", "db.events", "-s", "full", "--json")
    assert done.status == 0, done.err
    assert done.json["job"]["engine"] == "inline"
    assert "engine auto" in done.json["job"]["notes"][0]
