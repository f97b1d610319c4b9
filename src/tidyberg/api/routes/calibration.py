"""The route that shows the speeds behind estimates, and how accurate the estimates were."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import problems
from tidyberg.model.accuracy import Accuracy, CalibrationReport, PredictedJob

router = APIRouter(route_class=AuthenticatedRoute, tags=["operations"])


class Speed(BaseModel):
    """The speeds that estimates use. They are defaults until three jobs were measured."""

    jobs: int = Field(description="How many jobs were measured.")
    bytes_per_core_second: float = Field(examples=[47185920.0])
    seconds_per_file: float = Field(examples=[0.01])
    seconds_per_job: float = Field(description="Fixed seconds per job: start, plan and commit.", examples=[4.0])
    bytes_written_per_byte_read: float = Field(examples=[0.9])
    copied_bytes_per_core_second: float = Field(examples=[419430400.0])
    sorted_bytes_per_core_second: float = Field(examples=[20971520.0])
    merged_bytes_per_core_second: float = Field(
        description="Of sorted files that are merged in their order.", examples=[20971520.0]
    )


class Ratio(BaseModel):
    """The ratio of actual to predicted over several jobs. 1 is exact."""

    quantity: Literal["seconds", "bytes", "dollars"]
    jobs: int
    median: float | None
    low: float | None = Field(description="One job in ten is below this.")
    high: float | None = Field(description="One job in ten is above this.")


class Compared(BaseModel):
    quantity: Literal["seconds", "bytes", "dollars"]
    predicted: float
    actual: float


class ComparedJob(BaseModel):
    job_id: str
    table: str = Field(examples=["analytics.events"])
    finished_at: Moment | None
    compared: list[Compared]


class CalibrationAnswer(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "engine": "local[*]",
                    "speed": {
                        "jobs": 20,
                        "bytes_per_core_second": 61000000.0,
                        "seconds_per_file": 0.008,
                        "seconds_per_job": 3.1,
                        "bytes_written_per_byte_read": 0.82,
                        "copied_bytes_per_core_second": 419430400.0,
                        "sorted_bytes_per_core_second": 20971520.0,
                        "merged_bytes_per_core_second": 20971520.0,
                    },
                    "accuracy": [{"quantity": "seconds", "jobs": 34, "median": 1.04, "low": 0.8, "high": 1.6}],
                    "newest": [
                        {
                            "job_id": "550e8400-e29b-41d4-a716-446655440000",
                            "table": "analytics.events",
                            "finished_at": "2024-01-15T10:05:00Z",
                            "compared": [{"quantity": "seconds", "predicted": 280.0, "actual": 296.4}],
                        }
                    ],
                }
            ]
        }
    )

    engine: str = Field(description="The engine of the jobs; each engine has its own speeds.")
    speed: Speed
    accuracy: list[Ratio]
    newest: list[ComparedJob] = Field(description="The newest jobs that ran their plan completely.")


@router.get("/calibration", summary="Show the accuracy of estimates", responses=problems())
async def read_calibration(context: CurrentContext, who: CurrentPrincipal) -> CalibrationAnswer:
    """Returns the speeds behind estimates of seconds, bytes and dollars, and what jobs actually took."""
    return calibration_answer(await context.read_pool(context.service.calibration, who))


def calibration_answer(report: CalibrationReport) -> CalibrationAnswer:
    known = report.calibration
    return CalibrationAnswer(
        engine=report.cluster,
        speed=Speed(
            jobs=known.jobs,
            bytes_per_core_second=known.encode_bytes_per_core_second,
            seconds_per_file=known.seconds_per_file,
            seconds_per_job=known.seconds_per_job,
            bytes_written_per_byte_read=known.output_ratio,
            copied_bytes_per_core_second=known.copy_bytes_per_core_second,
            sorted_bytes_per_core_second=known.sort_bytes_per_core_second,
            merged_bytes_per_core_second=known.merge_bytes_per_core_second,
        ),
        accuracy=[
            Ratio(
                quantity=each.quantity,
                jobs=each.jobs,
                median=each.median_ratio,
                low=each.low_ratio,
                high=each.high_ratio,
            )
            for each in report.accuracy
        ],
        newest=[_job(each) for each in report.newest],
    )


def _job(predicted: PredictedJob) -> ComparedJob:
    job = predicted.job
    return ComparedJob(
        job_id=job.submission_id or job.job_id,
        table=str(job.table),
        finished_at=job.finished_ms,
        compared=[_compared(each) for each in predicted.accuracy],
    )


def _compared(accuracy: Accuracy) -> Compared:
    return Compared(quantity=accuracy.quantity, predicted=accuracy.predicted, actual=accuracy.actual)
