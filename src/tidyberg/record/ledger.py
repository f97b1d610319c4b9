"""The interface of the ledger: schedules, plans, pauses, wanted looks, scan reports and the audit log of a service."""

from typing import Protocol

from tidyberg.model.scan_reports import ScanReportTotals
from tidyberg.model.submission import AuditEntry, KeptPlan, Pause, Schedule
from tidyberg.model.table import TableRef


class Ledger(Protocol):
    def save_schedule(self, schedule: Schedule) -> None: ...

    def schedule(self, schedule_id: str) -> Schedule | None: ...

    def schedules(self) -> list[Schedule]:
        """Return all schedules, ordered by id."""
        ...

    def delete_schedule(self, schedule_id: str) -> bool:
        """Delete a schedule and its progress."""
        ...

    def last_due(self, schedule_id: str) -> int | None:
        """Return the time up to which all replicas have handled this schedule, in milliseconds."""
        ...

    def advance(self, schedule_id: str, due_ms: int) -> int:
        """Record that the times up to this one are handled. It never goes back. Returns the recorded time."""
        ...

    def keep_plan(self, plan: KeptPlan) -> None: ...

    def kept_plan(self, plan_hash: str) -> KeptPlan | None: ...

    def save_pause(self, pause: Pause) -> None:
        """Save a pause. It replaces the previous pause of the table."""
        ...

    def pause(self, table: TableRef) -> Pause | None:
        """Return the pause of a table, even if it is over."""
        ...

    def pauses(self) -> list[Pause]:
        """Return all pauses, ordered by table."""
        ...

    def delete_pause(self, table: TableRef) -> bool: ...

    def has_event(self, event_key: str, *, now_ms: int) -> bool:
        """Return whether an event is remembered."""
        ...

    def remember_event(self, event_key: str, *, now_ms: int, until_ms: int) -> None: ...

    def want_look(self, subject: str, *, due_ms: int, latest_ms: int) -> None:
        """Ask for a look at a subject. Asking again postpones the look, but never beyond the first `latest_ms`."""
        ...

    def due_looks(self, now_ms: int, limit: int) -> list[tuple[str, int]]:
        """Return the subjects that are due, and since when, the oldest first."""
        ...

    def drop_look(self, subject: str, due_ms: int) -> bool:
        """Forget a look that was due at this time. It stays if it was postponed meanwhile."""
        ...

    def add_scan_report(self, table: TableRef, report: ScanReportTotals) -> bool:
        """Add a report to the totals of its table, day and shape. Returns True for the first of a table and day.

        Days before the last SCAN_REPORT_DAYS are dropped. After MOST_SCAN_SHAPES shapes of a day, further ones are
        added to OTHER_SHAPES.
        """
        ...

    def scan_reports(self, table: TableRef) -> list[ScanReportTotals]:
        """Return the totals of a table, ordered by day and shape."""
        ...

    def append_audit(self, entry: AuditEntry) -> AuditEntry:
        """Append an entry. The store assigns its number."""
        ...

    def audit(
        self, *, tenants: frozenset[str] | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return entries, newest first. For the next page, `before` is the number of the last entry."""
        ...

    def prune_ledger(self, *, plans_before_ms: int, audit_before_ms: int | None) -> int:
        """Delete old plans, and audit entries if a retention is set."""
        ...
