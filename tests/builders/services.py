"""A service over a local warehouse: submitting jobs, waiting for them, and making them slow or fail."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.builders.engines import Slow
from tidyberg.control.control import Control
from tidyberg.errors import TidybergError
from tidyberg.model.principal import LOCAL
from tidyberg.model.report import CompactionResult
from tidyberg.model.submission import Limits, Submission
from tidyberg.service.attempt import Attempt
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

PATIENCE_SECONDS = 60.0


def settings_of(warehouse: Warehouse, **queue: Any) -> Settings:
    return Settings.model_validate(
        {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "compaction": {"min_input_files": 2},
            "store": {"path": str(warehouse.directory / "jobs.db")},
            "queue": {"poll_seconds": 0.05, "retry_seconds": 0.05, "max_retry_seconds": 0.2, **queue},
        }
    )


@dataclass
class Clock:
    """The wall clock plus a time that the test adds."""

    added_ms: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.added_ms


def untidy_table(warehouse: Warehouse, identifier: str = "db.events", files: int = 6) -> list[str]:
    """Creates a table of small files, and returns the rows that no job may change."""
    table = warehouse.create_table(identifier)
    warehouse.append_files(table, files, rows_per_file=20)
    return warehouse.rows(table)


def submit(service: Service, table: str = "db.events", **request: Any) -> Submission:
    return service.submit(SubmitRequest(table, **request), LOCAL)


def ended(service: Service, job_id: str) -> Submission:
    """Waits until the job has ended."""
    return until(lambda: _if_final(service.job(job_id, LOCAL).submission))


Found = TypeVar("Found")


def until(look: Callable[[], Found | None]) -> Found:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) is None:
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.02)
    return found


def _if_final(submission: Submission) -> Submission | None:
    return submission if submission.status.is_final else None


class Failing:
    """Replaces `Control.compact`: raises the given errors first, one per call."""

    def __init__(self, control: Control, *errors: TidybergError | None) -> None:
        self.errors = list(errors)
        self.compact = control.compact

    def __call__(self, *args: Any, **kwargs: Any) -> CompactionResult:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        return self.compact(*args, **kwargs)


def slow(service: Service) -> Slow:
    engine = Slow()
    service.control.open_engine = lambda: engine
    return engine


def claimed(service: Service, worker: str, clock: Clock) -> Submission:
    found = service.records.queue.claim(worker, now_ms=clock(), ttl_ms=30_000, limits=Limits(10))
    assert found is not None
    return found


def attempt(service: Service, submission: Submission, clock: Clock) -> Attempt:
    return replace(service._attempt(submission), now_ms=clock)


@dataclass
class FakeClock:
    now_ms: int

    def __call__(self) -> int:
        return self.now_ms
