"""Authorization: who may do what to which table, and for which tenant.

A table of another tenant is refused before the catalog is called, so that no answer reveals whether it exists.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidyberg.errors import AccessDenied, BadInput
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import DEFAULT_TENANT, Limits
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue
from tidyberg.service.kinds import kind_of
from tidyberg.service.quotas import Quotas
from tidyberg.settings.access import Tenant


@dataclass
class Access:
    """Without tenants, everything belongs to the default tenant and nothing is limited."""

    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    job_roles: Mapping[str, Role] = field(default_factory=dict)  # kind of job -> the least role that may submit it
    maker: Callable[[TableRef], str | None] = lambda _: None  # the tenant that made a table by table operations

    def __post_init__(self) -> None:
        self._quotas = Quotas(self.tenants)

    def require(self, who: Principal, role: Role) -> None:
        """Raises AccessDenied unless the role of the caller includes `role`."""
        if not who.role.includes(role):
            raise AccessDenied(f"{who.name} is {_a(who.role)}; this needs {_a(role)}.")

    def require_kinds(self, who: Principal, rights: Iterable[str]) -> None:
        """Raises AccessDenied unless the caller may submit these kinds of jobs."""
        self.require(who, Role.OPERATOR)
        for name in sorted(rights):
            least = self.job_roles.get(name, kind_of(name).least_role)
            if name not in who.approved and not who.role.includes(least):
                raise AccessDenied(
                    f"{who.name} is {_a(who.role)}; jobs of kind {name} need {_a(least)}.",
                    hint=f"The setting access.job_roles.{name} says who may submit them.",
                )

    def require_everyone(self, who: Principal) -> None:
        """Raises AccessDenied unless the caller may see all tenants."""
        if self.tenants and who.tenants is not None:
            raise AccessDenied(f"{who.name} may see only tenant {who.tenant!r}; this covers all tenants.")

    def check_tenant(self, tenant: str) -> None:
        if tenant != DEFAULT_TENANT and tenant not in self.tenants:
            known = (
                f"Known: {', '.join(self.tenants)}." if self.tenants else "No tenants are configured: omit the tenant."
            )
            raise BadInput(f"There is no tenant {tenant[:100]!r}.", hint=known)

    def tenant_for(self, who: Principal, table: TableRef, asked: str | None) -> str:
        """Returns the tenant for which the caller works on a table. Raises AccessDenied if the table is not theirs."""
        if who.tenants is None:
            tenant = asked if asked is not None else self._owner(table)
            self.check_tenant(tenant)
        else:
            tenant = who.tenant
            if asked not in (None, tenant):  # the same answer whether or not the tenant exists
                raise AccessDenied(f"{who.name} may not work for tenant {str(asked)[:100]!r}.")
        if not self._owns(tenant, table):
            raise AccessDenied(f"{table} in catalog {table.catalog!r} does not belong to tenant {tenant!r}.")
        return tenant

    def may_see(self, who: Principal, table: TableRef) -> bool:
        return who.tenants is None or any(self._owns(tenant, table) for tenant in who.tenants)

    def may_see_namespace(self, who: Principal, catalog: str, namespace: str) -> bool:
        return self.may_see(who, TableRef(catalog, tuple(namespace.split(".")), ""))

    def may_see_catalog(self, who: Principal, catalog: str) -> bool:
        """Returns True if the caller may know that the catalog exists."""
        return who.tenants is None or any(self._has_part_of(tenant, catalog) for tenant in who.tenants)

    def admit(self, tenant: str, queue: JobQueue, now_ms: int) -> None:
        """Raises QuotaExceeded if the tenant may not queue another job now."""
        self._quotas.admit(tenant, queue, now_ms)

    def limits(self, limits: Limits) -> Limits:
        """Returns how many jobs may run at once, including the limits of each tenant."""
        own = {name: tenant.max_running for name, tenant in self.tenants.items() if tenant.max_running is not None}
        return replace(limits, of_tenant={**limits.of_tenant, **own})

    def _owner(self, table: TableRef) -> str:
        """Returns the first tenant that owns the table, or the default tenant."""
        if (maker := self.maker(table)) in self.tenants:
            return str(maker)
        return next((name for name, tenant in self.tenants.items() if tenant.owns(table)), DEFAULT_TENANT)

    def _owns(self, tenant: str, table: TableRef) -> bool:
        """A table that a tenant made is its own, whatever patterns other tenants have."""
        if self.tenants and (maker := self.maker(table)) is not None:
            return tenant == maker
        if tenant in self.tenants:
            return self.tenants[tenant].owns(table)
        return tenant == DEFAULT_TENANT and self._owner(table) == DEFAULT_TENANT

    def _has_part_of(self, tenant: str, catalog: str) -> bool:
        if tenant in self.tenants:
            own = self.tenants[tenant].catalogs
            return not own or catalog in own
        others = (other for other in self.tenants.values() if not other.namespaces)
        return tenant == DEFAULT_TENANT and not any(catalog in other.catalogs for other in others)


def _a(role: Role) -> str:
    return f"{'a' if role is Role.VIEWER else 'an'} {role.value}"
