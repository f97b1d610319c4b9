"""Tenants that share a service cannot see, change or guess the resources of others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.builders.api import bearer, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SALES, FINANCE, ADMIN, WATCHER, AUDIT = (new_key() for _ in range(5))
SCHEDULE = {"cron": "0 2 * * *", "table": "sales.*"}


@pytest.fixture(scope="module")
def service_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("lake")
    with ExitStack() as stack:
        lake = stack.enter_context(Warehouse(directory / "lake", name="lake"))
        books = stack.enter_context(Warehouse(directory / "books", name="books"))
        for table in ("sales.orders", "finance.bills", "sales.shared", "finance.shared", "tmp.scratch"):
            lake.append_files(lake.create_table(table), 2, 5)
        books.create_table("finance.ledger")
        keys = [("ann", SALES, "operator", "sales"), ("bob", FINANCE, "operator", "finance"),
                ("ada", ADMIN, "admin", None), ("cam", WATCHER, "viewer", "*"),
                ("dan", AUDIT, "operator", "audit")]  # fmt: skip
        settings = Settings.model_validate(
            {
                "engine": "inline",
                "store": {"path": str(directory / "jobs.db")},
                "catalogs": {"lake": lake.properties, "books": books.properties},
                "default_catalog": "lake",
                "access": {"api_keys": [{"name": name, "hash": hash_key(key), "role": role, "tenant": tenant}
                                        for name, key, role, tenant in keys]},
                "tenants": {
                    "sales": {"catalogs": ["lake"], "namespaces": ["sales"], "max_queued": 50},
                    "finance": {"namespaces": ["finance"], "submissions_per_minute": 5},
                    "audit": {"catalogs": ["lake"], "namespaces": ["audit"]},  # there is no such namespace yet
                },
            }
        )  # fmt: skip
        service = build_service(settings)
        stack.callback(service.stop)
        yield stack.enter_context(serving(create_app(service)))


@pytest.fixture
def client(service_address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service_address, timeout=30) as opened:
        yield opened


Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(client: httpx.Client) -> Ask:
    def asked(key: str, method: str, path: str, **more: Any) -> httpx.Response:
        return client.request(method, f"/api/v1{path}", headers=bearer(key), **more)

    return asked


def submitted(ask: Ask, key: str, table: str) -> str:
    answer = ask(key, "POST", "/compact", json={"table": table})
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


def same_answer(first: httpx.Response, second: httpx.Response, *names: str) -> bool:
    """Returns True if two responses differ only in the requested names."""
    texts = [first.text, second.text]
    for name in names:
        texts = [text.replace(name, "X") for text in texts]
    return (first.status_code, texts[0]) == (second.status_code, texts[1])


def test_jobs_of_other_tenants_look_unknown(ask: Ask) -> None:
    job = submitted(ask, SALES, "sales.orders")
    never = "00000000-0000-4000-8000-000000000000"
    for method, path in (("GET", "/jobs/{}"), ("DELETE", "/jobs/{}"), ("GET", "/jobs/{}/events")):
        theirs, none = (ask(FINANCE, method, path.format(job_id)) for job_id in (job, never))
        assert theirs.status_code == 404
        assert same_answer(theirs, none, job, never)
    assert ask(SALES, "GET", f"/jobs/{job}").json()["status"] == "queued"
    assert ask(WATCHER, "GET", f"/jobs/{job}").status_code == 200
    assert ask(WATCHER, "DELETE", f"/jobs/{job}").status_code == 403
    assert ask(SALES, "DELETE", f"/jobs/{job}").json()["status"] == "cancelled"


def test_lists_contain_only_own_items(ask: Ask) -> None:
    mine, theirs = submitted(ask, SALES, "sales.orders"), submitted(ask, FINANCE, "finance.bills")

    def listed(key: str, **filters: str) -> set[str]:
        return {job["job_id"] for job in ask(key, "GET", "/jobs", params=filters).json()["jobs"]}

    assert mine in listed(SALES)
    assert theirs not in listed(SALES)
    assert listed(SALES, tenant="finance") == set()
    assert listed(SALES, created_by="bob") == set()
    assert {mine, theirs} <= listed(ADMIN)
    assert listed(ADMIN, tenant="finance") >= {theirs}
    assert mine not in listed(ADMIN, tenant="finance")


@pytest.mark.parametrize(
    ("path", "body"),
    [("/compact", {"table": "{}"}), ("/plan", {"table": "{}"}), ("/tables/lake/{namespace}/{name}/health", None)],
)
def test_existence_of_other_tenants_tables_is_not_revealed(ask: Ask, path: str, body: Any) -> None:
    def asked(table: str) -> httpx.Response:
        namespace, name = table.split(".")
        json = {key: value.format(table) for key, value in body.items()} if body else None
        url = path.format(namespace=namespace, name=name)
        return ask(SALES, "POST" if body else "GET", url, **({"json": json} if json else {}))

    there, nowhere = asked("finance.bills"), asked("finance.nothing")
    assert there.status_code == 403
    assert same_answer(there, nowhere, "finance.bills", "finance.nothing")
    assert asked("tmp.scratch").status_code == 403


def test_name_without_namespace_means_an_own_table(ask: Ask) -> None:
    jobs = [ask(SALES, "GET", f"/jobs/{submitted(ask, SALES, 'shared')}").json() for _ in range(1)]
    assert jobs[0]["table"].endswith("shared")
    assert "finance" not in str(jobs)
    theirs, none = (ask(SALES, "POST", "/compact", json={"table": table}) for table in ("bills", "nothing"))
    assert theirs.status_code == 404
    assert same_answer(theirs, none, "bills", "nothing")
    assert "finance" not in theirs.text


def test_catalogs_of_other_tenants_are_not_revealed(ask: Ask) -> None:
    filters: dict[str, dict[str, str]] = {"/tables": {}, "/jobs": {"table": "a.b"}}
    for path, more in filters.items():
        theirs, none = (ask(SALES, "GET", path, params={"catalog": name, **more}) for name in ("books", "nothere"))
        assert theirs.status_code == 404
        assert same_answer(theirs, none, "books", "nothere")
    assert ask(FINANCE, "GET", "/tables", params={"catalog": "books"}).status_code == 200


def test_tables_are_listed_only_for_their_owners(ask: Ask) -> None:
    def listed(key: str) -> set[str]:
        return {f"{one['namespace']}.{one['table']}" for one in ask(key, "GET", "/tables").json()["tables"]}

    assert listed(SALES) == {"sales.orders", "sales.shared"}
    assert listed(FINANCE) == {"finance.bills", "finance.shared"}
    assert listed(ADMIN) == {"sales.orders", "sales.shared", "finance.bills", "finance.shared", "tmp.scratch"}


def test_only_admins_work_for_another_tenant(ask: Ask) -> None:
    for tenant in ("finance", "nothere", "default", "sales2"):
        answer = ask(SALES, "POST", "/compact", json={"table": "sales.orders", "tenant": tenant})
        assert answer.status_code == 403, tenant
    answer = ask(ADMIN, "POST", "/compact", json={"table": "sales.orders", "tenant": "nothere"})
    assert (answer.status_code, "no tenant" in answer.text) == (422, True)
    job = ask(ADMIN, "POST", "/compact", json={"table": "sales.orders", "tenant": "sales"}).json()["job_id"]
    assert ask(SALES, "GET", f"/jobs/{job}").status_code == 200


def test_plans_of_other_tenants_cannot_be_applied(ask: Ask) -> None:
    plan_hash = ask(SALES, "POST", "/plan", json={"table": "sales.orders"}).json()["plan_hash"]
    never = "0" * len(plan_hash)
    theirs, none = (ask(FINANCE, "POST", f"/plans/{one}/apply") for one in (plan_hash, never))
    assert theirs.status_code == 404
    assert same_answer(theirs, none, plan_hash, never)
    assert ask(SALES, "POST", f"/plans/{plan_hash}/apply").status_code == 202


def test_schedules_of_other_tenants_look_unknown_and_stay(ask: Ask) -> None:
    assert ask(SALES, "PUT", "/schedules/nightly", json=SCHEDULE).status_code == 200
    for method, body in (("GET", None), ("DELETE", None)):
        theirs = ask(FINANCE, method, "/schedules/nightly", json=body)
        none = ask(FINANCE, method, "/schedules/nothing")
        assert theirs.status_code == 404
        assert same_answer(theirs, none, "nightly", "nothing")
    assert ask(FINANCE, "PUT", "/schedules/nightly", json=SCHEDULE).status_code == 403
    assert ask(FINANCE, "POST", "/schedules", json={**SCHEDULE, "schedule_id": "nightly"}).status_code == 403
    assert ask(FINANCE, "POST", "/schedules", json={**SCHEDULE, "tenant": "sales"}).status_code == 403
    assert ask(FINANCE, "GET", "/schedules").json()["schedules"] == []
    assert ask(ADMIN, "POST", "/schedules", json={**SCHEDULE, "tenant": "nothere"}).status_code == 422
    assert ask(SALES, "GET", "/schedules/nightly").json()["tenant"] == "sales"


def test_admin_schedule_belongs_to_the_owner_of_the_table(ask: Ask) -> None:
    saved = ask(ADMIN, "PUT", "/schedules/of-admin", json={"cron": "0 2 * * *", "table": "finance.bills"}).json()
    assert saved["tenant"] == "finance"
    assert ask(FINANCE, "DELETE", "/schedules/of-admin").status_code == 204
    saved = ask(ADMIN, "PUT", "/schedules/of-admin", json={"cron": "0 2 * * *", "table": "finance.*"}).json()
    assert saved["tenant"] == "finance", "the default tenant's schedule would find no table there"
    saved = ask(ADMIN, "PUT", "/schedules/of-admin", json={"cron": "0 2 * * *", "table": "*.bills"}).json()
    assert saved["tenant"] == "default"
    assert ask(ADMIN, "DELETE", "/schedules/of-admin").status_code == 204


@pytest.mark.parametrize("of", [{"table": "finance.bills"}, {"table": "finance.*"}, {"catalog": "books", "table": "*"}])
def test_schedule_for_a_foreign_table_is_refused_at_creation(ask: Ask, of: dict[str, str]) -> None:
    refused = ask(SALES, "POST", "/schedules", json={"cron": "0 2 * * *", **of})
    assert refused.status_code == 403
    never = {key: value.replace("bills", "never").replace("books", "never") for key, value in of.items()}
    again = ask(SALES, "POST", "/schedules", json={"cron": "0 2 * * *", **never})
    assert same_answer(refused, again, "bills", "books", "never")
    for_others = {"cron": "0 2 * * *", "table": "finance.bills", "tenant": "sales"}
    assert ask(ADMIN, "POST", "/schedules", json=for_others).status_code == 403
    own = ask(SALES, "PUT", "/schedules/own", json={"cron": "0 2 * * *", "table": "*.orders"})
    assert own.status_code == 200, "a pattern over namespaces takes those of one's own"
    assert ask(SALES, "DELETE", "/schedules/own").status_code == 204


def test_namespaces_of_other_tenants_look_unknown(ask: Ask) -> None:
    theirs, none = (ask(SALES, "GET", "/tables", params={"namespace": name}) for name in ("finance", "nothere"))
    assert theirs.status_code == 404
    assert same_answer(theirs, none, "finance", "nothere")
    assert ask(SALES, "GET", "/tables", params={"namespace": "sales"}).json()["total"] == 2


def test_hints_do_not_name_namespaces_of_other_tenants(ask: Ask) -> None:
    """A namespace of a tenant may not exist yet, and similar names may belong to others."""
    answers = [
        ask(AUDIT, "GET", "/tables", params={"namespace": "audit"}),
        ask(AUDIT, "GET", "/tables/lake/audit/x/health"),
        ask(AUDIT, "POST", "/plan", json={"table": "audit.x"}),
        ask(AUDIT, "POST", "/compact", json={"table": "audit.x"}),
        ask(AUDIT, "POST", "/compact", json={"table": "audit.x", "options": {"where": "id = 1"}}),
    ]
    for answer in answers:
        assert answer.status_code == 404, answer.text
        assert not any(name in answer.text for name in ("finance", "sales", "tmp")), answer.text
    assert "sales" in ask(ADMIN, "GET", "/tables", params={"namespace": "audit"}).text, "who sees all gets the hint"


def test_each_tenant_has_its_own_quota(ask: Ask) -> None:
    answers = [ask(FINANCE, "POST", "/compact", json={"table": "finance.bills"}) for _ in range(6)]
    refused = answers[-1]
    assert (refused.status_code, refused.json()["code"]) == (429, "quota-exceeded")
    assert int(refused.headers["Retry-After"]) > 0
    submitted(ask, SALES, "sales.orders")


def test_unknown_callers_see_only_the_readiness_status(client: httpx.Client) -> None:
    assert client.get("/health/ready").json() == {"status": "ok", "checks": {}}
    assert client.get("/health/ready", headers=bearer(SALES)).json()["checks"] == {}
    assert client.get("/health/ready", headers=bearer("tdb_wrong")).json()["checks"] == {}
    assert "catalog books" in client.get("/health/ready", headers=bearer(WATCHER)).json()["checks"]


def test_tenants_pause_and_see_only_their_own_tables(ask: Ask) -> None:
    body = {"table": "sales.orders", "reason": "a migration of ours"}
    assert ask(FINANCE, "POST", "/pauses", json=body).status_code == 403
    assert ask(WATCHER, "POST", "/pauses", json=body).status_code == 403
    made = ask(SALES, "POST", "/pauses", json=body)
    assert made.status_code == 200
    assert (made.json()["paused_by"], made.json()["tenant"], made.json()["until"]) == ("ann", "sales", None)
    assert ask(FINANCE, "GET", "/pauses").json() == {"pauses": []}
    for key in (SALES, ADMIN, WATCHER):
        assert [one["table"] for one in ask(key, "GET", "/pauses").json()["pauses"]] == ["orders"]
    for key in (SALES, ADMIN):
        answer = ask(key, "POST", "/compact", json={"table": "sales.orders"})
        assert (answer.status_code, answer.json()["code"]) == (409, "table-paused")
    where = {"table": "sales.orders"}
    assert ask(FINANCE, "DELETE", "/pauses", params=where).status_code == 403
    assert ask(SALES, "DELETE", "/pauses", params=where).status_code == 204
    assert ask(SALES, "DELETE", "/pauses", params=where).json()["code"] == "not-paused"
    submitted(ask, SALES, "sales.orders")
