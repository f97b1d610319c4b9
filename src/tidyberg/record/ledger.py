"""What the service keeps besides jobs: schedules, plans that were shown, and who did what."""

from typing import Protocol

from tidyberg.model.submission import AuditEntry, KeptPlan, Pause, Schedule
from tidyberg.model.table import TableRef


class Ledger(Protocol):
    def save_schedule(self, schedule: Schedule) -> None: ...

    def schedule(self, schedule_id: str) -> Schedule | None: ...

    def schedules(self) -> list[Schedule]:
        """All of them, by id."""
        ...

    def delete_schedule(self, schedule_id: str) -> bool:
        """Also when it was due last."""
        ...

    def last_due(self, schedule_id: str) -> int | None:
        """Up to when (in milliseconds) this schedule's times are dealt with, over all replicas."""
        ...

    def advance(self, schedule_id: str, due_ms: int) -> int:
        """Record that its times up to this one are dealt with. Never goes back; gives what is recorded now."""
        ...

    def keep_plan(self, plan: KeptPlan) -> None: ...

    def kept_plan(self, plan_hash: str) -> KeptPlan | None: ...

    def save_pause(self, pause: Pause) -> None:
        """In place of the one that its table may have."""
        ...

    def pause(self, table: TableRef) -> Pause | None:
        """Also one that is over."""
        ...

    def pauses(self) -> list[Pause]:
        """All of them, by table."""
        ...

    def delete_pause(self, table: TableRef) -> bool: ...

    def append_audit(self, entry: AuditEntry) -> AuditEntry:
        """Numbered by the store, whatever number it came with."""
        ...

    def audit(
        self, *, tenants: frozenset[str] | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Newest first; `before` is a number, to page on."""
        ...

    def prune_ledger(self, *, plans_before_ms: int, audit_before_ms: int | None) -> int:
        """Forget old plans, and audit entries where a retention is set."""
        ...
