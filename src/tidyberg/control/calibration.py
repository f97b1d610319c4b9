"""Learns from finished jobs how fast this installation rewrites, for the next estimate.

Each figure is the median of the samples of single jobs, with the default counted twice among them. So one job alone
changes nothing, three jobs that agree decide, and no outlier moves a figure beyond the other jobs and the default.

A job is a sample of what dominated it. A job with large files shows how many bytes a core rewrites per second. A job
with tiny files shows how many seconds each file takes. Every job shows the time outside of tasks: planning, committing,
starting the engine and scheduling tasks. Bytes that were encoded, copied, sorted and merged in order have separate
rates.

Two kinds of work are no samples of speed. Spliced groups are none, because no plan knows which share of the bytes will
be moved. Jobs with so few groups that each was encoded on several cores are none, because it is unknown how busy these
cores were.

Sorts are samples also where there are few of them, because most tables are sorted as one group. The time of a sort is
that of all its tasks, of both stages of a shuffle. Only the encoding of an output uses several cores, and it does so in
the next sort of that table as well. Sampling the key is no part of that time: it reads one column of some row groups.
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
_ROUNDS = 4  # bytes and files are separated in turns; the figures hardly change after the second
_MIN_CORE_SECONDS = 0.5  # a shorter job is no sample of speed: other costs dominate it
_NEWEST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _ModeWork:
    """Counts the bytes that a job read in one mode, and the time that it took."""

    read: int
    files: int
    core_seconds: float

    @property
    def shows_speed(self) -> bool:
        # Nothing is divided by zero, or by what is left where a record counts more in one mode than in total.
        return self.core_seconds >= _MIN_CORE_SECONDS and self.read > 0 and self.files > 0


@dataclass(frozen=True, slots=True)
class _Sample:
    encoded: _ModeWork
    copied: _ModeWork
    sorted: _ModeWork
    merged: _ModeWork  # in order
    written_ratio: float | None  # bytes written per byte read, of the rows that were encoded, in any order
    spliced_seconds: float  # of cores
    busy: int
    busy_sorting: int
    seconds: float
    is_speed_sample: bool


def calibrate(jobs: Sequence[Job], cluster: str) -> Calibration:
    """Uses the newest jobs on this cluster that rewrote something. Without any, returns the defaults."""
    samples = [sample for job in jobs if (sample := _sample(job, cluster)) is not None][:SAMPLES]
    of_speed = [sample for sample in samples if sample.is_speed_sample]
    encoded = [sample.encoded for sample in of_speed if sample.encoded.shows_speed]
    copied = [sample.copied for sample in of_speed if sample.copied.shows_speed]
    merged = [sample.merged for sample in of_speed if sample.merged.shows_speed]
    sorts = [sample.sorted for sample in samples if sample.sorted.shows_speed]
    defaults = Calibration()
    rate, per_file = _speed(encoded)
    copy_rate = _rate(copied, per_file, defaults.copy_bytes_per_core_second)
    merge_rate = _rate(merged, per_file, defaults.merge_bytes_per_core_second)
    beside = [
        sample.seconds
        - (
            _core_seconds(sample.encoded, rate, per_file)
            + _core_seconds(sample.copied, copy_rate, per_file)
            + _core_seconds(sample.merged, merge_rate, per_file)
            + sample.spliced_seconds
        )
        / sample.busy
        - sample.sorted.core_seconds / sample.busy_sorting
        for sample in samples
    ]
    ratios = [sample.written_ratio for sample in samples if sample.written_ratio is not None]
    return Calibration(
        jobs=len(samples),
        encode_bytes_per_core_second=rate,
        seconds_per_job=max(0.0, _damped_median(beside, defaults.seconds_per_job)),
        seconds_per_file=per_file,
        output_ratio=min(2.0, max(0.05, _damped_median(ratios, defaults.output_ratio))),
        copy_bytes_per_core_second=copy_rate,
        sort_bytes_per_core_second=_rate(sorts, per_file, defaults.sort_bytes_per_core_second),
        merge_bytes_per_core_second=merge_rate,
    )


def _sample(job: Job, cluster: str) -> _Sample | None:
    if job.status is not JobStatus.SUCCEEDED or job.error_code is not None or job.cluster != cluster:
        return None
    if job.groups_adopted or not (job.task_seconds and job.cores and job.progress.bytes_written):
        return None  # groups adopted from a dead job took no time here
    if job.groups_merged:
        return None  # deletes were merged, and data files were not rewritten
    if job.started_ms is None or job.finished_ms is None:
        return None
    at_once = job.options.get("max_parallelism") or job.cores
    copied, spliced, progress = job.copied, job.spliced, job.progress
    sorts, merges = job.sorts, job.run_merges
    groups = progress.groups_total - sorts.groups  # sorts run after the other groups
    each = 1 if job.options.get("max_parallelism") else cores_of_task(job.cores, groups)
    read = progress.bytes_read - (copied.bytes - copied.bytes_moved) - spliced.bytes
    written = progress.bytes_written - copied.bytes - spliced.bytes_written
    return _Sample(
        encoded=_ModeWork(
            read - sorts.bytes - merges.bytes,
            progress.files_processed - copied.files - spliced.files - sorts.files - merges.files,
            job.task_seconds - copied.seconds - spliced.seconds - sorts.seconds - merges.seconds,
        ),
        copied=_ModeWork(copied.bytes, copied.files, copied.seconds),
        sorted=_ModeWork(sorts.bytes, sorts.files, sorts.seconds),
        merged=_ModeWork(merges.bytes, merges.files, merges.seconds),
        written_ratio=written / read if read else None,
        spliced_seconds=spliced.seconds,
        busy=max(1, min(job.cores, groups * each, at_once)),
        busy_sorting=max(1, min(job.cores, sorts.tasks, at_once)),
        seconds=(job.finished_ms - job.started_ms) / 1000,
        is_speed_sample=each == 1 or copied.groups == groups,  # a copy takes one core
    )


def _speed(samples: Sequence[_ModeWork]) -> tuple[float, float]:
    """Bytes per core second and seconds per file."""
    defaults = Calibration()
    rate, per_file = defaults.encode_bytes_per_core_second, defaults.seconds_per_file
    for _ in range(_ROUNDS):
        of_bytes = [sample for sample in samples if sample.read / rate >= sample.files * per_file]
        of_files = [sample for sample in samples if sample.read / rate < sample.files * per_file]
        rates = [sample.read / _rest(sample, sample.files * per_file) for sample in of_bytes]
        rate = max(1.0, _damped_median(rates, defaults.encode_bytes_per_core_second))
        per_files = [_rest(sample, sample.read / rate) / sample.files for sample in of_files]
        per_file = _damped_median(per_files, defaults.seconds_per_file)
    return rate, per_file


def _rate(samples: Sequence[_ModeWork], per_file: float, default: float) -> float:
    """Bytes per core second."""
    rates = [sample.read / _rest(sample, sample.files * per_file) for sample in samples]
    return max(1.0, _damped_median(rates, default))


def _rest(sample: _ModeWork, explained: float) -> float:
    """Core seconds that the other cost does not explain. At least a tenth always remains."""
    return max(sample.core_seconds - explained, sample.core_seconds / 10)


def _core_seconds(sample: _ModeWork, rate: float, per_file: float) -> float:
    return sample.read / rate + sample.files * per_file


def _damped_median(samples: Iterable[float], default: float) -> float:
    return median([*samples, *(default for _ in range(_DEFAULT_COUNTS))])


def report(jobs: Sequence[Job], cluster: str, shown: Callable[[TableRef], bool]) -> CalibrationReport:
    """Calibration from these jobs (newest first), and the accuracy of estimates for the tables that may be shown."""
    judged = [(job, found) for job in jobs if shown(job.table) and (found := accuracies(job))]
    return CalibrationReport(
        cluster=cluster,
        calibration=calibrate(jobs, cluster),
        accuracy=tuple(
            _summary(quantity, [each for _, found in judged for each in found if each.quantity == quantity])
            for quantity in get_args(Quantity)
        ),
        newest=tuple(PredictedJob(job, tuple(found)) for job, found in judged[:_NEWEST_SHOWN]),
    )


def _summary(quantity: Quantity, found: Sequence[Accuracy]) -> QuantityAccuracy:
    ratios = sorted(each.ratio for each in found)
    return QuantityAccuracy(
        quantity=quantity,
        jobs=len(found),
        median_ratio=median(ratios) if ratios else None,
        low_ratio=ratios[len(ratios) // 10] if ratios else None,
        high_ratio=ratios[-1 - len(ratios) // 10] if ratios else None,
    )
