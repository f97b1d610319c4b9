"""Expiry through the API: what is accepted, what is answered, and who may ask for it."""

from typing import Any

import httpx
import pytest

from tests.builders.aged_tables import age
from tests.builders.api import bearer, code_of, running_service, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.client import Client
from tidyberg.errors import AccessDenied, BadInput
from tidyberg.model.job import JobStatus
from tidyberg.settings.access import AccessSettings, hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

TABLE = {"table": "public.events"}


def test_a_client_expires_snapshots_and_reads_what_was_done(settings: Settings, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("public.events")
    warehouse.append_files(table, 2, 5, files_per_commit=1)
    age(table, [9, 8, 1])
    with running_service(settings) as address, Client(address) as client:
        created = client.expire("public.events", older_than="5d", verify=True, key="night")
        assert client.expire("public.events", older_than="5d", verify=True, key="night").job_id == created.job_id
        job = client.wait(created.job_id, timeout_seconds=60)
        assert (job.status, job.kind, job.strategy, job.outcome) == (
            JobStatus.SUCCEEDED,
            "expire",
            "expire",
            "committed",
        )
        assert job.options == {"older_than": "5d", "verify": True}
        assert job.stats is None
        assert job.expired is not None
        assert (job.expired.snapshots_expired, job.expired.snapshots_kept) == (2, 1)
        assert job.expired.references_verified
        assert "execute" in {event.data.get("stage") for event in client.watch(created.job_id)}
        with pytest.raises(BadInput):
            client.expire("public.events", older_than="soon")
    assert len(table.refresh().metadata.snapshots) == 1


def test_a_plan_says_what_an_expiry_would_remove_and_changes_nothing(settings: Settings, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("public.events")
    warehouse.append_files(table, 2, 5, files_per_commit=1)
    age(table, [9, 8, 1])
    before = table.refresh().metadata_location
    with running_service(settings) as address, Client(address) as client:
        plan = client.plan_expire("public.events", older_than="5d")
        assert (len(plan.snapshots_expired), plan.snapshots_kept, plan.nothing_to_do) == (2, 1, False)
        assert plan.files["manifest_lists"] == 2
        assert client.plan_expire("public.events", older_than="30d").nothing_to_do
        with pytest.raises(BadInput):
            client.plan_expire("public.events", older_than="soon")
        with pytest.raises(BadInput):
            client.plan_maintain("public.events", options={"expire": {"older_than": "-1d"}})
        steps = client.plan_maintain("public.events", options={"expire": {"older_than": "5d"}}).steps
        assert [step["step"] for step in steps] == ["deletes", "data", "manifests", "expire", "orphans"]
        assert (steps[3]["verdict"], steps[3]["numbers"]["snapshots"]) == ("run", 2)
        assert client.jobs().jobs == []
    assert table.refresh().metadata_location == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"options": {"older_thn": "5d"}}, "options.older_thn"),
        ({"options": {"older_than": "x"}}, "options.older_than"),
        ({"options": {"older_than": 432000}}, "options.older_than"),
        ({"options": {"retain_last": 0}}, "options.retain_last"),
        ({"options": {"snapshot_ids": ["abc"]}}, "options.snapshot_ids.0"),
        ({"options": {"snapshot_ids": [1.5]}}, "options.snapshot_ids.0"),
        ({"strategy": "full"}, "strategy"),
        ({"dry_run": True}, "dry_run"),
    ],
    ids=str,
)
def test_invalid_fields_are_named(shared_client: httpx.Client, body: dict[str, Any], field: str) -> None:
    answer = shared_client.post("/api/v1/expire", json={**TABLE, **body})
    assert code_of(answer) == (422, "bad-input")
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_ids_may_be_texts_because_javascript_cannot_hold_them(shared_client: httpx.Client) -> None:
    body = {**TABLE, "options": {"snapshot_ids": ["9223372036854775807"]}}
    created = shared_client.post("/api/v1/expire", json=body)
    assert created.status_code == 202, created.text
    shown = shared_client.get(created.headers["location"]).json()
    assert (shown["kind"], shown["options"]) == ("expire", {"snapshot_ids": [9223372036854775807]})


def test_schedules_have_the_options_of_their_kind(shared_client: httpx.Client) -> None:
    body = {"schedule_id": "night", "kind": "expire", "cron": "0 3 * * *", "table": "public.*"}
    made = shared_client.post("/api/v1/schedules", json={**body, "options": {"older_than": "5d"}})
    assert (made.status_code, made.json()["kind"], made.json()["options"]) == (201, "expire", {"older_than": "5d"})
    for wrong in ({"options": {"target_file_size": "1GB"}}, {"options": {"snapshot_ids": [1]}}, {"kind": "vacuum"}):
        answer = shared_client.put("/api/v1/schedules/other", json={**body, "schedule_id": None, **wrong})
        assert answer.status_code == 422
    assert shared_client.delete("/api/v1/schedules/night").status_code == 204


def test_operators_may_not_expire_by_default(settings: Settings) -> None:
    operator = new_key()
    access = {"api_keys": [{"name": "otto", "hash": hash_key(operator), "role": "operator"}]}
    service = build_service(settings.model_copy(update={"access": AccessSettings.model_validate(access)}))
    options = {"expire_snapshots": True, "snapshot_retention_hours": 1}
    with serving(create_app(service)) as address:
        with httpx.Client(base_url=address, headers=bearer(operator)) as client:
            assert code_of(client.post("/api/v1/expire", json=TABLE)) == (403, "access-denied")
            assert code_of(client.post("/api/v1/compact", json={**TABLE, "options": options}))[0] == 403
            assert client.post("/api/v1/compact", json=TABLE).status_code == 202
            assert client.post("/api/v1/expire/plan", json=TABLE).status_code == 200, "everybody may look"
            assert code_of(client.post("/api/v1/maintain/plan", json=TABLE)) == (403, "access-denied")
        with Client(address, token=operator) as own, pytest.raises(AccessDenied):
            own.expire("public.events")
    service.stop()
