"""`make bench`: the same table rewritten by tidyberg and by Iceberg's Java action; times, ratio and memory."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data import Bench, Size
from benchmarks.delete_files import Deletes
from benchmarks.memory import PeakMemory

MB = 1024 * 1024
SIDES = {
    "tidyberg": "tidyberg encode: plan, execute, verify, commit",
    "java": "Iceberg 1.12.0 `rewrite_data_files` on Spark 4.1",
}


SCENARIOS = {
    "small-files": Size(files=100, rows_per_file=100_000),
    "deletes": Size(files=1_000, rows_per_file=10_000, deletes=Deletes()),
}


@dataclass(frozen=True, slots=True)
class Run:
    side: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    worker_bytes: int  # the largest Python worker; 0 where the work is done in the JVM
    outputs: int
    bytes_written: int


class BenchmarkError(Exception):
    """A side failed, or changed the rows."""


def main() -> None:
    options = parse_options()
    size = SCENARIOS[options.scenario]
    bench = Bench(options.work / options.scenario, replace(size, files=options.files or size.files))
    print(f"preparing {bench.size.files} files of {size.rows_per_file:,} rows", flush=True)
    bench.prepare()
    bench.restore()
    inputs = bench.files()
    expected = bench.expected_checksum()
    total = sum(path.stat().st_size for path in inputs)
    target = options.target_mb * MB
    print(
        f"{len(inputs)} files, {total / MB:.0f} MB, target {options.target_mb} MB, local[{options.threads}]", flush=True
    )

    runs: list[Run] = []
    for number in range(options.rounds):
        # Alternate who goes first: a machine may grow warm or busy on the way.
        for side in options.sides if number % 2 == 0 else reversed(options.sides):
            runs.append(measure(side, bench, target, options.threads, expected))
            print(f"{side}: {runs[-1].seconds:.2f} s, {runs[-1].outputs} files", flush=True)
    report = make_report(runs, bench.size, total, options)
    options.results.mkdir(parents=True, exist_ok=True)
    results = options.results / f"rewrite-{options.scenario}"
    results.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    text = as_markdown(report)
    results.with_suffix(".md").write_text(text)
    print(f"\n{text}\nwritten to {results}.json and .md")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=list(SCENARIOS), default="small-files")
    parser.add_argument("--files", type=int, help="fewer files than the scenario has, for a quick look")
    parser.add_argument("--target-mb", type=int, default=128, help="target file size of both sides")
    parser.add_argument("--threads", type=int, default=2, help="N of local[N]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--work", type=Path, default=Path("bench-results/work"), help="kept, to be used again")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    return parser.parse_args()


def measure(side: str, bench: Bench, target_bytes: int, threads: int, expected: str) -> Run:
    bench.restore()
    before = set(bench.files())
    log = bench.directory / f"{side}.log"
    arguments = [side, str(bench.live), str(target_bytes), str(threads)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side", *arguments],
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
        if process.stdout.readline():  # warm
            cpu_before = memory.cpu_seconds()
            process.stdin.write(b"go\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise BenchmarkError(f"{side} failed; the end of {log}:\n{log.read_text()[-3000:]}")
        cpu_seconds = memory.cpu_seconds() - cpu_before
        seconds = float(json.loads(answer)["seconds"])
        process.stdin.write(b"end\n")
    after = bench.files()
    if bench.checksum() != expected:
        raise BenchmarkError(f"{side} changed the rows of the table")
    if before & set(after):
        raise BenchmarkError(f"{side} left {len(before & set(after))} files as they were")
    return Run(
        side,
        seconds,
        cpu_seconds,
        memory.peak_bytes,
        memory.worker_bytes,
        len(after),
        sum(path.stat().st_size for path in after),
    )


def make_report(runs: list[Run], size: Size, total: int, options: argparse.Namespace) -> dict[str, Any]:
    sides = {side: [run for run in runs if run.side == side] for side in options.sides}
    report: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1024**3),
            "system": platform.platform(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("tidyberg", "pyspark", "pyarrow", "pyiceberg")},
        },
        "input": {"bytes": total, "rows": size.files * size.rows_per_file, **asdict(size)},
        "target_bytes": options.target_mb * MB,
        "master": f"local[{options.threads}]",
        "runs": [asdict(run) for run in runs],
        "sides": {
            side: {
                "best_seconds": min(run.seconds for run in found),
                "median_seconds": statistics.median(run.seconds for run in found),
                "cpu_seconds": statistics.median(run.cpu_seconds for run in found),
                "peak_bytes": max(run.peak_bytes for run in found),
                "worker_bytes": max(run.worker_bytes for run in found),
                "outputs": found[-1].outputs,
                "bytes_written": found[-1].bytes_written,
            }
            for side, found in sides.items()
        },
    }
    if len(sides) == len(SIDES):
        medians = {side: numbers["median_seconds"] for side, numbers in report["sides"].items()}
        report["times_faster"] = medians["java"] / medians["tidyberg"]
    return report


def as_markdown(report: dict[str, Any]) -> str:
    machine, given = report["machine"], report["input"]
    deletes = given["deletes"]
    with_deletes = (
        f" with {deletes['per_file'] * given['files']:,} position delete files and "
        f"{deletes['equality_files']:,} equality delete files"
        if deletes
        else ""
    )
    lines = [
        f"{given['files']:,} files, {given['rows']:,} rows, {given['bytes'] / MB:.0f} MB{with_deletes}; target "
        f"{report['target_bytes'] // MB} MB; {report['master']} on {machine['cores']} cores, "
        f"{machine['memory_gb']} GB; {report['at'][:10]}",
        "",
        "| | median | best | CPU | outputs | written | peak memory (PSS) | largest worker |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for side, numbers in report["sides"].items():
        lines.append(
            f"| {SIDES[side]} | {numbers['median_seconds']:.1f} s | {numbers['best_seconds']:.1f} s "
            f"| {numbers['cpu_seconds']:.1f} s | {numbers['outputs']} | {numbers['bytes_written'] / MB:.0f} MB "
            f"| {numbers['peak_bytes'] / MB:,.0f} MB | {numbers['worker_bytes'] / MB:,.0f} MB |"
        )
    if "times_faster" in report:
        lines += ["", f"tidyberg is {report['times_faster']:.1f} times as fast."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
