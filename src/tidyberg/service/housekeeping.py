"""Deletes old jobs, plans and audit entries, and recovers runs that died."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from tidyberg.control.control import Control
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job
from tidyberg.model.report import Event, Notice, StageStarted
from tidyberg.record.records import Records
from tidyberg.settings.serving import Retention

log = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000
_BATCH = 1000


def _log(event: Event) -> None:
    if isinstance(event, Notice | StageStarted):
        log.info("%s", event.message)


@dataclass
class Housekeeping:
    control: Control
    records: Records
    retention: Retention
    now_ms: Callable[[], int]
    cancel: CancelToken = field(default_factory=CancelToken)  # stops a running recovery

    def forget_old(self) -> int:
        now, keep = self.now_ms(), self.retention
        ended_before_ms = now - round(keep.jobs_days * DAY_MS)
        forgotten = 0
        for prune in (self.records.queue.prune, self.records.store.prune):
            while batch := prune(ended_before_ms=ended_before_ms, at_most=_BATCH):
                forgotten += batch
        audit = None if keep.audit_days is None else now - round(keep.audit_days * DAY_MS)
        return forgotten + self.records.ledger.prune_ledger(
            plans_before_ms=now - round(keep.plans_days * DAY_MS), audit_before_ms=audit
        )

    def recover_dead_runs(self) -> list[str]:
        """Recovers runs that died and removes their files. A job that will run again keeps them for its next run."""
        runs = self.records.store.find(unfinished=True, limit=_BATCH)
        waiting = {run.table for run in runs if self._is_to_go_on(run)}
        done: list[str] = []
        for table in dict.fromkeys(run.table for run in runs if run.table not in waiting):
            done += self.control.recover(table, on_event=_log, cancel=self.cancel)
        return done

    def _is_to_go_on(self, run: Job) -> bool:
        submission = self.records.queue.submission(run.submission_id) if run.submission_id else None
        return submission is not None and not submission.status.is_final
