"""Measures start-up: a job in a new process, a second job in the same process, and a plan of a small table.

`--against` takes other checkouts, each with its own `.venv`. All take turns on the same tables in one run.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from benchmarks.memory import PeakMemory
from benchmarks.scenarios import SCENARIOS
from benchmarks.warehouse import SMALL_TABLE, TABLE, Bench

_HERE = Path(__file__).absolute().parents[1]
_CATALOG = "lab"
_LOOK_SECONDS = 0.05
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_WARM = """
import json, sys, tidyberg
from pyiceberg.catalog import load_catalog
name, table, properties = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
for _ in range(2):
    given = load_catalog(name, **properties).load_table(table)
    assert tidyberg.compact(given, strategy="full").outcome == "committed"
    print("done", flush=True)
    sys.stdin.readline()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu_seconds:.2f})"


@dataclass
class Checkout:
    """A version of tidyberg, with its own state and caches."""

    directory: Path
    scratch: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        command = ["git", "-C", str(self.directory), "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def environment(self) -> Mapping[str, str]:
        own = {"TIDYBERG_HOME": str(self.scratch / "state"), "XDG_CACHE_HOME": str(self.scratch / "cache")}
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **own}  # bytecode is cached, as in an installation

    def tool(self, name: str) -> str:
        return str(self.directory / ".venv" / "bin" / name)

    def add(self, what: str, cost: Cost) -> None:
        self.costs.setdefault(what, []).append(cost)

    def found(self, what: str) -> Cost:
        costs = self.costs[what]
        return Cost(median(cost.seconds for cost in costs), median(cost.cpu_seconds for cost in costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, nargs="*", default=[], metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=SCENARIOS["encode"].files)
    parser.add_argument("--threads", type=int, default=2, help="N of local[N]")
    parser.add_argument("--work", type=Path, default=Path("bench-results/work"), help="where tables are made and kept")
    options = parser.parse_args()
    # Wait for processes that a command leaves behind, so that their CPU time is counted.
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    scenario = SCENARIOS["encode"].with_files(options.files)
    bench = Bench(options.work / "start", scenario)
    bench.prepare()
    with tempfile.TemporaryDirectory(prefix="bench-start-") as scratch:
        checkouts = [
            Checkout(directory.absolute(), Path(scratch) / str(number))
            for number, directory in enumerate([*options.against, _HERE])
        ]
        config = _write_config(Path(scratch), bench, options.threads)
        for checkout in checkouts:  # compiles bytecode and fills the caches
            for what in ("first job ever", "second job ever"):
                bench.restore()
                checkout.add(what, _command(checkout, config, "compact", TABLE, "--strategy", "full"))
        for _ in range(options.rounds):
            for checkout in checkouts:
                bench.restore()
                checkout.add("plan", _command(checkout, config, "plan", SMALL_TABLE))
                checkout.add("cold job", _command(checkout, config, "compact", TABLE, "--strategy", "full"))
                checkout.add("warm job", _warm(checkout, config, bench))
    _print(checkouts)


def _write_config(scratch: Path, bench: Bench, threads: int) -> Path:
    config = scratch / "tidyberg.yaml"
    document = {
        "catalog": {"name": _CATALOG, **_catalog(bench)},
        "compaction": {"target_file_size": f"{bench.scenario.target_mb}MB"},
        "spark": {"master": f"local[{threads}]"},
    }
    config.write_text(json.dumps(document))  # JSON is YAML too
    return config


def _catalog(bench: Bench) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{bench.live / 'catalog.db'}",
        "warehouse": f"file://{bench.live / 'warehouse'}",
    }


def _command(checkout: Checkout, config: Path, *words: str) -> Cost:
    with _Family() as family:
        started = time.perf_counter()
        done = subprocess.run(
            [checkout.tool("tidyberg"), *words],
            cwd=config.parent, env=checkout.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        _wait_for_those_left()
    if done.returncode:
        raise RuntimeError(f"tidyberg {words[0]} of {checkout.directory} failed:\n{done.stderr[-3000:]}")
    return Cost(seconds, family.cpu_seconds)


def _wait_for_those_left() -> None:
    with suppress(ChildProcessError):
        while True:
            os.wait()


class _Family:
    """Counts the CPU seconds of all processes that the block starts.

    The kernel counts exactly, but misses Spark's Python workers, because no process waits for them. Sampling all
    processes misses the time after the last sample. The larger of both is right within a few hundredths of a second.
    """

    def __init__(self) -> None:
        self._seen: dict[psutil.Process, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._before = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> "_Family":
        self._before = _waited_for()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.cpu_seconds = max(_waited_for() - self._before, sum(self._seen.values()))

    def _look(self) -> None:
        me = psutil.Process()
        while not self._done.wait(_LOOK_SECONDS):
            for process in me.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    self._seen[process] = times.user + times.system


def _waited_for() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _warm(checkout: Checkout, config: Path, bench: Bench) -> Cost:
    """Measures the second of two calls in one process."""
    bench.restore()
    with (
        subprocess.Popen(
            [checkout.tool("python"), "-c", _WARM, _CATALOG, TABLE, json.dumps(_catalog(bench))],
            cwd=config.parent, env=checkout.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process,
        PeakMemory(process.pid) as family,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"tidyberg.compact of {checkout.directory} failed")
        bench.restore()
        before, started = family.cpu_seconds(), time.perf_counter()
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
        cost = Cost(time.perf_counter() - started, family.cpu_seconds() - before)
        process.stdin.write("end\n")
    _wait_for_those_left()  # otherwise they would be counted with the next command
    return cost


def _print(checkouts: list[Checkout]) -> None:
    print("\nmedians: seconds by the clock (CPU seconds of all processes)\n")
    header = ["", *(checkout.name for checkout in checkouts)]
    rows = [[what, *(str(checkout.found(what)) for checkout in checkouts)] for what in checkouts[0].costs]
    ratios = []
    for checkout in checkouts:
        cold, warm = checkout.found("cold job"), checkout.found("warm job")
        ratios.append(f"{cold.seconds / warm.seconds:.2f} ({cold.cpu_seconds / warm.cpu_seconds:.2f})")
    rows.append(["cold / warm", *ratios])
    for line in [header, ["---"] * len(header), *rows]:
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
