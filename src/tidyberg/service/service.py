"""The service that the API and the scheduler call: it checks requests and callers, and queues jobs."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidyberg.catalog.open import unknown_namespace
from tidyberg.control.control import Control
from tidyberg.errors import BadInput, UnknownJob, UnknownPlan
from tidyberg.model.accuracy import CalibrationReport
from tidyberg.model.expiry import EXPIRE, ExpiryResult
from tidyberg.model.maintenance import MAINTAIN, MaintenancePlan
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan
from tidyberg.model.principal import Principal, Role
from tidyberg.model.report import HealthReport, TableSummary
from tidyberg.model.submission import (
    COMPACT,
    AuditEntry,
    JobEvent,
    KeptPlan,
    Limits,
    Query,
    Schedule,
    Submission,
    SubmissionPage,
)
from tidyberg.model.table import TableRef
from tidyberg.planning.document import options_of, plan_from_json, plan_to_json
from tidyberg.record.clock import wall_clock_ms
from tidyberg.record.records import Records
from tidyberg.service.access import Access
from tidyberg.service.attempt import Attempt
from tidyberg.service.audit_log import AuditLog
from tidyberg.service.background_loop import BackgroundLoop
from tidyberg.service.catalog_lookup import CatalogLookup
from tidyberg.service.estimates import Estimates
from tidyberg.service.event_inbox import EventInbox, EventsTaken
from tidyberg.service.event_parsing import ReceivedEvent
from tidyberg.service.housekeeping import Housekeeping
from tidyberg.service.identifiers import is_id
from tidyberg.service.kinds import KINDS, kind_of
from tidyberg.service.kinds.base import RequestScope
from tidyberg.service.kinds.expire import plan_expiry
from tidyberg.service.kinds.maintain import plan_maintenance
from tidyberg.service.notifications import LOOK_SECONDS as NOTIFIER_SECONDS
from tidyberg.service.notifications import Notifier
from tidyberg.service.pauses import Pauses
from tidyberg.service.readiness import ReadinessCheck
from tidyberg.service.report_parsing import ScanReport
from tidyberg.service.request_checks import checked_priority, options_as_asked
from tidyberg.service.requests import JobView, ReadinessReport, ScheduleTimes, SubmitRequest
from tidyberg.service.scan_report_inbox import ScanReportInbox
from tidyberg.service.schedules import Schedules
from tidyberg.service.table_resolver import TableResolver, without_namespace_hints
from tidyberg.service.workers import Workers
from tidyberg.settings.job_options import check_kind
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.metrics import Metrics

MOST_ON_A_PAGE = 1000
UNLIMITED = 1_000_000
ESTIMATE_SECONDS = 1.0
LOOP_GRACE_SECONDS = 5.0


@dataclass
class Service:
    settings: Settings
    control: Control
    records: Records
    access: Access = field(default_factory=Access)
    metrics: Metrics = field(default_factory=Metrics)
    check_engine: Callable[[], None] = lambda: None  # raises if the engine cannot run jobs
    now_ms: Callable[[], int] = wall_clock_ms

    def __post_init__(self) -> None:
        self.lookup = CatalogLookup(self.control.catalog)
        self._resolver = TableResolver(self.settings, self.access, self.lookup)
        self._readiness = ReadinessCheck(
            self.records,
            self.lookup,
            sorted(self._resolver.catalogs),
            lambda: self.check_engine(),
            needs_catalog=self.settings.server.ready_needs_catalog,
        )
        self.metrics.watch(self.records.queue, self._readiness.check_store, self._paused)
        self._audit = AuditLog(self.records.ledger, self.now_ms)
        self._estimates = Estimates(self.settings, self.control, self.records.queue)
        self._workers = Workers(
            self.records.queue,
            self.settings.queue,
            self._limits,
            self._attempt,
            self.now_ms,
        )
        every_seconds = self.settings.queue.upkeep_seconds
        self._upkeep = upkeep = Housekeeping(self.control, self.records, self.settings.retention, self.now_ms)
        self.loops = [  # callers may add loops before `start`
            BackgroundLoop("retention", upkeep.forget_old, every_seconds),
            BackgroundLoop("recovery", upkeep.recover_dead_runs, every_seconds),
        ]
        if self.settings.queue.estimate:
            self.loops.append(BackgroundLoop("estimates", self._estimates.find_out_wanted, ESTIMATE_SECONDS))
        notifications = self.settings.notifications
        self.notifier = Notifier(notifications, self.records, self.now_ms, self.metrics.notified, self.control.scrub)
        if notifications.webhooks:
            self.loops.append(BackgroundLoop("notifications", self.notifier.look_for_waiting, NOTIFIER_SECONDS))
        self.pauses = Pauses(self.records.ledger, self._audit, self.access, self.now_ms)
        self._event_inbox = EventInbox(self.records.ledger, self._audit, self.access, self.settings, self.now_ms)
        self._scan_reports = ScanReportInbox(self.records.ledger, self._audit, self.access, self.lookup, self.now_ms)
        self._schedules = Schedules(self.records.ledger, self._audit, self.access, self.settings, self.now_ms)

    def start(self) -> None:
        """Starts the workers and background loops. Without it, jobs are accepted and wait."""
        self._workers.start()
        for loop in self.loops:
            loop.start()

    def claim_no_more(self) -> None:
        """Starts no more jobs, because the service will stop. Running jobs continue; others stay for other replicas."""
        for loop in self.loops:
            loop.stop(0.0)
        self._workers.claim_no_more()

    def stop(self) -> None:
        """Waits for running jobs within the grace time, puts back the others and closes the store."""
        for loop in self.loops:
            loop.stop(0.0)
        self._upkeep.cancel.cancel()
        ended = self._workers.stop()
        for loop in self.loops:
            loop.stop(LOOP_GRACE_SECONDS)
        self.notifier.stop()
        if ended:  # otherwise a run still uses the engine and the store
            self.control.close()  # also closes the store, whose connection the queue and the ledger share
            self.control.tracer.close()

    def submit(self, request: SubmitRequest, who: Principal, key: str | None = None) -> Submission:
        details = {} if request.kind == COMPACT else {"kind": request.kind[:100]}
        with self._audit.acting(who, "job.submit", request.table, details) as act:
            self.access.require(who, Role.OPERATOR)
            kind = KINDS[check_kind(request.kind)]
            self.access.require_kinds(who, kind.rights(request.options))
            ref = self.resolve(request.table, request.catalog, request.namespace, who=who)
            act.target = f"{ref.catalog}.{ref}"
            act.tenant = tenant = self.access.tenant_for(who, ref, request.tenant)
            self.pauses.refuse_paused(ref)
            with without_namespace_hints(who):
                checked = kind.check(request, self._scope(ref))
            submission = Submission(
                job_id=str(uuid.uuid4()),
                table=ref,
                kind=kind.name,
                strategy=checked.strategy,
                options=checked.options,
                created_ms=self.now_ms(),
                created_by=who.name,
                tenant=tenant,
                priority=checked_priority(request.priority),
                verify=checked.verify,
            )
            kept = self._queue(submission, key)
            act.details |= {"job_id": kept.job_id, "strategy": kept.strategy}
            return kept

    def apply(self, plan_hash: str, who: Principal, key: str | None = None, priority: int = 0) -> Submission:
        """Queues a job that runs exactly this plan, which the ledger kept."""
        with self._audit.acting(who, "plan.apply", plan_hash) as act:
            self.access.require(who, Role.OPERATOR)
            kept = self.records.ledger.kept_plan(plan_hash) if is_id(plan_hash) else None
            if kept is None or not self.access.may_see(who, kept.table):
                raise UnknownPlan(f"There is no plan {plan_hash[:100]!r}.", hint="Plans are kept only for some days.")
            act.tenant = tenant = self.access.tenant_for(who, kept.table, None)
            self.pauses.refuse_paused(kept.table)
            plan = plan_from_json(kept.document)
            self._check_expiry(plan, who)
            self.records.ledger.keep_plan(replace(kept, created_ms=self.now_ms()))  # keeps it while its job waits
            submission = Submission(
                job_id=str(uuid.uuid4()),
                table=plan.table,
                strategy=str(plan.options.get("strategy", Strategy.AUTO.value)),
                options={},
                created_ms=self.now_ms(),
                created_by=who.name,
                tenant=tenant,
                priority=checked_priority(priority),
                plan_hash=plan.hash,
                estimated_seconds=plan.estimate.seconds,
                estimated_dollars=plan.estimate.dollars,
            )
            queued = self._queue(submission, key)
            act.details |= {"job_id": queued.job_id, "table": f"{plan.table.catalog}.{plan.table}"}
            return queued

    def plan(self, request: SubmitRequest, who: Principal) -> Plan:
        """Returns what a job would do. The ledger keeps the plan, so that it can be applied by its hash."""
        self.access.require(who, Role.VIEWER)
        ref = self.resolve(request.table, request.catalog, request.namespace, who=who)
        tenant = self.access.tenant_for(who, ref, request.tenant)
        with without_namespace_hints(who):
            plan = self.control.plan(ref, self._options(ref, request))
        self.records.ledger.keep_plan(KeptPlan(plan.hash, ref, tenant, self.now_ms(), plan_to_json(plan)))
        return plan

    def plan_expiry(self, request: SubmitRequest, who: Principal) -> ExpiryResult:
        """Returns which snapshots and how many files a job would remove."""
        ref, options = self._checked(request, who)
        with without_namespace_hints(who):
            return plan_expiry(self.control, ref, options)

    def plan_maintenance(self, request: SubmitRequest, who: Principal) -> MaintenancePlan:
        """Returns what each step of a job would do. It lists files and loads other tables, as the job does."""
        self.access.require_kinds(who, (MAINTAIN,))
        ref, options = self._checked(request, who)
        with without_namespace_hints(who):
            return plan_maintenance(self.control, self.settings, ref, options)

    def job(self, job_id: str, who: Principal) -> JobView:
        submission = self._visible(job_id, who)
        return JobView(submission, self.records.store.get(submission.run_id) if submission.run_id else None)

    def jobs(self, query: Query, who: Principal) -> SubmissionPage:
        """Returns jobs of the tenants that the caller may see."""
        self.access.require(who, Role.VIEWER)
        if not 1 <= query.limit <= MOST_ON_A_PAGE:
            raise BadInput(f"limit must be from 1 to {MOST_ON_A_PAGE}, not {query.limit}.")
        if who.tenants is not None:
            query = replace(query, tenants=who.tenants if query.tenants is None else query.tenants & who.tenants)
        return self.records.queue.submissions(query)

    def cancel(self, job_id: str, who: Principal) -> Submission:
        with self._audit.acting(who, "job.cancel", job_id) as act:
            self.access.require(who, Role.OPERATOR)
            act.tenant = self._visible(job_id, who).tenant
            cancelled = self.records.queue.cancel(job_id, now_ms=self.now_ms())
            if cancelled is None:
                raise _unknown_job(job_id)
            return cancelled

    def events(self, job_id: str, who: Principal, after: int = 0) -> list[JobEvent]:
        self._visible(job_id, who)
        return self.records.queue.events(job_id, after=after)

    def tables(self, who: Principal, catalog: str | None = None, namespace: str | None = None) -> list[TableSummary]:
        self.access.require(who, Role.VIEWER)
        catalog = self._resolver.catalog(catalog, who)
        with without_namespace_hints(who):
            found = self.control.tables(catalog, namespace)
        mine = [summary for summary in found if self.access.may_see(who, summary.table)]
        if not mine and namespace is not None and not self.access.may_see_namespace(who, catalog, namespace):
            raise unknown_namespace(catalog, namespace)  # as if the namespace did not exist
        return mine

    def health(self, ref: TableRef, who: Principal) -> HealthReport:
        self.access.require(who, Role.VIEWER)
        self._resolver.catalog(ref.catalog, who)
        self.access.tenant_for(who, ref, None)
        with without_namespace_hints(who):
            return self.control.health(ref, plan_options(self.settings, ref, {}))

    def schedules(self, who: Principal) -> list[Schedule]:
        return self._schedules.all(who)

    def schedule(self, schedule_id: str, who: Principal) -> Schedule:
        return self._schedules.get(schedule_id, who)

    def schedule_times(self, schedule: Schedule) -> ScheduleTimes:
        return self._schedules.times(schedule)

    def save_schedule(self, schedule: Schedule, who: Principal, *, new: bool = False) -> Schedule:
        return self._schedules.save(schedule, who, new=new)

    def delete_schedule(self, schedule_id: str, who: Principal) -> None:
        self._schedules.delete(schedule_id, who)

    def receive(self, events: Sequence[ReceivedEvent], who: Principal) -> EventsTaken:
        """Takes events of commits. Looks at their tables follow later."""
        return self._event_inbox.receive(events, who, lambda event: self._table_of(event, who))

    def report_scan(
        self, read: Callable[[], ScanReport | None], who: Principal, prefix: str, namespace: str, table: str
    ) -> None:
        """Takes a report of a scan, which `read` returns, or None for a report that is ignored."""

        def resolve() -> TableRef:
            return self.resolve(table, self._resolver.catalog_of_event(prefix), namespace, who=who)

        self._scan_reports.receive(read, who, f"{namespace}.{table}", resolve)

    def _table_of(self, event: ReceivedEvent, who: Principal) -> TableRef:
        catalog = self._resolver.catalog_of_event(event.catalog or "")
        return self.resolve(event.table, catalog, None, who=who)

    def audit(self, who: Principal, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]:
        self.access.require(who, Role.ADMIN)
        if not 1 <= limit <= MOST_ON_A_PAGE:
            raise BadInput(f"limit must be from 1 to {MOST_ON_A_PAGE}, not {limit}.")
        return self.records.ledger.audit(tenants=who.tenants, before=before, limit=limit)

    def calibration(self, who: Principal) -> CalibrationReport:
        """Returns the speeds behind estimates, and their accuracy for tables that the caller may see."""
        self.access.require(who, Role.VIEWER)
        return self.control.calibration(lambda table: self.access.may_see(who, table))

    def ready(self) -> ReadinessReport:
        return self._readiness.ready()

    def resolve(
        self, table: str, catalog: str | None = None, namespace: str | None = None, *, who: Principal
    ) -> TableRef:
        """Returns the table that a name means, whether or not it exists."""
        return self._resolver.table(table, catalog, namespace, who)

    def _options(self, ref: TableRef, request: SubmitRequest) -> PlanOptions:
        return plan_options(self.settings, ref, options_as_asked(request))

    def _check_expiry(self, plan: Plan, who: Principal) -> None:
        """Anyone may plan with any options, so the right to expire snapshots is checked when a plan is applied."""
        asked, own = options_of(plan), plan_options(self.settings, plan.table, {})
        same = (asked.expire_snapshots, asked.snapshot_retention_hours) == (
            own.expire_snapshots,
            own.snapshot_retention_hours,
        )
        self.access.require_kinds(who, (COMPACT,) if same or not asked.expire_snapshots else (COMPACT, EXPIRE))

    def _checked(self, request: SubmitRequest, who: Principal) -> tuple[TableRef, Mapping[str, Any]]:
        """Returns the table and the options of a job that is only planned."""
        self.access.require(who, Role.VIEWER)
        ref = self.resolve(request.table, request.catalog, request.namespace, who=who)
        self.access.tenant_for(who, ref, request.tenant)
        return ref, kind_of(request.kind).check(request, self._scope(ref)).options

    def _scope(self, ref: TableRef) -> RequestScope:
        return RequestScope(
            self.settings, ref, self.now_ms(), look=lambda refresh: self.lookup.table(ref, refresh=refresh)
        )

    def _queue(self, submission: Submission, key: str | None) -> Submission:
        if key is not None and not is_id(key):
            raise BadInput(f"{key[:100]!r} is not an idempotency key.", hint="Use up to 255 ASCII characters.")
        self.access.admit(submission.tenant, self.records.queue, self.now_ms())
        if submission.estimated_dollars is None:
            submission = self._estimates.added_to(submission, self.lookup.remembered(submission.table))
        kept = self.records.queue.submit(replace(submission, trace=self.control.tracer.traceparent()), key=key)
        if kept.job_id == submission.job_id:  # otherwise the key was used before
            self.metrics.job_submitted(kept)
            if kept.estimated_dollars is None and KINDS[kept.kind].is_planned:
                self._estimates.want(kept)
            self._workers.wake()
        return kept

    def _paused(self) -> int:
        now = self.now_ms()
        return sum(pause.holds_at(now) for pause in self.records.ledger.pauses())

    def _attempt(self, claimed: Submission) -> Attempt:
        return Attempt(
            self.settings,
            self.control,
            self.records,
            self._estimates,
            self.metrics,
            claimed,
            self.now_ms,
            notify=self.notifier.notify,
        )

    def _limits(self) -> Limits:
        queue = self.settings.queue
        running = UNLIMITED if queue.max_running is None else queue.max_running
        return self.access.limits(Limits(running, queue.max_running_per_tenant))

    def _visible(self, job_id: str, who: Principal) -> Submission:
        """Returns the submission. A job of another tenant is reported as unknown."""
        self.access.require(who, Role.VIEWER)
        found = self.records.queue.submission(job_id) if is_id(job_id) else None
        if found is None or (who.tenants is not None and found.tenant not in who.tenants):
            raise _unknown_job(job_id)
        return found


def _unknown_job(job_id: str) -> UnknownJob:
    return UnknownJob(f"There is no job {job_id[:100]!r}.")
