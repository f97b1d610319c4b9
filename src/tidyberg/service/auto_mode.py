"""Auto mode: one replica at a time checks the catalogs and submits jobs within the budget of the day."""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidyberg.catalog.open import list_tables, load_table
from tidyberg.errors import TidybergError, Transient
from tidyberg.model.cron import time_zone
from tidyberg.model.job import JobStatus
from tidyberg.model.left import left_alone
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import Query, Submission
from tidyberg.model.table import JOB_ID, TableRef
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.record.process import this_process
from tidyberg.service.auto_selection import (
    AutoDecision,
    Candidate,
    Spending,
    TableFacts,
    choose,
    spent,
    start_of_day,
    turn,
    worth_planning,
)
from tidyberg.service.due_times import DAY_MS
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.scheduler import is_opted_out, key_for
from tidyberg.service.service import Service
from tidyberg.service.timetable import scheduled_catalogs
from tidyberg.settings.options import plan_options
from tidyberg.settings.scheduling import Auto

ASK_SECONDS = 30.0  # how often a replica checks whether a look is due
AUTO = Principal("auto", Role.ADMIN)
PRIORITY = -10  # lower than jobs of users and schedules
_LOOKS = "auto:looks"  # in the ledger; no schedule id can have this form
_TURN = "auto:turn"  # a lease in the store; table leases have ids of another form
_TURN_MS, _RENEW_MS = 600_000, 60_000
_CHECKS_PER_PLAN = 20  # snapshot summaries read per table that may be planned
_PAGE = 500

log = logging.getLogger("tidyberg.auto")


@dataclass
class AutoMode:
    service: Service
    _decided: dict[TableRef, tuple[int | None, int]] = field(
        default_factory=dict
    )  # the snapshot, and the time of the decision

    def look(self) -> None:
        """Runs once per interval, on whichever replica comes first. If a catalog is down, a later call tries again."""
        auto, ledger = self.service.settings.scheduler.auto, self.service.records.ledger
        every_ms = auto.every_minutes * 60_000
        due_ms = self.service.now_ms() // every_ms * every_ms
        if (ledger.last_due(_LOOKS) or 0) >= due_ms:
            return
        with self.turn() as still_mine:
            if still_mine is None or (ledger.last_due(_LOOKS) or 0) >= due_ms:
                return
            tables = self._tables(auto)
            ledger.advance(_LOOKS, due_ms)
            part = turn(tables, due_ms // every_ms, auto.max_tables_per_look * _CHECKS_PER_PLAN)
            self.look_over(auto, part, due_ms, still_mine)

    def look_over(self, auto: Auto, tables: list[TableRef], due_ms: int, still_mine: Callable[[], bool]) -> bool:
        """Looks at these tables and submits jobs. Returns False if nothing was decided: no budget, or no lease."""
        memory_gb = self.service.control.resources.memory_gb
        left = Spending(auto.max_dollars_per_day, auto.max_gb_hours_per_day).less(*spent(self._of_today(), memory_gb))
        if left.is_used_up:
            log.info("auto: the budget of the day is used up")
            return False
        looked_at = [found for ref in tables if still_mine() and (found := self._facts(ref)) is not None]
        promising = worth_planning(looked_at, self._decided_lately(), auto.max_tables_per_look)
        planned = [candidate for one in promising if still_mine() and (candidate := self._plan(one)) is not None]
        if not still_mine():
            log.warning("auto: another replica took over, this look is dropped")
            return False
        for choice in choose(planned, left, memory_gb=memory_gb, max_payback_scans=auto.max_payback_scans):
            facts = choice.candidate.facts
            verb = "taken" if choice.is_taken else "left"
            log.info("auto: %s, health %d, is %s: %s", facts.table, choice.candidate.health, verb, choice.reason)
            if choice.is_taken:
                self._submit(choice, due_ms)
            if choice.code not in ("budget", "waiting"):  # these may be selected later without a new commit
                self._decided[facts.table] = (facts.snapshot_id, self.service.now_ms())
        return True

    def _submit(self, choice: AutoDecision, due_ms: int) -> None:
        facts, estimate = choice.candidate.facts, choice.candidate.estimate
        options = {}
        if choice.left.dollars is not None:  # the table may grow before the job runs
            own = plan_options(self.service.settings, facts.table, {}).max_cost
            options["max_cost"] = min(choice.left.dollars, own if own is not None else choice.left.dollars)
        request = SubmitRequest(str(facts.table), facts.table.catalog, options=options, priority=PRIORITY)
        try:
            job = self.service.submit(request, AUTO, key=key_for("auto", str(due_ms), facts.table))
            self.service.records.queue.estimate(job.job_id, seconds=estimate.seconds, dollars=estimate.dollars)
        except TidybergError as error:
            log.warning("auto: cannot submit %s: %s", facts.table, error)

    def _tables(self, auto: Auto) -> list[TableRef]:
        catalogs = scheduled_catalogs(self.service.settings, auto.catalogs)
        return [ref for catalog in catalogs for ref in list_tables(self.service.control.catalog(catalog))]

    def _facts(self, ref: TableRef) -> TableFacts | None:
        """Returns None if the table cannot be loaded, opted out or is paused."""
        try:
            table = load_table(self.service.control.catalog(ref.catalog), ref)
            if is_opted_out(table.properties) or self.service.pauses.of(ref) is not None:
                return None
            options = plan_options(self.service.settings, ref, {})
            return _facts_of(table, ref, resolve_sizes(options, table.properties).target, self.service.now_ms())
        except TidybergError as error:
            log.warning("auto: skips %s: %s", ref, error)
            return None

    def _plan(self, facts: TableFacts) -> Candidate | None:
        """Returns None if the table cannot be planned, or has a job under way or a recent failure."""
        try:
            if self._is_under_way(facts.table):
                return None
            plan = self.service.control.plan(facts.table, plan_options(self.service.settings, facts.table, {}))
        except TidybergError as error:
            log.warning("auto: cannot plan %s: %s", facts.table, error)
            if not isinstance(error, Transient):
                self._decided[facts.table] = (facts.snapshot_id, self.service.now_ms())
            return None
        return Candidate(facts, plan.health, plan.estimate, left_alone(plan))

    def _is_under_way(self, ref: TableRef) -> bool:
        under_way = Query(table=ref, statuses=frozenset((JobStatus.QUEUED, JobStatus.RUNNING)), limit=1)
        yesterday = self.service.now_ms() - DAY_MS
        failed = Query(
            table=ref,
            statuses=frozenset((JobStatus.FAILED,)),
            created_by=AUTO.name,
            created_from_ms=yesterday,
            limit=1,
        )
        queue = self.service.records.queue
        return any(queue.submissions(query).submissions for query in (under_way, failed))

    def _decided_lately(self) -> dict[TableRef, int | None]:
        """Forgets decisions after a day: even without writes, partitions cool down and become eligible."""
        yesterday = self.service.now_ms() - DAY_MS
        self._decided = {ref: seen for ref, seen in self._decided.items() if seen[1] > yesterday}
        return {ref: snapshot_id for ref, (snapshot_id, _) in self._decided.items()}

    def _of_today(self) -> Iterator[Submission]:
        day = start_of_day(self.service.now_ms(), time_zone(self.service.settings.scheduler.timezone))
        cursor = None
        while True:
            query = Query(created_by=AUTO.name, created_from_ms=day, limit=_PAGE, cursor=cursor)
            page = self.service.records.queue.submissions(query)
            yield from page.submissions
            if (cursor := page.next) is None:
                return

    @contextmanager
    def turn(self) -> Iterator[Callable[[], bool] | None]:
        """Takes the lease, so that no two replicas spend the same budget. Yields a function that checks the lease."""
        store, holder = self.service.records.store, str(uuid.uuid4())
        held = store.acquire(_TURN, holder, this_process(), now_ms=self.service.now_ms(), ttl_ms=_TURN_MS)
        if held is not None:
            yield None
            return
        renewed_ms = self.service.now_ms()

        def still_mine() -> bool:
            nonlocal renewed_ms
            now_ms = self.service.now_ms()
            if now_ms - renewed_ms < _RENEW_MS:
                return True
            renewed_ms = now_ms
            return store.renew(_TURN, holder, now_ms=now_ms, ttl_ms=_TURN_MS)

        try:
            yield still_mine
        finally:
            store.release(_TURN, holder)


def _facts_of(table: Table, ref: TableRef, target_file_size: int, now_ms: int) -> TableFacts:
    snapshot = table.metadata.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}

    def number(name: str) -> int | None:
        return int(summary[name]) if summary.get(name, "").isdigit() else None

    recent = [s for s in table.metadata.snapshots if s.timestamp_ms > now_ms - DAY_MS]
    return TableFacts(
        table=ref,
        snapshot_id=snapshot.snapshot_id if snapshot is not None else None,
        files=number("total-data-files"),
        bytes=number("total-files-size"),
        delete_files=number("total-delete-files"),
        commits_last_day=sum(not is_compaction(snapshot) for snapshot in recent),
        target_file_size=target_file_size,
    )


def is_compaction(snapshot: Snapshot) -> bool:
    summary = snapshot.summary
    return summary is not None and (summary.operation.value == "replace" or summary[JOB_ID] is not None)
