"""The operator beside a real service: policies become schedules, and their status says what the service knows."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.builders.api import serving
from tests.operator.cluster import PATIENCE_SECONDS, Cluster, is_ready, is_refused
from tests.operator.conftest import OperatorProcess, StartOperator
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.client import Client
from tidyberg.model.principal import Principal, Role
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings

COMPACTIONS, MAINTENANCES = "compactionpolicies", "maintenancepolicies"
SPEC = {"table": "public.events", "schedule": "0 3 * * *", "options": {"target_file_size": "512MB"}}


@pytest.fixture(scope="module")
def service(service_settings: Settings) -> Iterator[Service]:
    built = build_service(service_settings)
    built.start()
    yield built
    built.stop()


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with serving(create_app(service)) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


@pytest.fixture(scope="module")
def operator(start_operator: StartOperator, url: str) -> Iterator[OperatorProcess]:
    with start_operator(url) as process:
        yield process


def has_observed(generation: int) -> Any:
    return lambda status: is_ready(status) and status["observedGeneration"] == generation


def has_schedule(client: Client, schedule_id: str) -> bool:
    return schedule_id in [one.schedule_id for one in client.schedules()]


def test_a_policy_is_created_changed_suspended_and_deleted(
    cluster: Cluster, client: Client, operator: OperatorProcess
) -> None:
    cluster.create(COMPACTIONS, "events", {**SPEC, "strategy": "small-files"})
    status = cluster.until(COMPACTIONS, "events", lambda found: is_ready(found) and "debt" in found)
    assert status["scheduleId"] == "kubernetes_compact_lake_events"
    schedule = client.schedule(status["scheduleId"])
    assert (schedule.cron, schedule.strategy, schedule.kind) == ("0 3 * * *", "small_files", "compact")
    assert schedule.next_due is not None
    assert status["nextRun"] == schedule.next_due.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (status["debt"]["files"], status["debt"]["smallFiles"], status["debt"]["tables"]) == (12, 12, 1)

    cluster.change(COMPACTIONS, "events", {"schedule": "30 4 * * *"})
    cluster.until(COMPACTIONS, "events", has_observed(2))
    assert client.schedule(status["scheduleId"]).cron == "30 4 * * *"

    cluster.change(COMPACTIONS, "events", {"suspend": True})
    suspended = cluster.until(COMPACTIONS, "events", has_observed(3))
    assert not client.schedule(status["scheduleId"]).enabled
    assert "nextRun" not in suspended

    cluster.delete(COMPACTIONS, "events")
    cluster.until_gone(COMPACTIONS, "events")
    assert not has_schedule(client, status["scheduleId"])


def test_a_maintenance_policy_with_a_pattern_covers_several_tables(
    cluster: Cluster, client: Client, operator: OperatorProcess
) -> None:
    cluster.create(MAINTENANCES, "nightly", {"table": "public.*", "schedule": "0 2 * * *"})
    status = cluster.until(MAINTENANCES, "nightly", lambda found: is_ready(found) and "debt" in found)
    assert client.schedule(status["scheduleId"]).kind == "maintain"
    assert (status["debt"]["tables"], status["debt"]["files"]) == (2, 15)
    assert status["debt"]["worstTable"] == "public.events"


def test_an_unchanged_schedule_is_not_saved_again_and_a_lost_one_comes_back(
    cluster: Cluster, client: Client, url: str, operator: OperatorProcess
) -> None:
    """Saving a schedule forgets due times that were missed."""
    cluster.create(COMPACTIONS, "kept", SPEC)
    status = cluster.until(COMPACTIONS, "kept", lambda found: is_ready(found) and "debt" in found)
    schedule_id = status["scheduleId"]
    saves, began, settled = saves_of(url, schedule_id), time.monotonic(), False
    while not settled:  # kopf still notes what it has handled
        assert time.monotonic() < began + PATIENCE_SECONDS, "an unchanged status was written again and again"
        version = version_of(cluster, "kept")
        time.sleep(2.5)  # the operator looks at the policies every half second
        settled = version_of(cluster, "kept") == version
    assert saves_of(url, schedule_id) == saves

    client.delete_schedule(schedule_id)
    until_planned(client, schedule_id)

    client.save_schedule(client.schedule(schedule_id).model_copy(update={"cron": "1 1 1 1 *"}))
    until_planned(client, schedule_id)


def until_planned(client: Client, schedule_id: str) -> None:
    """Waits until the service has the schedule as the policy wants it."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while SPEC["schedule"] not in [one.cron for one in client.schedules() if one.schedule_id == schedule_id]:
        assert time.monotonic() < give_up
        time.sleep(0.05)


def saves_of(url: str, schedule_id: str) -> int:
    entries = httpx.get(f"{url}/api/v1/audit", params={"limit": 100}).raise_for_status().json()["entries"]
    return sum(entry["action"] == "schedule.save" and entry["target"] == schedule_id for entry in entries)


def version_of(cluster: Cluster, name: str) -> str:
    found = cluster.get(COMPACTIONS, name)
    assert found is not None
    return str(found["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("number", "spec", "words"),
    [
        (1, {"table": "public.events"}, "spec.schedule: Field required"),
        (2, {**SPEC, "schedule": "never"}, "never"),
        (3, {**SPEC, "options": {"target_file_size": "large"}}, "target_file_size"),
        (4, {**SPEC, "strategy": "guess"}, "guess"),
    ],
)
def test_a_bad_spec_is_refused_with_the_reason_and_can_be_repaired(
    number: int, spec: dict[str, Any], words: str, cluster: Cluster, client: Client, operator: OperatorProcess
) -> None:
    name = f"bad-{number}"
    cluster.create(COMPACTIONS, name, spec)
    status = cluster.until(COMPACTIONS, name, is_refused)
    assert words in status["conditions"][0]["message"]
    assert not has_schedule(client, f"kubernetes_compact_lake_{name}")
    cluster.change(COMPACTIONS, name, {**SPEC, "strategy": None})
    cluster.until(COMPACTIONS, name, has_observed(2))
    assert client.schedule(f"kubernetes_compact_lake_{name}").cron == SPEC["schedule"]


def test_the_status_shows_the_latest_job_of_the_schedule(
    cluster: Cluster, service: Service, client: Client, operator: OperatorProcess
) -> None:
    cluster.create(COMPACTIONS, "sales", {**SPEC, "table": "public.sales"})
    schedule_id = cluster.until(COMPACTIONS, "sales", is_ready)["scheduleId"]
    # The scheduler submits jobs in this name when the schedule is due.
    name = Principal(f"schedule:{schedule_id}", Role.OPERATOR)
    job_id = service.submit(SubmitRequest("public.sales"), name).job_id
    done = cluster.until(COMPACTIONS, "sales", lambda status: "finishedAt" in status.get("lastRun", {}))["lastRun"]
    job = client.job(job_id)
    assert (done["jobId"], done["status"], done["outcome"]) == (job_id, job.status.value, job.outcome)
    assert done["table"] == "public.sales"
