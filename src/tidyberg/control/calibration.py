"""Learns from finished jobs how fast this installation rewrites, for the next estimate.

Each figure is the median of what single jobs tell, with the default counted twice among them: one job alone changes
nothing, three that agree settle it, and one that went astray, however far, never moves a figure beyond what the other
jobs and the default say. A job tells of what it was busy with: one of large files of the bytes that a core rewrites in
a second, one of tiny files of the seconds that each file takes, and any of them of the time that jobs take beside:
planning, committing, and what an engine needs to start and to hand out tasks. What a job copied and what it encoded are
told apart: each has a rate of its own. Groups of which it spliced pages tell nothing of speed: no plan can know what
share of its bytes will be moved, and the speed of those that were would be wrong for the next that are not. Nor do jobs
of so few groups that each was encoded on several cores: how busy these were is not known.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import get_args

from tidyberg.model.accuracy import Accuracy, CalibrationReport, PredictedJob, Quantity, QuantityAccuracy, accuracies
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.options import Calibration, cores_of_task
from tidyberg.model.table import TableRef

SAMPLES = 20
_DEFAULT_COUNTS = 2
_ROUNDS = 4  # bytes and files are told apart by turns; it hardly moves after the second
_TOLD_BY = 0.5  # core seconds that a job must take to tell of speed: below, other things weigh more
_NEWEST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _Part:
    """What a job did in one mode."""

    read: int
    files: int
    core_seconds: float


@dataclass(frozen=True, slots=True)
class _Sample:
    encoded: _Part
    copied: _Part
    written: int  # of what was encoded
    spliced_seconds: float  # of cores
    busy: int
    seconds: float
    tells_speed: bool


def calibrate(jobs: Sequence[Job], cluster: str) -> Calibration:
    """From the newest jobs on this cluster that rewrote something; the defaults where there are none."""
    samples = [sample for job in jobs if (sample := _sample(job, cluster)) is not None][:SAMPLES]
    of_speed = [sample for sample in samples if sample.tells_speed]
    rate, per_file = _speed([sample.encoded for sample in of_speed if sample.encoded.core_seconds >= _TOLD_BY])
    copy_rate = _copy_rate([sample.copied for sample in of_speed if sample.copied.core_seconds >= _TOLD_BY], per_file)
    defaults = Calibration()
    beside = [
        sample.seconds
        - (
            _core_seconds(sample.encoded, rate, per_file)
            + _core_seconds(sample.copied, copy_rate, per_file)
            + sample.spliced_seconds
        )
        / sample.busy
        for sample in samples
    ]
    ratios = [sample.written / sample.encoded.read for sample in samples if sample.encoded.read]
    return Calibration(
        jobs=len(samples),
        encode_bytes_per_core_second=rate,
        seconds_per_job=max(0.0, _settled(beside, defaults.seconds_per_job)),
        seconds_per_file=per_file,
        output_ratio=min(2.0, max(0.05, _settled(ratios, defaults.output_ratio))),
        copy_bytes_per_core_second=copy_rate,
    )


def _sample(job: Job, cluster: str) -> _Sample | None:
    if job.status is not JobStatus.SUCCEEDED or job.error_code is not None or job.cluster != cluster:
        return None
    if job.groups_adopted or not (job.task_seconds and job.cores and job.progress.bytes_written):
        return None  # what a dead job had rewritten took no time here
    if job.started_ms is None or job.finished_ms is None:
        return None
    at_once = job.options.get("max_parallelism") or job.cores
    copied, spliced, progress = job.copied, job.spliced, job.progress
    each = 1 if job.options.get("max_parallelism") else cores_of_task(job.cores, progress.groups_total)
    busy = max(1, min(job.cores, progress.groups_total * each, at_once))
    return _Sample(
        encoded=_Part(
            progress.bytes_read - (copied.bytes - copied.bytes_moved) - spliced.bytes,
            progress.files_processed - copied.files - spliced.files,
            job.task_seconds - copied.seconds - spliced.seconds,
        ),
        copied=_Part(copied.bytes, copied.files, copied.seconds),
        written=progress.bytes_written - copied.bytes - spliced.bytes_written,
        spliced_seconds=spliced.seconds,
        busy=busy,
        seconds=(job.finished_ms - job.started_ms) / 1000,
        tells_speed=each == 1 or copied.groups == progress.groups_total,  # a copy takes one core
    )


def _speed(samples: Sequence[_Part]) -> tuple[float, float]:
    """Bytes per core second and seconds per file."""
    defaults = Calibration()
    rate, per_file = defaults.encode_bytes_per_core_second, defaults.seconds_per_file
    for _ in range(_ROUNDS):
        of_bytes = [sample for sample in samples if sample.read / rate >= sample.files * per_file]
        of_files = [sample for sample in samples if sample.read / rate < sample.files * per_file]
        rates = [sample.read / _rest(sample, sample.files * per_file) for sample in of_bytes]
        rate = max(1.0, _settled(rates, defaults.encode_bytes_per_core_second))
        per_files = [_rest(sample, sample.read / rate) / sample.files for sample in of_files]
        per_file = _settled(per_files, defaults.seconds_per_file)
    return rate, per_file


def _copy_rate(samples: Sequence[_Part], per_file: float) -> float:
    rates = [sample.read / _rest(sample, sample.files * per_file) for sample in samples]
    return max(1.0, _settled(rates, Calibration().copy_bytes_per_core_second))


def _rest(sample: _Part, explained: float) -> float:
    """Core seconds that the other part does not explain; some are always left."""
    return max(sample.core_seconds - explained, sample.core_seconds / 10)


def _core_seconds(sample: _Part, rate: float, per_file: float) -> float:
    return sample.read / rate + sample.files * per_file


def _settled(told: Iterable[float], default: float) -> float:
    return median([*told, *(default for _ in range(_DEFAULT_COUNTS))])


def report(jobs: Sequence[Job], cluster: str, shown: Callable[[TableRef], bool]) -> CalibrationReport:
    """What was learned from these jobs, newest first, and how well those of tables that may be shown were predicted."""
    judged = [(job, found) for job in jobs if shown(job.table) and (found := accuracies(job))]
    return CalibrationReport(
        cluster=cluster,
        calibration=calibrate(jobs, cluster),
        accuracy=tuple(
            _summed_up(quantity, [each for _, found in judged for each in found if each.quantity == quantity])
            for quantity in get_args(Quantity)
        ),
        newest=tuple(PredictedJob(job, tuple(found)) for job, found in judged[:_NEWEST_SHOWN]),
    )


def _summed_up(quantity: Quantity, found: Sequence[Accuracy]) -> QuantityAccuracy:
    ratios = sorted(each.ratio for each in found)
    return QuantityAccuracy(
        quantity=quantity,
        jobs=len(found),
        median_ratio=median(ratios) if ratios else None,
        low_ratio=ratios[len(ratios) // 10] if ratios else None,
        high_ratio=ratios[-1 - len(ratios) // 10] if ratios else None,
    )
