"""A service that is down, or does not accept the token: policies wait, say why, and lose nothing."""

from pathlib import Path

from tests.builders.api import running_service
from tests.operator.cluster import Cluster, is_ready, is_refused
from tests.operator.conftest import StartOperator
from tests.servers.server import free_port
from tidyberg.client import Client
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings

COMPACTIONS = "compactionpolicies"
SPEC = {"table": "public.events", "schedule": "0 3 * * *"}


def test_a_policy_waits_for_a_service_that_is_down(
    cluster: Cluster, service_settings: Settings, start_operator: StartOperator
) -> None:
    port = free_port()
    name = "patient"
    with start_operator(f"http://127.0.0.1:{port}"):
        cluster.create(COMPACTIONS, name, SPEC)
        status = cluster.until(COMPACTIONS, name, lambda found: bool(found.get("conditions")))
        assert (status["conditions"][0]["status"], status["conditions"][0]["reason"]) == ("False", "Unavailable")
        with running_service(service_settings, port) as address, Client(address) as client:
            schedule_id = cluster.until(COMPACTIONS, name, is_ready)["scheduleId"]
            assert client.schedule(schedule_id).table == "public.events"
        cluster.delete(COMPACTIONS, name)
        cluster.check_marked(COMPACTIONS, name)
        with running_service(service_settings, port) as address, Client(address) as client:
            cluster.until_gone(COMPACTIONS, name)
            assert schedule_id not in [one.schedule_id for one in client.schedules()]


def test_a_refused_token_is_shown_and_its_replacement_is_read(
    cluster: Cluster, service_settings: Settings, start_operator: StartOperator, tmp_path: Path
) -> None:
    key = new_key()
    access = {"api_keys": [{"name": "operator", "hash": hash_key(key), "role": "admin"}]}
    data = {**service_settings.model_dump(), "catalog": service_settings.catalog, "access": access}
    locked = Settings.model_validate(data)
    token = tmp_path / "token"
    token.write_text("tdb_wrong")
    with (
        running_service(locked) as address,
        start_operator(address, "--token-file", str(token)) as process,
    ):
        cluster.create(COMPACTIONS, "locked", SPEC)
        cluster.until(COMPACTIONS, "locked", is_refused)
        token.write_text(f"{key}\n")
        cluster.until(COMPACTIONS, "locked", is_ready)
        cluster.delete(COMPACTIONS, "locked")
        cluster.until_gone(COMPACTIONS, "locked")
    assert key not in process.said
