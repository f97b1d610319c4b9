"""Assets and checks on Dagster, against a real service, whose address is in the environment."""

import os
import time
from typing import Any

import dagster as dg
import httpx
import pytest
from tidyberg_dagster import (
    TableRequest,
    TidybergInProcess,
    TidybergService,
    tidyberg_compacted_table,
    tidyberg_health_check,
)

SERVICE = TidybergService(url=os.environ["TIDYBERG_SERVER"], poll_seconds=0.1)


def materialize(*assets: Any, runner: Any = SERVICE, raise_on_error: bool = True) -> dg.ExecuteInProcessResult:
    instance = dg.DagsterInstance.ephemeral()
    resources = {"tidyberg": runner}
    return dg.materialize(list(assets), resources=resources, raise_on_error=raise_on_error, instance=instance)


def metadata_of(result: dg.ExecuteInProcessResult, asset: dg.AssetsDefinition) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node(asset.node_def.name)
    return {name: value.value for name, value in event.metadata.items()}


def test_the_example_compacts_a_table_after_its_upstream_asset() -> None:
    from tidyberg_dagster.example import compacted, defs

    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=dg.DagsterInstance.ephemeral())

    order = [event.asset_key.to_user_string() for event in result.get_asset_materialization_events()]
    assert order == ["public/events", "public/events/compacted"]
    shown = metadata_of(result, compacted)
    assert shown["outcome"] == "committed"
    assert (shown["files_before"], shown["files_after"]) == (12, 1)
    assert 0 < shown["bytes_after"] < shown["bytes_before"]
    assert shown["dollars"] > 0
    assert httpx.get(shown["job"]).json()["job_id"] == shown["job_id"]
    (check,) = result.get_asset_check_evaluations()
    assert check.passed
    assert check.metadata["files"].value == 1


def test_a_table_that_needs_no_work_is_materialized_too() -> None:
    tidy = tidyberg_compacted_table("public.tidy")
    assert metadata_of(materialize(tidy), tidy)["outcome"] == "tidy"


def test_a_job_that_fails_fails_the_step() -> None:
    result = materialize(tidyberg_compacted_table("public.missing"), raise_on_error=False)
    assert not result.success
    (failed,) = result.get_step_failure_events()
    assert "public.missing" in str(failed.event_specific_data.error)


def test_a_try_submits_one_job_and_the_next_try_another_one() -> None:
    first = SERVICE.run(TableRequest("public.tidy"), "one")
    assert SERVICE.run(TableRequest("public.tidy"), "one").job_id == first.job_id
    assert SERVICE.run(TableRequest("public.tidy"), "another").job_id != first.job_id


def test_an_interrupted_step_cancels_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """This service has no workers, so that the job still waits."""

    def interrupt(_: float) -> None:
        raise dg.DagsterExecutionInterruptedError

    idle = TidybergService(url=os.environ["IDLE_SERVICE"], poll_seconds=0.1)
    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        idle.run(TableRequest("public.sales"), "interrupted")
    (job,) = httpx.get(f"{idle.url}/api/v1/jobs").json()["jobs"]
    assert job["status"] == "cancelled"


def test_a_service_that_does_not_answer_ends_the_wait() -> None:
    away = TidybergService(url="http://127.0.0.1:1", poll_seconds=0.01)
    with pytest.raises(httpx.ConnectError):
        away.run(TableRequest("public.sales"), "away")
    with httpx.Client(base_url=away.url) as client, pytest.raises(Exception, match="The job may still run"):
        away._ended(client, "1")


def test_a_check_fails_while_the_health_is_too_low() -> None:
    @dg.asset
    def sales() -> None: ...

    result = materialize(sales, tidyberg_health_check(sales, "public.sales", at_least=100))
    assert result.success
    (check,) = result.get_asset_check_evaluations()
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert check.metadata["small_files"].value == 6


@pytest.mark.parametrize("table", ["events", ".events", "public."])
def test_a_table_without_a_namespace_is_refused_when_the_code_is_loaded(table: str) -> None:
    with pytest.raises(ValueError, match=r"Write namespace\.table"):
        tidyberg_compacted_table(table)


def test_an_unknown_kind_is_refused_when_the_code_is_loaded() -> None:
    with pytest.raises(ValueError, match="'vacuum' is not a kind of job"):
        tidyberg_compacted_table("public.sales", kind="vacuum")


def test_a_table_is_compacted_without_a_service() -> None:
    runner = TidybergInProcess(engine="inline")
    compacted = tidyberg_compacted_table("public.local", options={"min_input_files": 2})
    before = runner.health("public.local")

    shown = metadata_of(materialize(compacted, runner=runner), compacted)
    assert (before.files, shown["files_before"], shown["files_after"]) == (4, 4, 1)
    assert shown["outcome"] == "committed"
    assert shown["dollars"] > 0
