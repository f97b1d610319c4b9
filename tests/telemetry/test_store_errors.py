"""Failed calls of the store are counted, bad input is not."""

from pathlib import Path

import pytest

from tests.builders.job_records import SUBMISSION, submission
from tests.builders.metrics import value
from tidyberg.app import open_records
from tidyberg.errors import IdempotencyMismatch, StorageError
from tidyberg.model.job import JobStatus
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.metrics import Metrics
from tidyberg.telemetry.store_errors import count_store_errors


def test_failed_calls_are_counted_but_bad_input_is_not(tmp_path: Path) -> None:
    metrics = Metrics()
    settings = Settings.model_validate({"store": {"path": tmp_path / "jobs.db"}})
    records = count_store_errors(open_records(settings), metrics.store_failed)
    asked = submission(JobStatus.QUEUED, started_ms=None, finished_ms=None, run_id=None, attempts=0)
    assert records.queue.submit(asked, key="once") == asked
    with pytest.raises(IdempotencyMismatch):
        records.queue.submit(submission(JobStatus.QUEUED, job_id="job-2", priority=9), key="once")
    assert records.queue.submission(SUBMISSION.job_id) == asked
    assert records.ledger.schedules() == []
    assert value(metrics, "tidyberg_store_errors_total") == 0
    records.close()
    for ask in (records.queue.counts, records.ledger.schedules, lambda: records.store.get("job-1")):
        with pytest.raises(StorageError):
            ask()
    assert value(metrics, "tidyberg_store_errors_total") == 3
