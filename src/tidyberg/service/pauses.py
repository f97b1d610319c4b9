"""Pauses and resumes tables. A paused table gets no jobs."""

from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.errors import BadInput, TablePaused, UnknownPause
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import Pause
from tidyberg.model.table import TableRef
from tidyberg.record.ledger import Ledger
from tidyberg.service.access import Access
from tidyberg.service.audit_log import AuditLog

MOST_REASON_CHARACTERS = 500


@dataclass(frozen=True)
class Pauses:
    ledger: Ledger
    log: AuditLog
    access: Access
    now_ms: Callable[[], int]

    def of(self, table: TableRef) -> Pause | None:
        """Returns the pause that is active now, or None."""
        found = self.ledger.pause(table)
        return found if found is not None and found.holds_at(self.now_ms()) else None

    def refuse_paused(self, table: TableRef) -> None:
        if (pause := self.of(table)) is not None:
            raise TablePaused(
                f"{table} is paused by {pause.paused_by}: {pause.reason}.",
                hint="Resume it (`tidyberg resume`)" + (", or wait until the pause ends." if pause.until_ms else "."),
            )

    def all(self, who: Principal) -> list[Pause]:
        """Returns the active pauses of tables that the caller may see."""
        self.access.require(who, Role.VIEWER)
        now = self.now_ms()
        return [p for p in self.ledger.pauses() if p.holds_at(now) and self.access.may_see(who, p.table)]

    def pause(self, table: TableRef, who: Principal, reason: str, until_ms: int | None) -> Pause:
        """Pauses a table. Replaces an existing pause."""
        with self.log.acting(who, "table.pause", f"{table.catalog}.{table}") as act:
            self.access.require(who, Role.OPERATOR)
            act.tenant = tenant = self.access.tenant_for(who, table, None)
            now = self.now_ms()
            reason = " ".join(reason.split())
            if not reason or len(reason) > MOST_REASON_CHARACTERS:
                raise BadInput(f"A pause needs a reason of 1 to {MOST_REASON_CHARACTERS} characters.")
            if until_ms is not None and until_ms <= now:
                raise BadInput("The end of a pause must be in the future.")
            pause = Pause(table, tenant, who.name, reason, now, until_ms)
            act.details |= {"reason": reason, "until_ms": until_ms}
            self.ledger.save_pause(pause)
            return pause

    def resume(self, table: TableRef, who: Principal) -> None:
        with self.log.acting(who, "table.resume", f"{table.catalog}.{table}") as act:
            self.access.require(who, Role.OPERATOR)
            act.tenant = self.access.tenant_for(who, table, None)
            was_paused = self.of(table) is not None
            self.ledger.delete_pause(table)  # also a pause that has ended
            if not was_paused:
                raise UnknownPause(f"{table} is not paused.")
