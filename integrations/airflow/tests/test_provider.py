"""The provider against a real service, whose address the connection in the environment has."""

import asyncio
import importlib.metadata
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from tidyberg_airflow import get_provider_info
from tidyberg_airflow.hook import TidybergError, TidybergHook
from tidyberg_airflow.operator import TidybergOperator
from tidyberg_airflow.sensor import TidybergHealthSensor
from tidyberg_airflow.trigger import TidybergJobTrigger


def first_event(trigger: TidybergJobTrigger) -> Any:
    async def run() -> Any:
        return (await anext(aiter(trigger.run()))).payload

    return asyncio.run(run())


def run_task(operator: TidybergOperator) -> dict[str, Any]:
    """Does what a worker, the triggerer and a worker do after each other."""
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    path, arguments = deferred.value.trigger.serialize()
    assert path == f"{TidybergJobTrigger.__module__}.{TidybergJobTrigger.__name__}"

    event = first_event(TidybergJobTrigger(**arguments))
    return getattr(operator, deferred.value.method_name)({}, event)


def test_airflow_finds_the_provider() -> None:
    (found,) = importlib.metadata.distribution("tidyberg-airflow").entry_points
    assert (found.group, found.name) == ("apache_airflow_provider", "provider_info")
    assert found.load() is get_provider_info


def test_the_connection_works() -> None:
    assert TidybergHook().test_connection()[0]


def test_a_deferred_task_compacts_a_table() -> None:
    job = run_task(TidybergOperator(task_id="compact", table="public.events", poll_seconds=0.1))
    assert (job["status"], job["outcome"]) == ("succeeded", "committed")
    assert job["stats"]["files_after"] < job["stats"]["files_before"]
    again = TidybergOperator(task_id="again", table="public.events", deferrable=False, poll_seconds=0.1).execute({})
    assert again["outcome"] != "committed"


def test_a_task_whose_job_fails_fails() -> None:
    with pytest.raises(TidybergError, match=r"404|422|no table"):
        run_task(TidybergOperator(task_id="missing", table="public.missing", poll_seconds=0.1))
    with pytest.raises(TidybergError, match="failed: it broke"):
        TidybergOperator(task_id="failed", table="t").execute_complete(
            {}, {"job_id": "1", "status": "failed", "error": {"message": "it broke"}}
        )


def test_a_service_that_does_not_answer_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", '{"conn_type": "tidyberg", "host": "127.0.0.1", "port": 1}')
    assert first_event(TidybergJobTrigger("1", "away", 0.01))["status"] == "unknown"


def test_the_sensor_compares_the_health_of_a_table() -> None:
    assert TidybergHealthSensor(task_id="any", table="public.sales").poke({})
    assert not TidybergHealthSensor(task_id="worse", table="public.sales", at_most=0).poke({})


def test_the_example_is_a_dag_of_three_tasks() -> None:
    from tidyberg_airflow.example_dags import example_tidyberg

    dag = example_tidyberg.iceberg_compaction()
    assert set(dag.task_ids) == {"untidy", "compact_sales_table", "report"}
    assert dag.get_task("compact_sales_table").upstream_task_ids == {"untidy"}
    assert dag.get_task("report").upstream_task_ids == {"compact_sales_table"}
