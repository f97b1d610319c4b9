"""`POST /v1/…/metrics`: the reports that it takes as a REST catalog does, what is kept, and who may send them."""

from typing import Any

import httpx
import pytest

from tests.builders.api import bearer, code_of, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.model.table import TableRef
from tidyberg.service.service import Service
from tidyberg.settings.access import AccessSettings, Tenant, hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

# As Iceberg 1.12 sends it for Spark, with fewer counters.
REPORT: dict[str, Any] = {
    "report-type": "scan-report",
    "table-name": "reported.public.events",
    "snapshot-id": 350364714575067677,
    "filter": {
        "type": "and",
        "left": {"type": "not-null", "term": "id"},
        "right": {"type": "gt-eq", "term": "id", "value": "(1-digit-int)"},
    },
    "schema-id": 0,
    "projected-field-ids": [1, 2, 3],
    "projected-field-names": ["id", "region", "name"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2080925798},
        "result-data-files": {"unit": "count", "value": 3},
        "skipped-data-files": {"unit": "count", "value": 4},
        "total-file-size-in-bytes": {"unit": "bytes", "value": 6231},
        "dvs": {"unit": "count", "value": 0},
    },
    "metadata": {"engine-name": "spark"},
}
COMMIT = {"report-type": "commit-report", "table-name": "t", "snapshot-id": 1, "operation": "append", "metrics": {}}
PATH = "/v1/namespaces/public/tables/events/metrics"
EVENTS = TableRef("default", ("public",), "events")


def test_scan_reports_are_added_up_by_shape(client: httpx.Client, service: Service) -> None:
    for path in (
        PATH,
        "/v1/default/namespaces/public/tables/events/metrics",
        "/v1/wh/namespaces/public/tables/events/metrics",
    ):
        answer = client.post(path, json=REPORT)
        assert (answer.status_code, answer.content) == (204, b""), answer.text
    (kept,) = service.records.ledger.scan_reports(EVENTS)
    assert kept.shape == '{"column":"id","operator":">="}'
    assert (kept.reports, kept.result_files, kept.skipped_files, kept.result_bytes) == (3, 9, 12, 3 * 6231)
    assert kept.planning_nanoseconds == 3 * 2080925798
    assert kept.day == service.now_ms() // 86_400_000


def test_other_reports_are_accepted_and_ignored(client: httpx.Client, service: Service) -> None:
    for report in (COMMIT, {"report-type": "of-the-future"}):
        assert client.post(PATH, json=report).status_code == 204
    assert service.records.ledger.scan_reports(EVENTS) == []


def test_levels_of_a_namespace_are_separated_by_the_unit_separator(
    client: httpx.Client, service: Service, warehouse: Warehouse
) -> None:
    warehouse.create_table("public.inner.deep")
    assert client.post("/v1/namespaces/public%1Finner/tables/deep/metrics", json=REPORT).status_code == 204
    assert len(service.records.ledger.scan_reports(TableRef("default", ("public", "inner"), "deep"))) == 1


def test_the_audit_log_has_the_first_report_of_a_table_and_day(client: httpx.Client, service: Service) -> None:
    for _ in range(3):
        client.post(PATH, json=REPORT)
    client.post(PATH, json=COMMIT)
    (entry,) = service.records.ledger.audit()
    assert (entry.action, entry.target, entry.outcome) == ("scan.report", "public.events", "allowed")


@pytest.mark.parametrize(
    "change",
    [
        {"report-type": None},
        {"report-type": 5},
        {"table-name": None},
        {"snapshot-id": "1"},
        {"snapshot-id": True},
        {"metrics": None},
        {"metrics": {"result-data-files": 5}},
        {"metrics": {"result-data-files": {"unit": "count", "value": -1}}},
        {"metrics": {"result-data-files": {"unit": "count", "value": 1.5}}},
        {"metrics": {"total-planning-duration": {"count": 1, "time-unit": "fortnights", "total-duration": 1}}},
        {"metrics": {"total-planning-duration": {"count": 1, "time-unit": "seconds", "total-duration": -1}}},
        {"metrics": {"total-planning-duration": [1]}},
        {"filter": None},
        {"filter": {"type": "eq", "term": {}}},
    ],
)
def test_a_report_that_is_not_one_is_refused(client: httpx.Client, service: Service, change: dict[str, Any]) -> None:
    assert code_of(client.post(PATH, json={**REPORT, **change})) == (422, "bad-input")
    assert service.records.ledger.scan_reports(EVENTS) == []


def test_a_report_without_a_filter_is_refused(client: httpx.Client) -> None:
    assert code_of(client.post(PATH, json={key: value for key, value in REPORT.items() if key != "filter"}))[0] == 422


def test_a_deep_filter_and_a_large_body_are_refused(client: httpx.Client) -> None:
    deep: Any = True
    for _ in range(40):
        deep = {"type": "not", "child": deep}
    assert client.post(PATH, json={**REPORT, "filter": deep}).status_code == 400
    assert client.post(PATH, content=b"x" * 20_000_000).status_code == 413
    assert client.post(PATH, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        "/v1/namespaces/public/tables/nothing/metrics",
        "/v1/namespaces/nothing/tables/events/metrics",
    ],
)
def test_a_report_on_no_table_is_refused(client: httpx.Client, path: str) -> None:
    assert client.post(path, json=REPORT).status_code == 404


def test_huge_counters_are_cut_so_that_totals_do_not_overflow(client: httpx.Client, service: Service) -> None:
    huge = {"result-data-files": {"unit": "count", "value": 2**62}}
    days = {"total-planning-duration": {"count": 1, "time-unit": "days", "total-duration": 2**62}}
    for _ in range(3):
        assert client.post(PATH, json={**REPORT, "metrics": {**huge, **days}}).status_code == 204
    (kept,) = service.records.ledger.scan_reports(EVENTS)
    assert kept.result_files == kept.planning_nanoseconds == 3 * 2**45


def test_reports_need_the_role_of_an_operator_and_ones_own_table(settings: Settings, warehouse: Warehouse) -> None:
    keys = {name: new_key() for name in ("viewer", "operator", "other")}
    given = [
        {
            "name": name,
            "role": "viewer" if name == "viewer" else "operator",
            "hash": hash_key(key),
            "tenant": "them" if name == "other" else "us",
        }
        for name, key in keys.items()
    ]
    tenants = {"us": Tenant(namespaces=["public"]), "them": Tenant(namespaces=["theirs"])}
    access = AccessSettings.model_validate({"api_keys": given})
    service = build_service(settings.model_copy(update={"access": access, "tenants": tenants}))
    with serving(create_app(service)) as address, httpx.Client(base_url=address, timeout=30) as client:

        def status(**headers: Any) -> int:
            return client.post(PATH, json=REPORT, **headers).status_code

        assert status() == 401
        assert status(headers=bearer(keys["viewer"])) == 403
        assert status(headers=bearer(keys["other"])) == 403
        assert service.records.ledger.scan_reports(EVENTS) == []
        assert status(headers=bearer(keys["operator"])) == 204
    assert [entry.outcome for entry in service.records.ledger.audit()] == ["allowed", "denied", "denied"]
    service.stop()
