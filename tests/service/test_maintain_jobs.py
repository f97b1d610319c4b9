"""Maintenance as a job of the service: who may submit it, what it does, and what happens after failures."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import age, change_metadata
from tests.builders.events_table import make_table, paths
from tests.builders.services import Clock, attempt, claimed
from tidyberg.errors import AccessDenied, BadInput, StorageError
from tidyberg.model.catalog_policies import ApplicablePolicy
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.maintenance import MAINTAIN
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Submission
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return age(make_table(warehouse), [10, 9, 8, 7, 6, 1])


def maintain(service: Service, who: Principal = LOCAL, **options: Any) -> Submission:
    return service.submit(SubmitRequest("db.events", kind=MAINTAIN, options=options), who)


def run(service: Service) -> tuple[Submission, Job | None]:
    """Runs the next job in this thread, as a worker does."""
    clock = Clock()
    job = claimed(service, "worker", clock)
    attempt(service, job, clock).run()
    found = service.job(job.job_id, LOCAL)
    return found.submission, found.run


def test_job_does_every_step_and_notes_what_each_did(service: Service, warehouse: Warehouse, table: Table) -> None:
    rows = warehouse.rows(table)
    submitted = maintain(service, expire={"older_than": "5d"}, data={"max_cost": 5})
    assert (submitted.kind, submitted.strategy) == (MAINTAIN, MAINTAIN)
    assert submitted.options == {"expire": {"older_than": "5d"}, "data": {"max_cost": 5.0}}
    done, recorded = run(service)
    assert (done.status, done.outcome, done.attempts) == (JobStatus.SUCCEEDED, "committed", 1)
    assert recorded is not None
    assert [note.partition(":")[0] for note in recorded.notes] == ["deletes", "data", "manifests", "expire", "orphans"]
    assert any(note.startswith("expire: done: 5 snapshots") for note in recorded.notes)
    assert (len(paths(warehouse, table)), warehouse.rows(table)) == (1, rows)
    maintain(service)
    assert run(service)[0].outcome == "tidy"


def test_a_job_notes_what_a_policy_of_the_catalog_asks_for_and_is_not_done(service: Service, table: Table) -> None:
    policy = ApplicablePolicy("system.row-filter", "filter", ("gov",), 1, True, None)
    with (
        patch("tidyberg.control.maintenance.request.obeys_catalog", return_value=True),
        patch("tidyberg.control.maintenance.request.applicable_policies", return_value=(policy,)),
    ):
        maintain(service)
        _, recorded = run(service)
    assert recorded is not None
    assert recorded.notes[0].startswith("catalog policy gov.filter version 1, inherited (system.row-filter): ")


def test_options_of_the_request_are_stronger_than_properties(service: Service, table: Table) -> None:
    change_metadata(table, lambda document: document["properties"].update({"tidyberg.maintain.enabled": "false"}))
    maintain(service)
    assert run(service)[0].outcome == "tidy"
    maintain(service, enabled=True)
    assert run(service)[0].outcome == "committed"


WRONG: tuple[dict[str, Any], ...] = ({"expired": {}}, {"expire": {"older_than": "soon"}}, {"expire": 5}, {"where": "x"})


@pytest.mark.parametrize("options", WRONG)
def test_invalid_options_are_refused(service: Service, table: Table, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        maintain(service, **options)
    line = {"kind": MAINTAIN, "cron": "@daily", "table": "db.*", "options": options}
    with pytest.raises(ValueError, match=r"key|age|object"):
        Settings.model_validate({"schedules": [line]})


def test_a_wrong_property_of_the_table_is_reported_at_once(service: Service, table: Table) -> None:
    change_metadata(table, lambda document: document["properties"].update({"tidyberg.maintain.expire.age": "5d"}))
    with pytest.raises(BadInput, match=r"tidyberg\.maintain\.expire\.age of db\.events"):
        maintain(service)


def test_only_admins_may_maintain(service: Service, table: Table) -> None:
    with pytest.raises(AccessDenied, match="maintain need an admin"):
        maintain(service, Principal("olga", Role.OPERATOR))


def test_a_transient_failure_is_tried_again_and_does_what_is_left(
    service: Service, warehouse: Warehouse, table: Table
) -> None:
    rows = warehouse.rows(table)

    def broken(*_: Any, **__: Any) -> Any:
        raise StorageError("no deletes today")

    maintain(service)
    with patch("tidyberg.control.expiry_work.delete_files", broken):
        failed, _ = run(service)
    assert (failed.status, failed.error_code) == (JobStatus.QUEUED, None)
    assert len(paths(warehouse, table)) == 1
    clock = Clock(3_600_000)
    job = claimed(service, "worker", clock)
    attempt(service, job, clock).run()
    ended = service.job(job.job_id, LOCAL)
    assert ended.submission.status is JobStatus.SUCCEEDED
    assert warehouse.rows(table) == rows
    assert not warehouse.referenced_files(table) - {str(Path(path)) for path in warehouse.files_on_disk(table)}


def test_a_schedule_submits_it() -> None:
    line = {"kind": MAINTAIN, "cron": "@daily", "table": "db.*", "options": {"orphans": {"action": "delete"}}}
    made = Settings.model_validate({"schedules": [line]}).schedules[0]
    assert made.kind == MAINTAIN
