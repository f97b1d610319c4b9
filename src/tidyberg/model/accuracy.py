"""Compares the prediction of a job's plan with what the job took."""

from dataclasses import dataclass
from typing import Literal

from tidyberg.model.job import Job, JobStatus
from tidyberg.model.options import Calibration

Quantity = Literal["seconds", "bytes", "dollars"]


@dataclass(frozen=True, slots=True)
class Accuracy:
    quantity: Quantity
    predicted: float
    actual: float

    @property
    def ratio(self) -> float:
        """1 means exact, 2 means twice as much as predicted."""
        return self.actual / self.predicted


def accuracies(job: Job) -> list[Accuracy]:
    """Return the accuracies of a job that did everything in its plan. Other jobs have none."""
    if job.status is not JobStatus.SUCCEEDED or job.error_code is not None or not job.commits or job.groups_adopted:
        return []
    seconds = None if job.started_ms is None or job.finished_ms is None else (job.finished_ms - job.started_ms) / 1000
    pairs: list[tuple[Quantity, float | None, float | None]] = [
        ("seconds", job.predicted_seconds, seconds),
        ("bytes", job.predicted_bytes, job.progress.bytes_written),
        ("dollars", job.predicted_dollars, job.actual_dollars),
    ]
    return [
        Accuracy(quantity, predicted, actual)
        for quantity, predicted, actual in pairs
        if predicted and actual is not None
    ]


@dataclass(frozen=True, slots=True)
class QuantityAccuracy:
    """The median and the lowest and highest decile of actual to predicted, over several jobs."""

    quantity: Quantity
    jobs: int
    median_ratio: float | None
    low_ratio: float | None
    high_ratio: float | None


@dataclass(frozen=True)
class PredictedJob:
    job: Job
    accuracy: tuple[Accuracy, ...]


@dataclass(frozen=True)
class CalibrationReport:
    """The basis of estimates, and how good they were."""

    cluster: str
    calibration: Calibration
    accuracy: tuple[QuantityAccuracy, ...]
    newest: tuple[PredictedJob, ...]
