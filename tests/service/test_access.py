"""Tenants see and change only their own tables. Quotas hold over all replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidyberg.errors import AccessDenied, BadInput, QuotaExceeded
from tidyberg.model.principal import ALL_TENANTS, LOCAL, Principal, Role
from tidyberg.model.submission import DEFAULT_TENANT, Limits, Schedule, Submission
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue
from tidyberg.record.records import Records, open_sqlite
from tidyberg.service.access import Access
from tidyberg.service.timetable import acting_for
from tidyberg.settings.access import Tenant

SALES = Tenant(catalogs=("prod",), namespaces=("sales", "sales.*"))
FINANCE = Tenant(catalogs=("prod", "books"), namespaces=("finance",))
ACCESS = Access({"sales": SALES, "finance": FINANCE})
OF_SALES = TableRef("prod", ("sales",), "orders")
OF_FINANCE = TableRef("prod", ("finance",), "bills")
OF_NOBODY = TableRef("prod", ("tmp",), "x")

SALESMAN = Principal("ann", Role.OPERATOR, "sales")
ADMIN = Principal("root", Role.ADMIN)
COLLECTOR = Principal("prometheus", Role.VIEWER, ALL_TENANTS)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("needed", list(Role))
def test_each_role_includes_the_lower_roles(role: Role, needed: Role) -> None:
    who = Principal("x", role)
    if list(Role).index(role) >= list(Role).index(needed):
        Access().require(who, needed)
    else:
        with pytest.raises(AccessDenied, match=needed.value):
            Access().require(who, needed)


def test_without_tenants_everything_belongs_to_the_default_tenant() -> None:
    access = Access()
    assert access.tenant_for(LOCAL, OF_SALES, None) == DEFAULT_TENANT
    assert access.tenant_for(Principal("x", Role.VIEWER), OF_SALES, DEFAULT_TENANT) == DEFAULT_TENANT
    assert access.may_see(Principal("x", Role.VIEWER), OF_SALES)
    with pytest.raises(BadInput, match="no tenant 'sales'"):
        access.tenant_for(LOCAL, OF_SALES, "sales")


def test_tenant_works_only_on_its_own_tables() -> None:
    assert ACCESS.tenant_for(SALESMAN, OF_SALES, None) == "sales"
    assert ACCESS.tenant_for(SALESMAN, OF_SALES, "sales") == "sales"
    for other in (OF_FINANCE, OF_NOBODY, TableRef("lab", ("sales",), "orders")):
        assert not ACCESS.may_see(SALESMAN, other)
        with pytest.raises(AccessDenied, match="does not belong"):
            ACCESS.tenant_for(SALESMAN, other, None)


def test_refusal_does_not_reveal_whether_a_tenant_exists() -> None:
    reported = []
    for asked in ("finance", "nowhere", DEFAULT_TENANT, ALL_TENANTS, ""):
        with pytest.raises(AccessDenied) as caught:
            ACCESS.tenant_for(SALESMAN, OF_SALES, asked)
        reported.append(str(caught.value).replace(repr(asked), "X"))
    assert len(set(reported)) == 1


def test_caller_of_an_unknown_tenant_sees_nothing() -> None:
    for tenant in ("gone", ""):
        who = Principal("x", Role.OPERATOR, tenant)
        assert not any(ACCESS.may_see(who, table) for table in (OF_SALES, OF_FINANCE, OF_NOBODY))
        assert not ACCESS.may_see_catalog(who, "prod")
        with pytest.raises(AccessDenied):
            ACCESS.tenant_for(who, OF_NOBODY, None)


def test_default_tenant_owns_exactly_the_tables_without_an_owner() -> None:
    who = Principal("x", Role.OPERATOR, DEFAULT_TENANT)
    assert ACCESS.tenant_for(who, OF_NOBODY, None) == DEFAULT_TENANT
    assert [ACCESS.may_see(who, table) for table in (OF_SALES, OF_FINANCE, OF_NOBODY)] == [False, False, True]
    with pytest.raises(AccessDenied):
        ACCESS.tenant_for(who, OF_SALES, None)
    access = Access({"a": Tenant(catalogs=("whole",)), "b": Tenant(catalogs=("shared",), namespaces=("b",))})
    assert [access.may_see_catalog(who, name) for name in ("whole", "shared", "other")] == [False, True, True]


def test_admin_works_for_the_owner_of_the_table() -> None:
    assert ACCESS.tenant_for(ADMIN, OF_SALES, None) == "sales"
    assert ACCESS.tenant_for(ADMIN, OF_FINANCE, None) == "finance"
    assert ACCESS.tenant_for(ADMIN, OF_NOBODY, None) == DEFAULT_TENANT
    with pytest.raises(AccessDenied, match="does not belong to tenant 'finance'"):
        ACCESS.tenant_for(ADMIN, OF_SALES, "finance")
    with pytest.raises(BadInput, match="Known: sales, finance"):
        ACCESS.tenant_for(ADMIN, OF_SALES, "nowhere")


def test_catalogs_of_other_tenants_are_hidden() -> None:
    assert ACCESS.may_see_catalog(SALESMAN, "prod")
    assert not ACCESS.may_see_catalog(SALESMAN, "books")
    assert ACCESS.may_see_catalog(ADMIN, "books")
    assert Access({"a": Tenant(namespaces=("a",))}).may_see_catalog(Principal("x", Role.VIEWER, "a"), "any")


def test_data_of_all_tenants_needs_access_to_all_tenants() -> None:
    for who in (ADMIN, COLLECTOR):
        ACCESS.require_everyone(who)
    with pytest.raises(AccessDenied):
        ACCESS.require_everyone(SALESMAN)
    Access().require_everyone(Principal("x", Role.VIEWER))


def test_access_to_all_tenants_is_not_the_admin_role() -> None:
    assert ACCESS.may_see(COLLECTOR, OF_SALES)
    for needed in (Role.OPERATOR, Role.ADMIN):
        with pytest.raises(AccessDenied):
            ACCESS.require(COLLECTOR, needed)


def test_queue_gets_the_limits_of_tenants() -> None:
    access = Access({"a": Tenant(namespaces=("a",), max_running=1), "b": Tenant(namespaces=("b",))})
    limits = access.limits(Limits(running=4, running_per_tenant=3))
    assert (limits.for_tenant("a"), limits.for_tenant("b"), limits.for_tenant("other")) == (1, 3, 3)


@pytest.mark.parametrize("tenant", ["sales", DEFAULT_TENANT])
def test_schedule_of_a_tenant_never_reaches_foreign_tables(tenant: str) -> None:
    """This includes a tenant named default: its schedules must not get the rights of the settings."""
    access = Access({tenant: SALES, "finance": FINANCE})
    who = acting_for(Schedule("x", "* * * * *", "prod", "*", tenant=tenant, source="api"))
    assert [access.may_see(who, table) for table in (OF_SALES, OF_FINANCE)] == [True, False]
    with pytest.raises(AccessDenied):
        access.tenant_for(who, OF_FINANCE, None)
    with pytest.raises(AccessDenied):
        access.require(who, Role.ADMIN)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    records = open_sqlite(tmp_path / "jobs.db", lambda _: None)
    yield records
    records.close()


def take_in(access: Access, queue: JobQueue, number: int, now_ms: int, tenant: str = "sales") -> None:
    access.admit(tenant, queue, now_ms)
    queue.submit(Submission(f"job-{number}", OF_SALES, "auto", {}, now_ms, "ann", tenant=tenant))


def test_queued_jobs_of_a_tenant_are_limited_over_all_replicas(records: Records) -> None:
    tenants = {"sales": SALES.model_copy(update={"max_queued": 3}), "finance": FINANCE}
    replicas = [Access(tenants), Access(tenants)]
    for number in range(3):
        take_in(replicas[number % 2], records.queue, number, 5_000 * number)
    for replica in replicas:
        with pytest.raises(QuotaExceeded, match="3 jobs waiting"):
            take_in(replica, records.queue, 9, 20_000)
    take_in(replicas[0], records.queue, 10, 20_000, tenant="finance")
    records.queue.cancel("job-1", now_ms=20_000)
    take_in(replicas[1], records.queue, 11, 20_200)


def test_submissions_of_a_tenant_are_limited_per_minute(records: Records) -> None:
    access = Access({"sales": SALES.model_copy(update={"submissions_per_minute": 4})})
    for number in range(4):
        take_in(access, records.queue, number, 100_000 + 10 * number)
    for now_ms in (100_050, 101_500, 159_800):
        with pytest.raises(QuotaExceeded, match="4 jobs within a minute"):
            take_in(access, records.queue, 9, now_ms)
    take_in(access, records.queue, 10, 160_001)
    with pytest.raises(QuotaExceeded):
        take_in(access, records.queue, 11, 160_002)
    take_in(access, records.queue, 12, 160_130)


def test_refusals_do_not_count_as_submissions(records: Records) -> None:
    access = Access({"sales": SALES.model_copy(update={"max_queued": 1})})
    take_in(access, records.queue, 0, 1_000)
    for _ in range(20):
        with pytest.raises(QuotaExceeded):
            access.admit("sales", records.queue, 1_100)
    records.queue.cancel("job-0", now_ms=1_200)
    take_in(access, records.queue, 1, 1_300)
