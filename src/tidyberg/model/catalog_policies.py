"""The policies that a catalog stores for a table, what they mean for `maintain`, and how they differ from our own."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidyberg.model.maintenance_policy import PolicyLayer, PolicyScalar
from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class ApplicablePolicy:
    """A policy that applies to a table, as the policy API of Apache Polaris returns it."""

    policy_type: str  # such as system.snapshot-expiry
    name: str
    namespace: tuple[str, ...]  # where the policy is stored, which need not be where it is attached
    version: int  # grows with each change of the policy
    inherited: bool  # attached to a namespace above the table or to the catalog, and not to the table itself
    content: str | None

    @property
    def full_name(self) -> str:
        return ".".join((*self.namespace, self.name))

    @property
    def origin(self) -> str:
        """Names the policy where a value of it is shown."""
        return f"catalog policy {self.full_name} version {self.version}{', inherited' if self.inherited else ''}"


@dataclass(frozen=True, slots=True)
class PolicyNote:
    """Something that a policy of a catalog says and tidyberg does not do."""

    policy: ApplicablePolicy
    reason: str
    is_error: bool = False  # the policy cannot be understood, so nobody knows what it wants

    def __str__(self) -> str:
        return f"{self.policy.origin} ({self.policy.policy_type}): {self.reason}"


@dataclass(frozen=True, slots=True)
class CatalogPolicyLayers:
    """The policies of a catalog, translated to the keys of our policy.

    A layer of `switched_on` is weaker than the settings, because a step that they switch off must not run. A layer of
    `required` is stronger than the settings.
    """

    switched_on: tuple[PolicyLayer, ...] = ()
    required: tuple[PolicyLayer, ...] = ()
    notes: tuple[PolicyNote, ...] = ()

    def given(self) -> Mapping[str, tuple[PolicyScalar, str]]:
        """Returns every value that the catalog gives and its origin, by key."""
        layers = (*self.switched_on, *self.required)
        return {key: (value, layer.origin) for layer in layers for key, value in layer.given.items()}


@dataclass(frozen=True, slots=True)
class PolicyValue:
    value: PolicyScalar
    origin: str


@dataclass(frozen=True, slots=True)
class PolicyDrift:
    """A key that the catalog gives, beside the value that one place of ours gives."""

    key: str
    catalog: PolicyValue
    own: PolicyValue  # of the settings, the table's properties, a schedule, or the default
    differs: bool


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The policies of the catalog for one table, and every difference from tidyberg's own settings."""

    table: TableRef
    is_obeyed: bool  # maintain.policies_from is catalog
    policies: tuple[ApplicablePolicy, ...]
    values: tuple[PolicyDrift, ...]
    used: Mapping[str, PolicyValue]  # what `maintain` goes by, for the keys of `values`
    notes: tuple[PolicyNote, ...]

    @property
    def drift(self) -> tuple[PolicyDrift, ...]:
        return tuple(value for value in self.values if value.differs)
