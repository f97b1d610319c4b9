"""A service with a temporary warehouse, SQLite, the inline engine and a movable clock."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tidyberg.app import build_service
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Submission
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

PATIENCE_SECONDS = 60.0


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lab") as warehouse:
        yield warehouse


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
    """The wall clock plus an offset that a test sets."""

    added_ms: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.added_ms


@pytest.fixture
def make_service(warehouse: Warehouse) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(**queue: Any) -> Service:
        service = build_service(settings_of(warehouse, **queue))
        made.append(service)
        return service

    yield make
    for service in made:
        service.stop()


@pytest.fixture
def service(make_service: Callable[..., Service]) -> Service:
    """Returns a service that accepts jobs. It runs them after `start`."""
    return make_service()


def untidy_table(warehouse: Warehouse, identifier: str = "db.events", files: int = 6) -> list[str]:
    """Creates the table and returns the rows that it must keep."""
    table = warehouse.create_table(identifier)
    warehouse.append_files(table, files, rows_per_file=20)
    return warehouse.rows(table)


def submit(service: Service, table: str = "db.events", **request: Any) -> Submission:
    return service.submit(SubmitRequest(table, **request), LOCAL)


def ended(service: Service, job_id: str) -> Submission:
    """Waits until the job has ended and returns it."""
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


def has_status(service: Service, job_id: str, status: JobStatus) -> Submission | None:
    found = service.job(job_id, LOCAL).submission
    return found if found.status is status else None
