"""Takes events of commits: checks the caller, drops what it knows, and asks for a look at each table."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidyberg.errors import AccessDenied, BadInput, UnknownCatalog
from tidyberg.model.principal import Principal, Role
from tidyberg.model.table import TableRef
from tidyberg.record.documents import table_key
from tidyberg.record.ledger import Ledger
from tidyberg.service.access import Access
from tidyberg.service.audit_log import AuditLog
from tidyberg.service.event_parsing import ReceivedEvent
from tidyberg.settings.settings import Settings

LOCATION = "location:"  # the subject of a look whose table is not known yet; keys of tables are JSON arrays
_HOUR_MS = 3_600_000

log = logging.getLogger("tidyberg.events")


@dataclass(frozen=True, slots=True)
class EventsTaken:
    accepted: int
    duplicates: int
    ignored: tuple[str, ...]  # why each of the others leads to no look


def look_progress(subject: str) -> str:
    """The name under which the ledger keeps when a subject was last looked at."""
    return f"look:{subject}"


@dataclass(frozen=True)
class EventInbox:
    ledger: Ledger
    audit: AuditLog
    access: Access
    settings: Settings
    now_ms: Callable[[], int]

    def receive(
        self, events: Sequence[ReceivedEvent], who: Principal, table_of: Callable[[ReceivedEvent], TableRef]
    ) -> EventsTaken:
        """Takes all events, or none if the caller may not send one of them."""
        target = ", ".join(event.subject for event in events)
        with self.audit.acting(who, "event.receive", target, {"events": len(events)}) as act:
            self.access.require(who, Role.OPERATOR)
            if not self.settings.scheduler.events.enabled:
                raise AccessDenied(
                    "This service takes no events.", hint="Set scheduler.events.enabled in its settings."
                )
            ignored = [event.ignored for event in events if event.ignored]
            wanted = list[tuple[ReceivedEvent, str]]()
            for event in events:
                if not event.ignored:
                    try:
                        wanted.append((event, self._subject(event, who, table_of)))
                    except (BadInput, UnknownCatalog) as error:
                        log.warning("events: ignores one about %s: %s", event.subject, error)
                        ignored.append(error.message)
            accepted = sum(self._take(event, subject) for event, subject in wanted)
            act.details |= {"accepted": accepted, "ignored": len(ignored)}
            return EventsTaken(accepted, len(wanted) - accepted, tuple(ignored))

    def _subject(self, event: ReceivedEvent, who: Principal, table_of: Callable[[ReceivedEvent], TableRef]) -> str:
        if event.location:
            self.access.require_everyone(who)  # nobody knows yet whose table it is
            return f"{LOCATION}{event.location.rpartition('/')[0]}"
        ref = table_of(event)
        self.access.tenant_for(who, ref, None)
        return table_key(ref)

    def _take(self, event: ReceivedEvent, subject: str) -> bool:
        """Returns False if the event arrived before. It is remembered last, because a sender repeats what failed."""
        now_ms, events = self.now_ms(), self.settings.scheduler.events
        if self.ledger.has_event(event.key, now_ms=now_ms):
            return False
        last_ms = self.ledger.last_due(look_progress(subject))
        rested_ms = 0 if last_ms is None else last_ms + events.cooldown_seconds * 1000
        due_ms = max(now_ms + events.debounce_seconds * 1000, rested_ms)
        latest_ms = max(now_ms + events.max_wait_seconds * 1000, due_ms)
        self.ledger.want_look(subject, due_ms=due_ms, latest_ms=latest_ms)
        self.ledger.remember_event(event.key, now_ms=now_ms, until_ms=now_ms + events.remember_hours * _HOUR_MS)
        return True
