"""Who asks: a name, what they may do, and for which tenant."""

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TENANT = "default"  # whose everything is where nobody tells tenants apart
ALL_TENANTS = "*"  # of those who look or operate for everyone without being admins, such as a collector of metrics


class Role(StrEnum):
    """Each may do what the ones before it may."""

    VIEWER = "viewer"  # looks
    OPERATOR = "operator"  # submits, cancels, schedules
    ADMIN = "admin"  # all of that for every tenant, and reads the audit log

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    name: str
    role: Role
    tenant: str = DEFAULT_TENANT

    @property
    def tenants(self) -> frozenset[str] | None:
        """Whose jobs this one sees; None: all."""
        everyone = self.role is Role.ADMIN or self.tenant == ALL_TENANTS
        return None if everyone else frozenset((self.tenant,))


# Without authentication everyone who reaches the loopback interface is the owner of the machine.
LOCAL = Principal("local", Role.ADMIN)
