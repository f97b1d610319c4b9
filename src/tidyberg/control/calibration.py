"""Learns from finished jobs how fast this installation rewrites, for the next estimate."""

from collections.abc import Sequence
from statistics import median

from tidyberg.model.job import Job, JobStatus
from tidyberg.model.options import Calibration

SAMPLES = 10


def calibrate(jobs: Sequence[Job], engine: str) -> Calibration:
    """From the newest jobs of this engine that rewrote something; the defaults where there are none."""
    samples = [
        job
        for job in jobs
        if job.status is JobStatus.SUCCEEDED
        and job.engine == engine
        and job.execute_seconds
        and job.cores
        and job.progress.bytes_read
        and job.started_ms is not None
        and job.finished_ms is not None
    ][:SAMPLES]
    defaults = Calibration()
    if not samples:
        return defaults
    return Calibration(
        jobs=len(samples),
        encode_bytes_per_core_second=max(1.0, median(_bytes_per_core_second(job, defaults) for job in samples)),
        seconds_per_job=max(0.0, median(_seconds(job) - (job.execute_seconds or 0.0) for job in samples)),
        seconds_per_file=defaults.seconds_per_file,
        output_ratio=min(
            2.0, max(0.05, median(job.progress.bytes_written / job.progress.bytes_read for job in samples))
        ),
    )


def _bytes_per_core_second(job: Job, defaults: Calibration) -> float:
    busy = min(job.cores or 1, max(1, job.progress.groups_total))
    core_seconds = (job.execute_seconds or 0.0) * busy - defaults.seconds_per_file * job.progress.files_processed
    return job.progress.bytes_read / max(core_seconds, 0.1)


def _seconds(job: Job) -> float:
    return ((job.finished_ms or 0) - (job.started_ms or 0)) / 1000
