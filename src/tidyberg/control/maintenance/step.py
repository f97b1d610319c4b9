"""The interface of a step of maintenance, and of the operations that steps use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tidyberg.errors import TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.maintenance import MaintenanceRequest, StepName, StepPlan
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.options import PlanOptions, Prices, VerifyMode
from tidyberg.model.orphans import OrphanOptions, OrphanPlan, OrphanResult
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink
from tidyberg.model.sizes import GB
from tidyberg.model.table import TableRef


class StepOperations(Protocol):
    """The operations that steps are made of. `Control` has them."""

    @property
    def prices(self) -> Prices: ...

    def plan(self, ref: TableRef, options: PlanOptions) -> Plan: ...

    def compact(
        self,
        ref: TableRef,
        options: PlanOptions,
        *,
        verify: VerifyMode = ...,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> CompactionResult: ...

    def apply(
        self,
        plan: Plan,
        *,
        verify: VerifyMode = ...,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> CompactionResult: ...

    def expire(
        self,
        ref: TableRef,
        options: ExpireOptions,
        *,
        dry_run: bool = ...,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> ExpiryResult: ...

    def plan_manifests(
        self, ref: TableRef, options: ManifestOptions, *, cancel: CancelToken | None = ...
    ) -> ManifestPlan: ...

    def rewrite_manifests(
        self,
        ref: TableRef,
        options: ManifestOptions,
        *,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> ManifestRewriteResult: ...

    def plan_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> OrphanPlan: ...

    def remove_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = ...,
        cancel: CancelToken | None = ...,
    ) -> OrphanResult: ...


@dataclass(frozen=True)
class StepContext:
    """One table, and the operations on it."""

    request: MaintenanceRequest
    operations: StepOperations
    emit: EventSink
    cancel: CancelToken
    earlier: tuple[StepPlan, ...] = ()  # of a document: steps that will change the table before this one runs

    def storage_dollars(self, size: int) -> float:
        """Returns the price of storing so many bytes for a month."""
        return size / GB * self.operations.prices.storage_per_gb_month


@dataclass(frozen=True)
class StepDone:
    """The result of a step. `failure` came after it had committed something."""

    reason: str
    changed: bool
    numbers: Mapping[str, int]
    job_id: str | None = None
    failure: TidybergError | None = None


class MaintenanceStep(Protocol):
    @property
    def name(self) -> StepName: ...

    @property
    def needs(self) -> frozenset[StepName]:
        """The step does not run if one of these has failed, because it would have to be done again."""
        ...

    @property
    def outdated_by(self) -> frozenset[StepName]:
        """If one of these has changed the table, a plan that was made before is out of date."""
        ...

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        """Returns the key of the policy that switches the step off, or None."""
        ...

    def plan(self, context: StepContext) -> StepPlan:
        """Says what `run` would do to the table as it is. Changes nothing."""
        ...

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:
        """Looks at the table again, and does what is needed now. With `as_planned`, it does only what the plan says."""
        ...
