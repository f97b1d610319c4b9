"""Estimates how long a job will take: from a recent plan of the same request, or from a plan in the background.

Until there is a plan, the estimate is a guess: the duration of earlier jobs, or the time to rewrite all files.
"""

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median

from tidyberg.control.control import Control
from tidyberg.errors import TidybergError
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.options import Calibration, Strategy
from tidyberg.model.plan import Plan
from tidyberg.model.submission import COMPACT, Submission
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue
from tidyberg.service.catalog_lookup import KnownTable
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings

FRESH_SECONDS = 600.0
TOOK_SECONDS = 10.0
MOST_KEPT = 10_000
MOST_WANTED = 1_000  # further jobs get their estimate when they run
EARLIER_RUNS, NEWEST_RUNS = 20, 5  # runs of a table that are read, and that count

Request = tuple[TableRef, str]


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """The estimated seconds and dollars of a job."""

    seconds: float
    dollars: float


@dataclass
class Estimates:
    settings: Settings
    control: Control
    queue: JobQueue
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: "OrderedDict[Request, tuple[float, JobEstimate]]" = field(default_factory=OrderedDict)
    _took: "OrderedDict[tuple[TableRef, str], tuple[float, float | None]]" = field(default_factory=OrderedDict)
    _wanted: "deque[str]" = field(default_factory=lambda: deque(maxlen=MOST_WANTED))

    def known(self, submission: Submission) -> JobEstimate | None:
        """Returns the estimate in memory, if it is recent."""
        with self._lock:
            found = self._known.get(_request(submission))
            return found[1] if found is not None and self.clock() - found[0] < FRESH_SECONDS else None

    def added_to(self, submission: Submission, observed: KnownTable | None) -> Submission:
        """Returns the submission with the estimate of a recent plan, or with a guess."""
        if (thought := self.known(submission)) is not None:
            return replace(submission, estimated_seconds=thought.seconds, estimated_dollars=thought.dollars)
        return replace(submission, estimated_seconds=self.guess(submission, observed))

    def guess(self, submission: Submission, observed: KnownTable | None) -> float | None:
        """Returns a guess in seconds without a plan, or None if nothing is known."""
        took = self._took_before(submission)
        if took is not None:
            return took
        if submission.kind != COMPACT or observed is None or observed.files is None or observed.bytes is None:
            return None
        # Assumes that every file is encoded, at the default speed.
        speed, cores = Calibration(), self.control.resources.cores
        encoding = observed.bytes / speed.encode_bytes_per_core_second + observed.files * speed.seconds_per_file
        return speed.seconds_per_job + encoding / max(1, cores)

    def _took_before(self, submission: Submission) -> float | None:
        """Caches the result, because reading twenty records costs more than the rest of a submission."""
        key, now = (submission.table, submission.strategy), self.clock()
        with self._lock:
            found = self._took.get(key)
        if found is None or now - found[0] >= TOOK_SECONDS:
            try:
                runs = self.control.store.find(table=submission.table, limit=EARLIER_RUNS)
            except TidybergError:
                return None
            found = now, _took(runs, submission.strategy)
            with self._lock:
                self._took[key] = found
                while len(self._took) > MOST_KEPT:
                    self._took.popitem(last=False)
        return found[1]

    def want(self, submission: Submission) -> None:
        """Requests an estimate in the background."""
        self._wanted.append(submission.job_id)

    def take_from(self, submission: Submission, run: Job | None) -> None:
        """Takes the estimate from a run that has made its plan."""
        if run is not None and run.predicted_seconds is not None:
            self._learn(submission, JobEstimate(run.predicted_seconds, run.predicted_dollars or 0.0))
            self._tell(submission.job_id, submission)

    def learn_plan(self, submission: Submission, plan: Plan) -> None:
        self._learn(submission, JobEstimate(plan.estimate.seconds, plan.estimate.dollars))

    def forget(self, table: TableRef) -> None:
        """Drops the estimates of a table that was compacted."""
        with self._lock:
            for known in (self._known, self._took):
                for request in [request for request in known if request[0] == table]:
                    del known[request]

    def find_out_wanted(self) -> None:
        while self._wanted:
            with suppress(TidybergError):  # the run will provide the estimate
                self._find_out(self._wanted.popleft())

    def _find_out(self, job_id: str) -> None:
        submission = self.queue.submission(job_id)
        if submission is None or submission.status is not JobStatus.QUEUED or submission.estimated_dollars is not None:
            return
        if self.known(submission) is None:
            asked = {**submission.options, "strategy": submission.strategy}
            options = plan_options(self.settings, submission.table, asked)
            self.learn_plan(submission, self.control.plan(submission.table, options))
        self._tell(job_id, submission)

    def _tell(self, job_id: str, submission: Submission) -> None:
        if submission.estimated_dollars is None and (thought := self.known(submission)) is not None:
            with suppress(TidybergError):
                self.queue.estimate(job_id, seconds=thought.seconds, dollars=thought.dollars)

    def _learn(self, submission: Submission, thought: JobEstimate) -> None:
        request = _request(submission)
        with self._lock:
            self._known[request] = (self.clock(), thought)
            self._known.move_to_end(request)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)


def _request(submission: Submission) -> Request:
    options = {**submission.options, "strategy": submission.strategy}
    return submission.table, json.dumps(options, sort_keys=True, default=str)


def _took(runs: Sequence[Job], strategy: str) -> float | None:
    """Returns the median duration of the newest similar runs: best committed ones with the same strategy."""
    ended = [run for run in runs if run.status is JobStatus.SUCCEEDED and run.started_ms and run.finished_ms]
    compactions = [run for run in ended if run.is_compaction] if strategy in frozenset(Strategy) else []
    for alike in (
        [run for run in compactions if run.commits and run.strategy == strategy],
        [run for run in compactions if run.commits],
        compactions,
        [run for run in ended if run.strategy == strategy],
    ):
        if alike:
            return median(((run.finished_ms or 0) - (run.started_ms or 0)) / 1000 for run in alike[:NEWEST_RUNS])
    return None
