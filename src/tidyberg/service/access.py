"""Who may do what to which table, for which tenant, and how much: the rules the service asks."""

from collections.abc import Callable, Mapping
from typing import Protocol

from tidyberg.errors import AccessDenied, BadInput
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import DEFAULT_TENANT, Limits
from tidyberg.model.table import TableRef

Counts = Mapping[tuple[str, JobStatus], int]  # by tenant and status, as the queue tells them


class Access(Protocol):
    def require(self, who: Principal, role: Role) -> None:
        """Raises AccessDenied unless this one's role includes it."""
        ...

    def tenant_for(self, who: Principal, table: TableRef, asked: str | None) -> str:
        """For which tenant this one works on a table; AccessDenied when it is not theirs to touch."""
        ...

    def may_see(self, who: Principal, table: TableRef) -> bool: ...

    def admit(self, tenant: str, counts: Callable[[], Counts]) -> None:
        """Raises QuotaExceeded when the tenant may not queue another job now. Counting costs: only where it must."""
        ...

    def limits(self, limits: Limits) -> Limits:
        """How much may run at once, with what tenants have of their own."""
        ...


class OpenAccess:
    """Everything belongs to one tenant, and nothing is limited."""

    def require(self, who: Principal, role: Role) -> None:
        if not who.role.includes(role):
            raise AccessDenied(f"{who.name} is a {who.role.value}; this needs a {role.value}.")

    def tenant_for(self, who: Principal, table: TableRef, asked: str | None) -> str:
        if asked not in (None, DEFAULT_TENANT):
            raise BadInput(f"There is no tenant {asked!r}.", hint="Leave it out: no tenants are configured.")
        if not self.may_see(who, table):
            raise AccessDenied(f"{table} does not belong to {who.name}'s tenant.")
        return DEFAULT_TENANT

    def may_see(self, who: Principal, table: TableRef) -> bool:  # noqa: ARG002  # all tables are the same to it
        return who.tenants is None or DEFAULT_TENANT in who.tenants

    def admit(self, tenant: str, counts: Callable[[], Counts]) -> None:  # noqa: ARG002
        return None

    def limits(self, limits: Limits) -> Limits:
        return limits
