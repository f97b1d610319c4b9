"""The principal behind a request: its name, its role and its tenant."""

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TENANT = "default"  # the owner of everything if no tenants are configured
ALL_TENANTS = "*"  # the tenant of principals that act for all tenants but are not admins, such as a metrics collector


class Role(StrEnum):
    """Each role includes the rights of the roles before it."""

    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # submits, cancels, schedules
    ADMIN = "admin"  # does the same for every tenant, and reads the audit log

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    name: str
    role: Role
    tenant: str = DEFAULT_TENANT
    approved: frozenset[str] = frozenset()  # kinds of jobs that it may submit, whatever its role

    @property
    def tenants(self) -> frozenset[str] | None:
        """The tenants whose jobs this principal may see. None means all."""
        everyone = self.role is Role.ADMIN or self.tenant == ALL_TENANTS
        return None if everyone else frozenset((self.tenant,))


# Without authentication, everyone who can reach the loopback interface counts as the owner of the machine.
LOCAL = Principal("local", Role.ADMIN)
