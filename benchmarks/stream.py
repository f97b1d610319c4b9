"""Counts the files of a streaming table over a day, with and without `auto`.

    python -m benchmarks.stream [--commits 2880] [--every 30] [--bundled] [--publish]

A real, unpartitioned table gets a commit every 30 seconds of simulated time. Once an hour, `auto` looks at it with its
default settings, and the jobs that it submits are run. "Hot partitions wait" is the old rule of tidyberg: it skipped a
partition with two commits within ten minutes as a whole. Rows are counted at the end. `--bundled` joins commits without
changing the result: one for the first fifty minutes of an hour, and four for the rest. A day then has 120 commits
instead of 2,880. `--publish` rebuilds docs/scheduling-stream.svg.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table, snapshots
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from benchmarks.plot import COLOURS, time_plot
from tidyberg.app import build_control, open_records
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits
from tidyberg.planning import candidates
from tidyberg.record.clock import wall_clock_ms
from tidyberg.service.auto_mode import AutoMode
from tidyberg.service.service import Service
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

DOCS = Path(__file__).parent.parent / "docs"
ROWS_PER_COMMIT = 20
_HOUR_MS = 3_600_000
_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "amount", DoubleType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)


@dataclass
class Clock:
    """A clock that starts now and runs ahead, so that no commit is older than the one before it."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms

    def time(self) -> float:
        return self.now_ms / 1000


@dataclass(frozen=True)
class Day:
    """The result of a stream. Files are counted after each commit."""

    hours: tuple[float, ...]
    files: tuple[int, ...]
    jobs: int
    rows: int
    bytes_written: int  # by compactions

    @property
    def points(self) -> list[tuple[float, float]]:
        return list(zip(self.hours, map(float, self.files), strict=True))


def simulate(
    directory: Path, *, commits: int, every_seconds: int, hot_partitions_wait: bool = False, bundled: bool = False
) -> Day:
    clock = Clock(wall_clock_ms() // _HOUR_MS * _HOUR_MS + _HOUR_MS)
    start_ms = clock.now_ms
    hours, files, written = [], [], 0
    with Warehouse(directory) as warehouse, _simulated(clock, hot_partitions_wait):
        table = warehouse.create_table("db.stream", _SCHEMA, properties={"write.metadata.previous-versions-max": "5"})
        settings = _settings(warehouse)
        records = open_records(settings)
        control = build_control(settings, records.store)
        control.now_ms = clock
        with control:
            service = Service(settings, control, records, now_ms=clock)
            auto = AutoMode(service)
            auto.look()  # the table is empty
            for first, number in _commits(commits, every_seconds, bundled):
                clock.now_ms = start_ms + (first + number) * every_seconds * 1000
                warehouse.append_files(table, number, ROWS_PER_COMMIT, seed=first)
                for is_looked_after in (False, True):
                    if is_looked_after:
                        auto.look()
                        written += _run_jobs(service)
                    hours.append((clock.now_ms - start_ms) / _HOUR_MS)
                    files.append(_files(table))
            jobs = len(control.history(limit=10_000))
        assert len(warehouse.rows(table)) == commits * ROWS_PER_COMMIT, "no row is lost"
    return Day(tuple(hours), tuple(files), jobs, commits * ROWS_PER_COMMIT, written)


def _commits(files: int, every_seconds: int, bundled: bool) -> Iterator[tuple[int, int]]:
    """Yields the number of the first file of each commit, and its number of files."""
    hour = 3600 // every_seconds
    fresh = 600 // every_seconds
    first = 0
    while first < files:
        left = hour - first % hour
        number = 1 if not bundled else left - fresh if left > fresh else max(1, fresh // 4)
        number = min(number, files - first)
        yield first, number
        first += number


def _files(table: Table) -> int:
    head = table.refresh().current_snapshot()
    assert head is not None
    assert head.summary is not None
    return int(head.summary["total-data-files"] or 0)


def _settings(warehouse: Warehouse) -> Settings:
    return Settings.model_validate(
        {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "store": {"path": str(warehouse.directory / "jobs.db")},
            "scheduler": {"auto": {"enabled": True, "max_dollars_per_day": 5.0}},
        }
    )


def _run_jobs(service: Service) -> int:
    """Runs the jobs that `auto` submitted, as a worker would. Returns the bytes written."""
    queue, written = service.records.queue, 0
    while True:
        job = queue.claim("stream", now_ms=service.now_ms(), ttl_ms=_HOUR_MS, limits=Limits(1))
        if job is None or job.claim is None:
            return written
        options = plan_options(service.settings, job.table, {**job.options, "strategy": job.strategy})
        result = service.control.compact(job.table, options)
        written += result.job.progress.bytes_written
        changes = {"outcome": result.outcome, "dollars": result.job.actual_dollars}
        queue.finish(job.job_id, job.claim.token, JobStatus.SUCCEEDED, now_ms=service.now_ms(), changes=changes)


@contextmanager
def _simulated(clock: Clock, hot_partitions_wait: bool) -> Iterator[None]:
    waiting_files = candidates.waiting_files

    def whole(*given: object) -> pa.Table:
        return np.ones(len(waiting_files(*given)), dtype=np.bool_)  # type: ignore[arg-type]

    with patch.object(snapshots, "time", clock):
        if not hot_partitions_wait:
            yield
            return
        with patch.object(candidates, "waiting_files", whole):
            yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=2880)
    parser.add_argument("--every", type=int, default=30, help="seconds between two commits")
    parser.add_argument("--bundled", action="store_true", help="commit files together that come to the same")
    parser.add_argument("--publish", action="store_true", help="renew docs/scheduling-stream.svg")
    given = parser.parse_args()
    series = {}
    for name, waits in (("hot partitions wait (before)", True), ("cold files are given up (now)", False)):
        with tempfile.TemporaryDirectory() as directory:
            day = simulate(
                Path(directory),
                commits=given.commits,
                every_seconds=given.every,
                hot_partitions_wait=waits,
                bundled=given.bundled,
            )
        series[name] = day.points
        print(
            f"{name}: {day.files[-1]:,} files at the end, at most {max(day.files):,}; {day.jobs} jobs wrote "
            f"{day.bytes_written:,} bytes; {day.rows:,} rows before and after"
        )
    if given.publish:
        title = f"Data files of a table with a commit every {given.every} seconds, under auto"
        (DOCS / "scheduling-stream.svg").write_text(time_plot(title, "hours", "files", series, COLOURS[1::-1]))


if __name__ == "__main__":
    main()
