"""Submission: the service checks names, options and priorities, and takes the rest from the settings."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform

from tests.builders.services import submit, untidy_table
from tidyberg.errors import (
    AccessDenied,
    BadInput,
    BadPredicate,
    CatalogUnreachable,
    IdempotencyMismatch,
    UnknownCatalog,
    UnknownJob,
    UnknownPlan,
    UnknownTable,
)
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Query, Schedule
from tidyberg.model.table import TableRef
from tidyberg.service.catalog_lookup import CatalogLookup
from tidyberg.service.identifiers import table_ref
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.testing import Warehouse

EVENTS = TableRef("lab", ("db",), "events")
VIEWER = Principal("vera", Role.VIEWER)
STRANGER = Principal("sven", Role.OPERATOR, "elsewhere")


@pytest.mark.parametrize(
    "request_",
    [
        SubmitRequest("events"),  # the only table with that name
        SubmitRequest("db.events"),
        SubmitRequest("events", namespace="db"),
        SubmitRequest("db.events", namespace="db", catalog="lab"),
    ],
    ids=str,
)
def test_table_name_has_several_forms(service: Service, warehouse: Warehouse, request_: SubmitRequest) -> None:
    untidy_table(warehouse)
    submission = service.submit(request_, LOCAL)
    assert submission.table == EVENTS
    assert submission.status is JobStatus.QUEUED
    assert submission.strategy == "auto"
    assert submission.estimated_seconds is not None, "a guess, as long as there is no plan"
    assert service.job(submission.job_id, LOCAL).submission == submission, "and whoever asks later sees the same"
    assert service.job(submission.job_id, LOCAL).run is None


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"table": ""}, BadInput),
        ({"table": "db."}, BadInput),
        ({"table": "db..events"}, BadInput),
        ({"table": " db.events"}, BadInput),
        ({"table": "db.../../etc"}, BadInput),
        ({"table": "db.\x00events"}, BadInput),
        ({"table": "db.\ud800"}, BadInput),
        ({"table": "db." + "e" * 256}, BadInput),
        ({"table": "a." * 17 + "b"}, BadInput),
        ({"table": "other.events", "namespace": "db"}, BadInput),
        ({"table": "db.events", "namespace": ""}, BadInput),
        ({"table": "db.events", "catalog": "nowhere"}, UnknownCatalog),
        ({"table": "db.event"}, UnknownTable),
        ({"table": "nothing"}, UnknownTable),
        ({"table": "db.events", "strategy": "quick"}, BadInput),
        ({"table": "db.events", "options": {"target_file_size": "big"}}, BadInput),
        ({"table": "db.events", "options": {"target_size": "1GB"}}, BadInput),
        ({"table": "db.events", "options": {"max_cost": -1}}, BadInput),
        ({"table": "db.events", "options": {"max_cost": float("nan")}}, BadInput),
        ({"table": "db.events", "options": {"parquet": {"compression-codec": "\ud800"}}}, BadInput),
        ({"table": "db.events", "options": {"parquet": {"compresion": "zstd"}}}, BadInput),
        ({"table": "db.events", "options": {"parquet": {"compression-level": "99"}}}, BadInput),
        ({"table": "db.events", "options": {"parquet": {"row-group-limit": "many"}}}, BadInput),
        ({"table": "db.events", "options": {"target_file_size": "1GB", "min_file_size": "2GB"}}, BadInput),
        ({"table": "db.events", "options": {"where": "x" * 70_000}}, BadInput),
        ({"table": "db.events", "options": {"partition_filter": "no_such_column = 1"}}, BadPredicate),
        ({"table": "db.events", "options": {"strategy": "full"}, "strategy": "auto"}, BadInput),
        ({"table": "db.events", "priority": 101}, BadInput),
        ({"table": "db.events", "verify": "maybe"}, BadInput),
        ({"table": "db.events", "tenant": "nobody"}, BadInput),
    ],
)
def test_invalid_requests_are_refused(
    service: Service, warehouse: Warehouse, bad: dict[str, Any], error: type[Exception]
) -> None:
    untidy_table(warehouse)
    with pytest.raises(error):
        service.submit(SubmitRequest(**bad), LOCAL)
    assert not service.jobs(Query(), LOCAL).submissions
    assert [entry.outcome for entry in service.audit(LOCAL)] == ["failed"]


def test_only_catalog_is_the_default(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    for catalog in (None, "default", "lab"):
        assert submit(service, catalog=catalog).table == TableRef("lab", ("db",), "events")
    saved = service.save_schedule(Schedule("s", "@daily", "default", "db.events"), LOCAL)
    assert saved.catalog == "lab"


def test_parquet_options_are_checked_against_the_table(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    with warehouse.catalog.load_table("db.events").transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "gzip"})
    with pytest.raises(BadInput, match="'15' is not a level of gzip"):
        submit(service, options={"parquet": {"compression-level": "15"}})
    submit(service, options={"parquet": {"compression-level": "15", "compression-codec": "zstd"}})


def test_a_filter_may_name_a_partition_field(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    with warehouse.catalog.load_table("db.events").update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    submit(service, options={"where": "id_bucket = 3"})
    with pytest.raises(BadPredicate, match="no column or partition field nothing"):
        submit(service, options={"where": "nothing = 3"})


@given(st.text(max_size=40), st.none() | st.text(max_size=20))
def test_any_name_is_parsed_or_bad_input(table: str, namespace: str | None) -> None:
    try:
        ref = table_ref("lab", namespace, table, lambda: "db")
    except BadInput:
        return
    assert ref.namespace
    assert all(part and part.isprintable() for part in ref.identifier)
    assert str(ref).encode()


def test_contract_option_names_are_kept_as_submitted(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    options = {"target_file_size": "1GB", "max_cost": 2.5, "partition_filter": "id > 3", "force": None}
    submission = submit(service, strategy="small-files", options=options)
    assert submission.strategy == "small_files"
    assert submission.options == {
        "target_file_size": "1GB",
        "max_cost": 2.5,
        "partition_filter": "id > 3",
        "strategy": "small-files",
    }


def test_filter_may_use_a_column_newer_than_the_cache(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    submit(service)
    with warehouse.catalog.load_table("db.events").update_schema() as update:
        from pyiceberg.types import LongType

        update.add_column("fresh", LongType())
    submit(service, options={"where": "fresh = 1"})


def test_same_key_returns_the_same_job(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    first = service.submit(SubmitRequest("db.events"), LOCAL, "key")
    assert service.submit(SubmitRequest("events"), LOCAL, "key").job_id == first.job_id
    with pytest.raises(IdempotencyMismatch):
        service.submit(SubmitRequest("db.events", priority=1), LOCAL, "key")
    with pytest.raises(BadInput):
        service.submit(SubmitRequest("db.events"), LOCAL, "k" * 256)


def test_viewers_can_read_and_other_tenants_see_nothing(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    job = submit(service)
    assert service.job(job.job_id, VIEWER).submission == job
    with pytest.raises(AccessDenied):
        service.submit(SubmitRequest("db.events"), VIEWER)
    with pytest.raises(AccessDenied):
        service.cancel(job.job_id, VIEWER)
    with pytest.raises(UnknownCatalog):
        service.submit(SubmitRequest("db.events"), STRANGER)
    with pytest.raises(UnknownJob):
        service.job(job.job_id, STRANGER)
    with pytest.raises(UnknownJob):
        service.cancel(job.job_id, STRANGER)
    assert not service.jobs(Query(), STRANGER).submissions
    with pytest.raises(UnknownCatalog):
        service.tables(STRANGER)
    assert [entry.outcome for entry in service.audit(LOCAL)] == ["failed", "failed", "denied", "denied", "allowed"]
    with pytest.raises(AccessDenied):
        service.audit(VIEWER)


@pytest.mark.parametrize("job_id", ["nothing", "", "\ud800", "x" * 1000, "../x"])
def test_unknown_ids_raise(service: Service, job_id: str) -> None:
    with pytest.raises(UnknownJob):
        service.job(job_id, LOCAL)
    with pytest.raises(UnknownPlan):
        service.apply(job_id, LOCAL)


def test_a_queued_job_is_cancelled_at_once(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    job = submit(service)
    assert service.cancel(job.job_id, LOCAL).status is JobStatus.CANCELLED
    assert service.cancel(job.job_id, LOCAL).status is JobStatus.CANCELLED, "once more changes nothing"


def test_tables_and_their_health_can_be_read(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    assert [summary.files for summary in service.tables(VIEWER)] == [6]
    assert service.health(EVENTS, VIEWER).small_files == 6


def test_service_is_ready_if_store_and_catalog_answer(service: Service) -> None:
    assert service.ready().ok
    assert service.ready().checks == {"store": "ok", "engine": "ok", "catalog lab": "ok"}


class Hanging:
    """A catalog that answers when the test allows it."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = threading.Event()

    def __call__(self, name: str | None) -> Any:
        self.asked += 1
        self.answer.wait(30)
        raise CatalogUnreachable("It is down.")


def test_jobs_are_accepted_while_the_catalog_hangs_and_it_is_not_called_again(
    service: Service, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Hanging()
    service.lookup.open_catalog, service.lookup.patience_seconds = catalog, 0.1
    accepted = [submit(service) for _ in range(20)]
    assert len({job.job_id for job in accepted}) == 20
    assert catalog.asked == 1
    with pytest.raises(CatalogUnreachable):
        submit(service, "events")  # the namespace is unknown
    catalog.answer.set()


def test_cached_table_expires_after_a_minute(warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    now = [0.0]
    lookup = CatalogLookup(lambda _: warehouse.catalog, clock=lambda: now[0])
    assert lookup.table(EVENTS) is not None
    warehouse.catalog.drop_table("db.events")
    now[0] = 59.0
    assert lookup.table(EVENTS) is not None, "from memory"
    now[0] = 61.0
    with pytest.raises(UnknownTable):
        lookup.table(EVENTS)


def test_a_plan_can_be_applied_by_its_hash(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    plan = service.plan(SubmitRequest("db.events", strategy="full"), VIEWER)
    job = service.apply(plan.hash, LOCAL, priority=3)
    assert (job.plan_hash, job.strategy, job.priority) == (plan.hash, "full", 3)
    assert job.estimated_seconds == plan.estimate.seconds
    with pytest.raises(UnknownPlan):
        service.apply(plan.hash, STRANGER)


def test_many_submissions_call_the_catalog_once(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    service = make_service()
    untidy_table(warehouse)
    loads = 0
    load = service.lookup._load

    def counting(ref: TableRef) -> Any:
        nonlocal loads
        loads += 1
        time.sleep(0.05)
        return load(ref)

    service.lookup._load = counting  # type: ignore[method-assign]
    threads = [threading.Thread(target=submit, args=(service,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == 1
    assert len(service.jobs(Query(), LOCAL).submissions) == 8
