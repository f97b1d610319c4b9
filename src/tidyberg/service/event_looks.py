"""Looks at tables that had events, on one replica at a time. A look decides as `auto` does, within the same budget."""

import json
import logging
from dataclasses import dataclass

from tidyberg.catalog.open import load_table
from tidyberg.errors import TidybergError, Transient
from tidyberg.model.table import TableRef
from tidyberg.service.auto_mode import AutoMode, is_compaction
from tidyberg.service.event_inbox import LOCATION, look_progress
from tidyberg.service.service import Service
from tidyberg.service.timetable import scheduled_catalogs

EVENT_SECONDS = 5.0
_CLOCKS_DIFFER_MS = 60_000  # the clocks of writers and of this machine
_RETRY_MS = 60_000

log = logging.getLogger("tidyberg.events")


@dataclass(frozen=True)
class EventLooks:
    service: Service
    auto: AutoMode

    def look(self) -> None:
        """Looks at the tables that are due. Looks that could not be made stay wanted."""
        ledger, auto = self.service.records.ledger, self.service.settings.scheduler.auto
        if not ledger.due_looks(self.service.now_ms(), 1):
            return
        with self.auto.turn() as still_mine:
            if still_mine is None:
                return
            now_ms = self.service.now_ms()
            due = ledger.due_looks(now_ms, auto.max_tables_per_look)
            changed = [(subject, due_ms, ref) for subject, due_ms in due if (ref := self._changed(subject, due_ms))]
            tables = list(dict.fromkeys(ref for _, _, ref in changed))
            if tables and self.auto.look_over(auto, tables, now_ms, still_mine):
                for subject, due_ms, _ in changed:
                    ledger.advance(look_progress(subject), now_ms)
                    ledger.drop_look(subject, due_ms)

    def _changed(self, subject: str, due_ms: int) -> TableRef | None:
        """Returns the table if a writer has committed since the last look. Otherwise the look is dropped."""
        ledger = self.service.records.ledger
        try:
            ref = self._table(subject)
            reason = "no table has this location" if ref is None else self._unchanged(subject, ref)
        except Transient as error:
            log.warning("events: the look at %s is postponed: %s", subject, error)
            if ledger.drop_look(subject, due_ms):
                retry_ms = self.service.now_ms() + _RETRY_MS
                ledger.want_look(subject, due_ms=retry_ms, latest_ms=retry_ms)
            return None
        except TidybergError as error:
            ref, reason = None, str(error)
        if not reason:
            return ref
        log.info("events: no look at %s: %s", subject, reason)
        ledger.drop_look(subject, due_ms)
        return None

    def _table(self, subject: str) -> TableRef | None:
        if not subject.startswith(LOCATION):
            catalog, *namespace, name = json.loads(subject)
            return TableRef(catalog, tuple(namespace), name)
        catalogs = scheduled_catalogs(self.service.settings, self.service.settings.scheduler.auto.catalogs)
        return self.service.control.table_at(f"{subject.removeprefix(LOCATION)}/metadata.json", catalogs)

    def _unchanged(self, subject: str, ref: TableRef) -> str:
        """Returns why there is nothing to look at, or an empty text. Commits of compactions are nothing to look at."""
        last_ms = self.service.records.ledger.last_due(look_progress(subject))
        since_ms = 0 if last_ms is None else last_ms - _CLOCKS_DIFFER_MS
        snapshots = load_table(self.service.control.catalog(ref.catalog), ref).metadata.snapshots
        news = (one for one in snapshots if one.timestamp_ms > since_ms and not is_compaction(one))
        return "" if any(news) else "no writer has committed since the last look"
