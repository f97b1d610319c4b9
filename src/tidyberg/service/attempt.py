"""One attempt to run a submitted job: it runs the job and decides whether it ends or is retried [I7]."""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tidyberg.control.control import Control
from tidyberg.errors import (
    Cancelled,
    GivenUp,
    TidybergError,
    Transient,
    UnknownNamespace,
)
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.report import Event, StageStarted
from tidyberg.model.retry import backoff_seconds
from tidyberg.model.submission import Pause, Query, Submission
from tidyberg.record.records import Records
from tidyberg.service.earlier_runs import died, earlier_runs, has_committed, owners
from tidyberg.service.estimates import Estimates
from tidyberg.service.heartbeat import Heartbeat, StopReason
from tidyberg.service.job_events import JobEventWriter
from tidyberg.service.kinds import kind_of
from tidyberg.service.kinds.base import RunContext, RunOutcome
from tidyberg.settings.notifications import NotifiedEvent
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.context import about
from tidyberg.telemetry.job_log import log_event
from tidyberg.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_STORE_PAUSE_SECONDS = 1.0
PAUSE_LOOK_SECONDS = 300.0


@dataclass
class Attempt:
    """An attempt to run a claimed job. `run` returns when the job ended, was put back or belongs to another worker."""

    settings: Settings
    control: Control
    records: Records
    estimates: Estimates
    metrics: Metrics
    submission: Submission
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep
    notify: Callable[[NotifiedEvent, Submission], None] = lambda *_: None

    def __post_init__(self) -> None:
        self._run_id: str | None = None
        self._cancel = CancelToken()
        self._heartbeat = Heartbeat(
            self.records.queue,
            self.submission,
            self._cancel,
            ttl_ms=round(self.settings.queue.claim_seconds * 1000),
            now_ms=self.now_ms,
        )
        self._events = JobEventWriter(
            self.records.queue,
            self.submission.job_id,
            self.now_ms,
            lambda: self._heartbeat.is_lost,
            scrub=self.control.scrub,
        )

    def stop(self) -> None:
        """Ends the attempt soon, because the service stops. Another worker continues the job."""
        self._heartbeat.stop(StopReason.SHUTDOWN)

    def run(self) -> None:
        submission = self.submission
        table = f"{submission.table.catalog}.{submission.table}"
        with about(job_id=submission.job_id, table=table, tenant=submission.tenant), self._heartbeat:
            try:
                self._run()
            except TidybergError as error:
                self._end_badly(error)
            except Exception as error:
                log.exception("the job failed unexpectedly")
                text = self.control.scrub(f"{type(error).__name__}: {error}")  # I12
                self._finish(JobStatus.FAILED, {"error_code": "internal", "error": text})
            if self._heartbeat.is_lost:
                self.metrics.claim_lost()
                log.warning("another worker has the job now, or may have it: this worker stops and reports nothing")

    def _run(self) -> None:
        submission = self.submission
        kind = kind_of(submission.kind)
        earlier = self._ended_runs()
        if (done := kind.finished(submission, earlier)) is not None:
            return self._finish_as(done)
        if submission.cancel_requested:
            raise Cancelled("The job was cancelled.")
        if (pause := self.records.ledger.pause(submission.table)) is not None and pause.holds_at(self.now_ms()):
            return self._wait_for(pause)
        if submission.run_id is None:  # otherwise the job was taken over
            self.metrics.job_started(submission)
        if (deaths := sum(map(died, earlier))) >= self.settings.queue.max_attempts:
            raise GivenUp(
                f"{deaths} processes died while they ran the job.",
                hint="Check whether the job needs more memory than the processes have.",
            )
        # Names of output files contain the run id, so it is random. A store that was restored from a backup returns the
        # same job again, and its earlier files may be part of the table by now [I5].
        self._run_id = str(uuid.uuid4())
        if not self.records.queue.update(submission.job_id, self._token, {"run_id": self._run_id}):
            return self._heartbeat.stop(StopReason.LOST)
        self._events.status("running", attempt=submission.attempts)
        with self.control.tracer.continued(submission.trace):
            result = kind.run(self._context(self._run_id, earlier))
        if not result.has_committed and (done := kind.finished(submission, self._earlier_runs())) is not None:
            return self._finish_as(done)  # the table shows that an earlier run had committed
        return self._finish_with(result)

    def _context(self, run_id: str, earlier: Sequence[Job]) -> RunContext:
        return RunContext(
            settings=self.settings,
            control=self.control,
            records=self.records,
            submission=self.submission,
            run_id=run_id,
            earlier=earlier,
            on_event=self._on_event,
            cancel=self._cancel,
            is_last=self.submission.attempts >= self.settings.queue.max_attempts,
        )

    def _on_event(self, event: Event) -> None:
        log_event(event)
        self._events(event)
        if isinstance(event, StageStarted) and event.stage is Stage.EXECUTE and self._run_id is not None:
            self.estimates.take_from(self.submission, self.records.store.get(self._run_id))

    def _ended_runs(self) -> list[Job]:
        """Returns the earlier runs, after recovering those that died."""
        runs = self._earlier_runs()
        left_open = [run for run in runs if run.is_open]
        if not left_open:
            return runs
        self.metrics.job_taken_over()
        log.warning("job taken over: %s stopped responding while it ran the job", owners(left_open))
        self._events.write(
            "notice",
            {"level": "warning", "message": "The worker stopped responding; another worker continues the job."},
        )
        for run in left_open:
            self.control.ended_run(run.job_id)
        return self._earlier_runs()

    def _earlier_runs(self) -> list[Job]:
        return earlier_runs(self.records.store, self.submission, self._run_id)

    def _finish_as(self, done: Job) -> None:
        outcome = done.outcome or ("committed" if has_committed(done) else "nothing")
        changes = {"run_id": done.job_id, "outcome": outcome, "dollars": done.actual_dollars}
        self._finish(JobStatus.SUCCEEDED, {**changes, "error_code": done.error_code, "error": done.error})

    def _finish_with(self, result: RunOutcome) -> None:
        failure = result.failure
        self._finish(
            JobStatus.SUCCEEDED,
            {
                "run_id": result.run.job_id,
                "outcome": result.outcome,
                "dollars": result.run.actual_dollars,
                "error_code": failure.code if failure else None,
                "error": self.control.scrub(str(failure)) if failure else None,
            },
            result.sizes_written,
        )

    def _end_badly(self, error: TidybergError) -> None:
        why, queue = self._heartbeat.stopped, self.settings.queue
        if why is StopReason.LOST:
            return  # another worker has the job now
        # The hint suggests similar namespaces, which may belong to other tenants.
        words = self.control.scrub(error.message if isinstance(error, UnknownNamespace) else str(error))  # I12
        reported = {"error_code": error.code, "error": words}
        if isinstance(error, Cancelled) and why is StopReason.SHUTDOWN:
            # The job is not at fault, so this costs no attempt.
            self._put_back(0.0, "The service that ran the job was stopped.", attempts=self.submission.attempts - 1)
        elif isinstance(error, Cancelled):
            self._finish(JobStatus.CANCELLED, reported)
        elif isinstance(error, Transient) and self.submission.attempts < queue.max_attempts:
            wait = backoff_seconds(self.submission.attempts - 1, queue.retry_seconds, queue.max_retry_seconds)
            self.metrics.job_retried()
            self._put_back(wait, f"{error.code}: {words}")
        else:
            gave_up = isinstance(error, GivenUp | Transient)
            self._finish(JobStatus.FAILED, reported, event="given_up" if gave_up else "failed")

    def _finish(
        self,
        status: JobStatus,
        changes: Mapping[str, Any],
        sizes: Sequence[int] = (),
        event: NotifiedEvent = "failed",
    ) -> None:
        def finish() -> bool:
            return self.records.queue.finish(
                self.submission.job_id, self._token, status, now_ms=self.now_ms(), changes=changes
            )

        if self._record_result(finish):
            log.info("the job %s", status.value)
            self._events.status(status.value, outcome=changes.get("outcome"), error=changes.get("error"))
            if changes.get("outcome") in ("committed", "partly"):
                self.estimates.forget(self.submission.table)
            self._count(sizes)
            if changes.get("outcome") == "waiting":
                self._count_in_a_row()
            if status is JobStatus.FAILED:
                self.notify(event, replace(self.submission, status=status, **changes))

    def _count(self, sizes: Sequence[int]) -> None:
        with suppress(TidybergError):
            ended = self.records.queue.submission(self.submission.job_id)
            if ended is not None:
                run = self.records.store.get(ended.run_id) if ended.run_id else None
                self.metrics.job_ended(ended, run, sizes)

    def _count_in_a_row(self) -> None:
        """Warns if the last jobs of a schedule all left the table waiting: the schedule has no effect."""
        submission, wanted = self.submission, self.settings.scheduler.waiting_in_a_row
        if submission.created_by != "auto" and not submission.created_by.startswith("schedule:"):
            return
        query = Query(
            table=submission.table,
            created_by=submission.created_by,
            statuses=frozenset((JobStatus.SUCCEEDED,)),
            limit=wanted,
        )
        with suppress(TidybergError):
            last = self.records.queue.submissions(query).submissions
            if len(last) == wanted and all(each.outcome == "waiting" for each in last):
                self.metrics.schedule_starved()
                log.warning("the last %d jobs of %s left the table waiting", wanted, submission.created_by)

    def _wait_for(self, pause: Pause) -> None:
        """Puts the job back until the pause ends. Checks earlier too, as the table may be resumed. Costs no attempt."""
        left = PAUSE_LOOK_SECONDS if pause.until_ms is None else (pause.until_ms - self.now_ms()) / 1000
        reason = f"table-paused: {pause.paused_by} has paused the table: {pause.reason}"
        self._put_back(min(left, PAUSE_LOOK_SECONDS), reason, attempts=self.submission.attempts - 1)

    def _put_back(self, wait_seconds: float, reason: str, attempts: int | None = None) -> None:
        def put_back() -> bool:
            return self.records.queue.put_back(
                self.submission.job_id,
                self._token,
                not_before_ms=self.now_ms() + round(wait_seconds * 1000),
                reason=reason,
                attempts=attempts,
            )

        if self._record_result(put_back):
            self._events.status("queued", reason=reason, retry_in_seconds=round(wait_seconds, 1))

    def _record_result(self, write: Callable[[], bool]) -> bool:
        """Writes the result of the job. Retries while the store is down and the claim may still be valid."""
        while not self._heartbeat.is_lost:
            try:
                if write():
                    return True
                self._heartbeat.stop(StopReason.LOST)
            except Transient:
                self.sleep(_STORE_PAUSE_SECONDS)
        return False

    @property
    def _token(self) -> int:
        assert self.submission.claim is not None
        return self.submission.claim.token
