"""Submits the jobs of schedules that are due. Each due time makes one job per table.

Replicas need no leader. The due time and the table form an idempotency key, so several replicas may submit the same
job. The ledger stores the last handled time of each schedule, so that this is rare and a restart misses nothing.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidyberg.errors import CatalogUnreachable, IdempotencyMismatch, QuotaExceeded, TidybergError, Transient
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query, Schedule
from tidyberg.model.table import TableRef
from tidyberg.service.due_times import DAY_MS, DueTime, next_due, passed, to_fire
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.service.timetable import ENABLED_PROPERTY, ScheduledTables, acting_for, timetable

LOOK_SECONDS = 5.0
RETRY_MS = 30_000  # how soon a failed due time is tried again
GIVE_UP_MS = DAY_MS
FIRST_LOOK_MS = 60_000  # so that replicas that start together agree on the first due time
_LONGEST_KEY = 255

log = logging.getLogger("tidyberg.scheduler")


@dataclass
class _Progress:
    """The state of a schedule on this replica. The ledger holds the shared state."""

    schedule: Schedule
    wake_ms: int = 0  # nothing to do before this time
    done: dict[int, set[TableRef]] = field(default_factory=dict)  # tables done, per due time that is not complete
    failed: set[TableRef] = field(default_factory=set)


@dataclass
class Scheduler:
    service: Service
    _progress: dict[str, _Progress] = field(default_factory=dict)

    def look(self) -> None:
        """Handles everything that is due."""
        known = timetable(self.service.settings, self.service.records.ledger.schedules())
        now_ms = self.service.now_ms()
        self._forget_others(timed.schedule.schedule_id for timed in known)
        for timed in known:
            if timed.schedule.enabled:
                self._look_at(timed, now_ms)

    def _forget_others(self, ids: Iterable[str]) -> None:
        self._progress = {key: self._progress[key] for key in ids if key in self._progress}

    def _look_at(self, timed: ScheduledTables, now_ms: int) -> None:
        schedule = timed.schedule
        progress = self._progress.get(schedule.schedule_id)
        if progress is None or progress.schedule != schedule:
            progress = self._progress[schedule.schedule_id] = _Progress(schedule)
        if now_ms < progress.wake_ms:
            return
        try:
            progress.wake_ms = self._catch_up(timed, progress, now_ms)
        except Exception:  # one schedule must not block the others
            log.exception("Schedule %s failed unexpectedly and will be tried again.", schedule.schedule_id)
            progress.wake_ms = now_ms + RETRY_MS

    def _catch_up(self, timed: ScheduledTables, progress: _Progress, now_ms: int) -> int:
        """Handles the due times that have passed. Returns when to look again."""
        schedule, ledger = timed.schedule, self.service.records.ledger
        start_ms = self._start(schedule, now_ms)
        dues = passed(schedule, start_ms, now_ms)
        late_ms = self.service.settings.scheduler.missed_after_seconds * 1000
        chosen = to_fire(schedule, dues, now_ms, late_ms, progress.done)
        if len(chosen) < len(dues):
            left = len(dues) - len(chosen)
            log.warning("Schedule %s missed %d due times, which are skipped.", schedule.schedule_id, left)
        carried_out = [self._carry_out(timed, progress, due, now_ms) for due in chosen]
        if not all(carried_out):
            return now_ms + RETRY_MS
        progress.done.clear()
        if dues:
            if (ledger.last_due(schedule.schedule_id) or 0) < dues[-1].due_ms:  # otherwise another replica counts them
                self.service.metrics.schedule_fired(len(chosen))
                self.service.metrics.schedule_missed(len(dues) - len(chosen))
            start_ms = max(start_ms, ledger.advance(schedule.schedule_id, dues[-1].due_ms))
        return next_due(schedule, start_ms).fire_ms

    def _start(self, schedule: Schedule, now_ms: int) -> int:
        """Returns the last handled time. Times before the schedule was saved or first seen do not count."""
        ledger = self.service.records.ledger
        reached_ms = ledger.last_due(schedule.schedule_id)
        if reached_ms is None:
            first_ms = schedule.created_ms if schedule.source == "api" else now_ms - FIRST_LOOK_MS
            reached_ms = ledger.advance(schedule.schedule_id, first_ms)
        return max(reached_ms, schedule.updated_ms)

    def _carry_out(self, timed: ScheduledTables, progress: _Progress, due: DueTime, now_ms: int) -> bool:
        """Submits a job for every table of the schedule. Returns False if some are still missing."""
        schedule_id = timed.schedule.schedule_id
        if (self.service.records.ledger.last_due(schedule_id) or 0) >= due.due_ms:
            return True  # another replica was faster
        if now_ms - due.fire_ms > GIVE_UP_MS and due.due_ms in progress.done:
            log.error("Schedule %s: due time %d is given up after a day of failures.", schedule_id, due.due_ms)
            return True
        done = progress.done.setdefault(due.due_ms, set())
        try:
            tables = self._tables(timed)
        except Transient as error:
            log.warning("Schedule %s waits: %s", schedule_id, error)
            return False
        except TidybergError as error:
            log.error("Schedule %s cannot run: %s", schedule_id, error)
            return True
        # Tables that failed last time go last, so that they do not delay others.
        for ref in sorted((ref for ref in tables if ref not in done), key=progress.failed.__contains__):
            try:
                self._submit(timed.schedule, due, ref)
            except Transient as error:
                log.warning("Schedule %s waits to submit %s: %s", schedule_id, ref, error)
                progress.failed.add(ref)
                if not isinstance(error, QuotaExceeded):
                    break
                continue
            except IdempotencyMismatch:
                pass  # submitted by a replica with other settings
            except TidybergError as error:
                log.error("Schedule %s cannot submit a job for %s: %s", schedule_id, ref, error)
            done.add(ref)
        return done.issuperset(tables)

    def _tables(self, timed: ScheduledTables) -> list[TableRef]:
        only = timed.only_table
        found = [only] if only is not None else self.service.lookup.tables(timed.catalog)
        who = acting_for(timed.schedule)
        return [ref for ref in found if timed.covers(ref) and self.service.access.may_see(who, ref)]

    def _submit(self, schedule: Schedule, due: DueTime, ref: TableRef) -> None:
        known = self.service.lookup.table(ref)
        if known is None:
            raise CatalogUnreachable(f"Catalog {ref.catalog!r} does not answer.")
        if is_opted_out(known.properties):
            log.info("Schedule %s skips %s: its property %s is false.", schedule.schedule_id, ref, ENABLED_PROPERTY)
        elif (pause := self.service.pauses.of(ref)) is not None:
            self.service.metrics.paused()
            log.info("Schedule %s skips %s: %s has paused it.", schedule.schedule_id, ref, pause.paused_by)
        elif self._still_waits(schedule, due, ref):
            log.warning(
                "Schedule %s: an earlier job of %s is still queued, so no other is submitted.",
                schedule.schedule_id,
                ref,
            )
        else:
            own = schedule.has_own_options  # otherwise the job reads the options of the settings when it runs
            request = SubmitRequest(
                table=str(ref),
                catalog=ref.catalog,
                kind=schedule.kind,
                strategy=schedule.strategy if own else None,
                options=schedule.options if own else {},
                priority=schedule.priority,
            )
            job = self.service.submit(request, acting_for(schedule), key=submission_key(schedule, due.due_ms, ref))
            log.info("Schedule %s submitted job %s for %s.", schedule.schedule_id, job.job_id, ref)

    def _still_waits(self, schedule: Schedule, due: DueTime, ref: TableRef) -> bool:
        """Returns True if a job of an earlier due time is queued. A job of this due time does not count."""
        page = self.service.records.queue.submissions(
            Query(
                statuses=frozenset((JobStatus.QUEUED,)),
                table=ref,
                created_by=acting_for(schedule).name,
                newest_first=False,
                limit=1,
            )
        )
        return any(submission.created_ms < due.due_ms for submission in page.submissions)


def is_opted_out(properties: Mapping[str, str]) -> bool:
    return properties.get(ENABLED_PROPERTY, "true").strip().lower() == "false"


def submission_key(schedule: Schedule, due_ms: int, ref: TableRef) -> str:
    return key_for(f"schedule:{schedule.schedule_id}", str(due_ms), ref)


def key_for(what: str, when: str, ref: TableRef) -> str:
    """Returns an idempotency key. Names that do not fit are hashed."""
    table = f"{ref.catalog}.{ref}"
    key = f"{what}:{when}:{table}"
    if len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable():
        return key
    digest = hashlib.sha256(f"{what}\n{table}".encode()).hexdigest()
    return f"{what[:100]}:{when}:{digest}"
