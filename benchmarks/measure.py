"""Runs one side on a fresh copy of a scenario's table. Measures time, CPU and memory, and compares the rows."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.memory import PeakMemory, touch_memory
from benchmarks.side import Order
from benchmarks.warehouse import Bench, RowSum

MB = 1024 * 1024


class BenchmarkError(Exception):
    """A side failed, or changed the rows."""


@dataclass(frozen=True, slots=True)
class Run:
    side: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    worker_bytes: int  # of the largest process that is neither the first one nor a JVM
    outputs: int
    bytes_written: int
    facts: dict[str, Any] = field(default_factory=dict)  # what the side reports about itself


def measure(side: str, bench: Bench, threads: int, expected: RowSum) -> Run:
    bench.restore()
    before = set(bench.data_files())
    answer, cpu_seconds, memory = _run(side, bench, threads)
    facts = bench.facts()
    after = bench.data_files()
    if side != "cp":
        if (found := bench.rows_left()) != expected:
            raise BenchmarkError(f"{side} changed the rows of the table: {found} instead of {expected}")
        kept = set() if bench.keeps_files else before & set(after)
        if kept:
            raise BenchmarkError(f"{side} left {len(kept)} files as they were")
    return Run(
        side,
        float(answer.pop("seconds")),
        cpu_seconds,
        memory.peak_bytes,
        memory.worker_bytes,
        len(after),
        sum(path.stat().st_size for path in after),
        {**answer, **facts},
    )


def _run(side: str, bench: Bench, threads: int) -> tuple[dict[str, Any], float, PeakMemory]:
    scenario = bench.scenario
    order = Order(str(bench.catalog), scenario.target_mb * MB, threads, scenario.mode, bench.properties)
    log = bench.directory / f"{side}.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side", side, json.dumps(asdict(order))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        ) as process,
        PeakMemory(process.pid) as memory,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        cpu_before = 0.0
        if process.stdout.readline():  # the side has warmed up
            bench.begin()
            touch_memory()
            cpu_before = memory.cpu_seconds()
            process.stdin.write(b"go\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise BenchmarkError(f"{side} failed; the end of {log}:\n{log.read_text()[-3000:]}")
        cpu_seconds = memory.cpu_seconds() - cpu_before
        process.stdin.write(b"end\n")
    return json.loads(answer), cpu_seconds, memory
