"""Reads and changes schedules, with checks, tenants and an audit log."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidyberg.errors import AccessDenied, BadInput, Conflict, Terminal, UnknownCatalog, UnknownSchedule
from tidyberg.model.cron import parse_cron, time_zone
from tidyberg.model.options import Strategy
from tidyberg.model.principal import ALL_TENANTS, Principal, Role
from tidyberg.model.submission import COMPACT, DEFAULT_TENANT, Schedule
from tidyberg.model.table import TableRef
from tidyberg.record.ledger import Ledger
from tidyberg.service.access import Access
from tidyberg.service.audit_log import AuditLog
from tidyberg.service.due_times import next_due
from tidyberg.service.identifiers import is_id
from tidyberg.service.kinds import KINDS
from tidyberg.service.kinds.base import RequestScope
from tidyberg.service.request_checks import checked_priority
from tidyberg.service.requests import ScheduleTimes, SubmitRequest
from tidyberg.service.timetable import has_wildcards, settings_schedules
from tidyberg.settings.catalogs import known_catalogs, named_catalog
from tidyberg.settings.job_options import check_kind
from tidyberg.settings.settings import Settings

MOST_JITTER_SECONDS = 86_400


class ScheduleConflict(Terminal):
    """The id belongs to another schedule. Clients see the code of `Conflict`, but a retry does not help."""

    code = Conflict.code
    http_status = Conflict.http_status
    exit_code = Conflict.exit_code


@dataclass(frozen=True)
class Schedules:
    ledger: Ledger
    log: AuditLog
    access: Access
    settings: Settings
    now_ms: Callable[[], int]

    def all(self, who: Principal) -> list[Schedule]:
        self.access.require(who, Role.VIEWER)
        found = [*settings_schedules(self.settings), *self.ledger.schedules()]
        return sorted((s for s in found if _is_visible(s, who)), key=lambda s: s.schedule_id)

    def get(self, schedule_id: str, who: Principal) -> Schedule:
        self.access.require(who, Role.VIEWER)
        found = self._of_settings(schedule_id)
        if found is None and is_id(schedule_id):
            found = self.ledger.schedule(schedule_id)
        if found is None or not _is_visible(found, who):
            raise UnknownSchedule(f"There is no schedule {schedule_id[:100]!r}.")
        return found

    def save(self, schedule: Schedule, who: Principal, *, new: bool = False) -> Schedule:
        """Creates or replaces a schedule. With `new`, an existing schedule is a conflict."""
        with self.log.acting(who, "schedule.save", schedule.schedule_id) as act:
            self.access.require(who, Role.OPERATOR)
            catalog = self._catalog_of(schedule, who)
            schedule = replace(schedule, catalog=None if schedule.catalog is None else catalog)
            schedule = self._for_its_owner(schedule, catalog, who)
            act.tenant = schedule.tenant
            if not _is_visible(schedule, who):
                raise AccessDenied(f"{who.name} may not schedule for tenant {schedule.tenant!r}.")
            self.access.check_tenant(schedule.tenant)
            _check(schedule)
            self._check_tables(schedule, catalog, who)
            self._check_options(schedule, catalog)
            self.access.require_kinds(who, KINDS[schedule.kind].rights(schedule.options))
            self._refuse_of_settings(schedule.schedule_id)
            before = self.ledger.schedule(schedule.schedule_id)
            if before is not None and not _is_visible(before, who):
                raise AccessDenied(f"The id {schedule.schedule_id!r} is in use.", hint="Choose another id.")
            if before is not None and new:
                raise ScheduleConflict(f"Schedule {schedule.schedule_id!r} already exists.", hint="PUT replaces it.")
            act.details["table"] = schedule.table
            if schedule.kind != COMPACT:
                act.details["kind"] = schedule.kind
            now = self.now_ms()
            created_ms = before.created_ms if before else now
            kept = replace(schedule, source="api", created_ms=created_ms, updated_ms=now)
            self.ledger.save_schedule(kept)
            return kept

    def delete(self, schedule_id: str, who: Principal) -> None:
        with self.log.acting(who, "schedule.delete", schedule_id) as act:
            self.access.require(who, Role.OPERATOR)
            act.tenant = self.get(schedule_id, who).tenant
            self._refuse_of_settings(schedule_id)
            self.ledger.delete_schedule(schedule_id)

    def times(self, schedule: Schedule) -> ScheduleTimes:
        """Returns the last handled due time and the next one."""
        reached_ms = self.ledger.last_due(schedule.schedule_id)
        # Before the first due time, the ledger holds the time when the schedule was saved, which is not a due time.
        came = reached_ms is not None and next_due(schedule, reached_ms - 1).due_ms == reached_ms
        upcoming = next_due(schedule, self.now_ms()).due_ms if schedule.enabled else None
        return ScheduleTimes(reached_ms if came else None, upcoming)

    def _catalog_of(self, schedule: Schedule, who: Principal) -> str:
        """Refuses a catalog that this service does not have, because the jobs could never run.

        Whoever may not see all catalogs gets the same answer for an unknown one as for one of another tenant.
        """
        catalog, known = named_catalog(self.settings, schedule.catalog), known_catalogs(self.settings)
        if catalog not in known and self.access.may_see_catalog(who, catalog):
            raise UnknownCatalog(
                f"There is no catalog {catalog[:100]!r}.", hint=f"Known: {', '.join(known) or 'none'}."
            )
        return catalog

    def _for_its_owner(self, schedule: Schedule, catalog: str, who: Principal) -> Schedule:
        """Assigns a schedule of an admin to the tenant that owns its namespace, or to the default tenant."""
        if who.tenants is not None or schedule.tenant not in (DEFAULT_TENANT, ALL_TENANTS):
            return schedule
        table = _in_namespace(schedule, catalog)
        return replace(schedule, tenant=DEFAULT_TENANT if table is None else self.access.tenant_for(who, table, None))

    def _check_tables(self, schedule: Schedule, catalog: str, who: Principal) -> None:
        """Refuses tables of other tenants now, not at each due time. Patterns match only own tables."""
        if not self.access.may_see_catalog(who, catalog):
            raise AccessDenied(f"Catalog {catalog!r} does not belong to tenant {schedule.tenant!r}.")
        if (table := _in_namespace(schedule, catalog)) is not None:
            self.access.tenant_for(who, table, schedule.tenant)

    def _check_options(self, schedule: Schedule, catalog: str) -> None:
        scope = RequestScope(self.settings, TableRef(catalog, (), schedule.table), self.now_ms(), is_schedule=True)
        request = SubmitRequest(
            schedule.table, strategy=schedule.strategy, options=schedule.options, kind=schedule.kind
        )
        KINDS[schedule.kind].check(request, scope)

    def _of_settings(self, schedule_id: str) -> Schedule | None:
        return next((s for s in settings_schedules(self.settings) if s.schedule_id == schedule_id), None)

    def _refuse_of_settings(self, schedule_id: str) -> None:
        if self._of_settings(schedule_id) is not None:
            raise ScheduleConflict(
                f"Schedule {schedule_id!r} comes from the settings.", hint="Change it in tidyberg.yaml."
            )


def _in_namespace(schedule: Schedule, catalog: str) -> TableRef | None:
    """Returns the table or pattern if the schedule names its namespace, otherwise None."""
    namespace, dot, name = schedule.table.rpartition(".")
    return TableRef(catalog, tuple(namespace.split(".")), name) if dot and not has_wildcards(namespace) else None


def _is_visible(schedule: Schedule, who: Principal) -> bool:
    return who.tenants is None or schedule.tenant in who.tenants


def _check(schedule: Schedule) -> None:
    if not is_id(schedule.schedule_id):
        raise BadInput("The id of a schedule must have 1 to 255 ASCII characters.")
    parse_cron(schedule.cron)
    time_zone(schedule.timezone)
    if not 0 <= schedule.jitter_seconds <= MOST_JITTER_SECONDS:
        raise BadInput(f"jitter_seconds must be from 0 to {MOST_JITTER_SECONDS}, not {schedule.jitter_seconds}.")
    if schedule.missed not in ("skip", "once", "all"):
        raise BadInput(f"missed must be skip, once or all, not {schedule.missed!r}.")
    if schedule.strategy is not None:
        Strategy.parse(schedule.strategy)
    check_kind(schedule.kind)
    checked_priority(schedule.priority)
