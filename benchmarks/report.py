"""Computes ratios, rates and dollars per GB from the runs of a benchmark, and which targets were met."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from benchmarks.measure import Run
from benchmarks.scenarios import Scenario
from benchmarks.side import ON_S3
from tidyberg.model.options import Prices
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.price import request_dollars

ALLOCATED_GB = 4  # the memory limit of a run of tidyberg, and the minimum that is charged
DOLLARS_PER_GB = {"encode": 0.001, "auto": 0.001, "copy": 0.0003}
OF_COPY_RATE = 0.4  # share of the bytes that `cp` copies in the same time
PEAK_BYTES, WORKER_BYTES = 4 * GB, 1 * GB
LARGE_GB, LARGE_CORES = 100, 16  # the extrapolated case


@dataclass(frozen=True, slots=True)
class Input:
    files: int
    rows: int
    bytes: int
    delete_files: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Promise:
    what: str
    wanted: float
    found: float
    at_most: bool = False

    @property
    def kept(self) -> bool:
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted


def scenario_report(scenario: Scenario, given: Input, runs: Sequence[Run], threads: int) -> dict[str, Any]:
    counted = next((run.facts["requests"] for run in reversed(runs) if run.side == ON_S3), None)
    sides = {
        side: _side_report(side, runs, given, threads, counted) for side in dict.fromkeys(run.side for run in runs)
    }
    report: dict[str, Any] = {
        "scenario": scenario.name,
        "title": scenario.title,
        "mode": scenario.mode,
        "input": asdict(given),
        "target_bytes": scenario.target_mb * MB,
        "master": f"local[{threads}]",
        "sides": sides,
        "runs": [asdict(run) for run in runs],
    }
    if ours := sides.get("tidyberg"):
        report["times_faster"] = {
            side: found["median_seconds"] / ours["median_seconds"]
            for side, found in sides.items()
            if side not in ("tidyberg", ON_S3)
        }
        report["extrapolated_seconds"] = extrapolated_seconds(ours["mb_per_core_second"])
        report["promises"] = [{**asdict(promise), "kept": promise.kept} for promise in promises(scenario, sides)]
    return report


def _side_report(
    side: str, runs: Sequence[Run], given: Input, threads: int, counted: Mapping[str, int] | None
) -> dict[str, Any]:
    found = [run for run in runs if run.side == side]
    seconds = statistics.median(run.seconds for run in found)
    peak = max(run.peak_bytes for run in found)
    return {
        "median_seconds": seconds,
        "best_seconds": min(run.seconds for run in found),
        "cpu_seconds": statistics.median(run.cpu_seconds for run in found),
        "mb_per_core_second": given.bytes / MB / seconds / threads,
        "peak_bytes": peak,
        "worker_bytes": max(run.worker_bytes for run in found),
        "outputs": found[-1].outputs,
        "bytes_written": found[-1].bytes_written,
        "dollars_per_gb": dollars_per_gb(found[-1], seconds, peak, given.bytes, counted),
    }


def dollars_per_gb(
    run: Run, seconds: float, peak_bytes: int, total: int, counted: Mapping[str, int] | None
) -> dict[str, Any]:
    """Returns the price: compute from measured time and allocated memory, and requests.

    Requests are counted on S3. Without a run on S3, the plan's model estimates them.
    """
    prices = Prices()
    gigabytes = total / GB
    found: dict[str, Any] = {
        "allocated_gb": allocated_gb(peak_bytes),
        "compute": seconds * allocated_gb(peak_bytes) * prices.compute_per_gb_second / gigabytes,
    }
    if estimate := run.facts.get("estimate"):
        modelled = {"get": estimate["get_requests"], "put": estimate["put_requests"]}
        requests = modelled if counted is None else counted
        found["modelled_requests"], found["counted_requests"] = modelled, counted
        found["requests"] = request_dollars(requests, prices) / gigabytes
        found["total"] = found["compute"] + found["requests"]
        found["storage_until_expiry"] = estimate["storage_dollars"] / gigabytes
    return found


def allocated_gb(peak_bytes: int) -> int:
    """Memory is charged in whole GB for the duration of the job."""
    return max(ALLOCATED_GB, ceil(peak_bytes / GB))


def extrapolated_seconds(mb_per_core_second: float) -> float:
    """Extrapolates to 100 GB on 16 cores of the same speed, with unlimited storage bandwidth."""
    return LARGE_GB * 1024 / (mb_per_core_second * LARGE_CORES)


def promises(scenario: Scenario, sides: dict[str, Any]) -> list[Promise]:
    ours = sides["tidyberg"]
    made = []
    if java := sides.get("java"):
        made.append(
            Promise(
                "times as fast as Java's action", scenario.times_faster, java["median_seconds"] / ours["median_seconds"]
            )
        )
    if scenario.mode == "copy" and (floor := sides.get("cp")):
        made.append(Promise("of the rate of cp", OF_COPY_RATE, floor["median_seconds"] / ours["median_seconds"]))
    made.append(Promise("GB of memory, all processes", PEAK_BYTES / GB, ours["peak_bytes"] / GB, at_most=True))
    made.append(Promise("GB of memory, largest worker", WORKER_BYTES / GB, ours["worker_bytes"] / GB, at_most=True))
    if "total" in ours["dollars_per_gb"]:
        limit = DOLLARS_PER_GB[scenario.mode]
        made.append(Promise("dollars per GB", limit, ours["dollars_per_gb"]["total"], at_most=True))
    return made
