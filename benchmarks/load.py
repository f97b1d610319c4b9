"""Measures a service under a load of submissions: an open loop against `tidyberg serve`, on SQLite and on Redis.

    python -m benchmarks.load [--store sqlite|redis] [--seconds 50] [--rate 200] [--connections 200] [--python PATH]

No job may be lost or run twice. Latencies count from the scheduled time of a request. The service runs jobs meanwhile.
`--python` names the interpreter of another environment; the same client then measures the tidyberg in it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from tests.servers.redis import RedisServer
from tests.servers.server import free_port

from benchmarks.open_loop import Answer, Call, send
from tidyberg.testing import Warehouse

START_SECONDS = 120
REPEATS = 100
SHED = (429, 503)


@dataclass(frozen=True)
class Load:
    rate: float = 200
    seconds: float = 50
    connections: int = 200
    workers: int = 2
    tables: int = 40
    python: str = sys.executable  # the interpreter whose tidyberg serves
    environment: tuple[tuple[str, str], ...] = ()  # further settings of the service

    @property
    def submissions(self) -> int:
        return round(self.rate * self.seconds)


@dataclass
class Outcome:
    answers: list[Answer]
    kept: list[str]  # ids of all jobs that the service lists afterwards
    repeated: list[Answer]  # responses to calls that were repeated with the same idempotency keys
    memory: list[int]  # bytes, sampled once a second
    cpu_seconds: float  # of the service during the load; on a busy machine this is more reliable than latencies
    client_cpu_seconds: float
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    def problems(self) -> list[str]:
        """Returns what is wrong with the outcome. It is empty if all is well."""
        reported = {answer.key: answer.body["job_id"] for answer in self.answers if answer.status == 202}
        found = []
        if not set(self.statuses) <= {202, *SHED}:
            found.append(f"some calls were neither accepted nor shed: {dict(self.statuses)}")
        if lost := set(reported.values()) - set(self.kept):
            found.append(f"{len(lost)} jobs were lost")
        if len(set(reported.values())) < len(reported) or len(self.kept) > len(set(self.kept)):
            found.append("a job occurs twice")
        later = {answer.body["job_id"] for answer in self.repeated if answer.status == 202}
        if strange := set(self.kept) - set(reported.values()) - later:
            found.append(f"{len(strange)} jobs exist that no response named")
        repeated = [answer for answer in self.repeated if answer.status not in SHED and answer.key in reported]
        if any(answer.body.get("job_id") != reported[answer.key] for answer in repeated):
            found.append("a repeated call made another job")
        return found

    @property
    def shed(self) -> float:
        """The share of calls that were rejected and may be sent again later."""
        return sum(self.statuses[status] for status in SHED) / len(self.answers)

    def milliseconds(self) -> dict[str, dict[str, float] | None]:
        taken = [answer.seconds for answer in self.answers if answer.status == 202]
        shed = [answer.seconds for answer in self.answers if answer.status in SHED]
        late = [answer.late_seconds for answer in self.answers]
        return {"accepted": quantiles(taken), "shed": quantiles(shed), "sent_late": quantiles(late)}


def quantiles(seconds: list[float]) -> dict[str, float] | None:
    """Returns the quantiles in milliseconds."""
    if not seconds:
        return None
    times = sorted(seconds)
    parts = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1}
    return {name: round(1000 * times[min(len(times) - 1, int(part * len(times)))], 1) for name, part in parts.items()}


def measure(directory: Path, load: Load, redis_url: str | None) -> Outcome:
    with (
        Warehouse(directory / "lab", "default") as warehouse,
        serving(directory, warehouse, load, redis_url) as (process, port),
    ):
        for number in range(load.tables):
            warehouse.append_files(warehouse.create_table(f"db.t{number}"), 5, 20)
        calls = [
            Call(
                "/api/v1/compact", {"table": f"db.t{number % load.tables}", "strategy": "small_files"}, f"key-{number}"
            )
            for number in range(load.submissions)
        ]
        with watching(process) as memory:
            before = sum(process.cpu_times()[:2])
            sent = send("127.0.0.1", port, calls, per_second=load.rate, connections=load.connections)
            cpu_seconds = sum(process.cpu_times()[:2]) - before
        again = send("127.0.0.1", port, calls[:REPEATS], per_second=load.rate, connections=10).answers
        listed = list(jobs(f"http://127.0.0.1:{port}"))
    ended = Counter(status for _, status in listed)
    kept = [job_id for job_id, _ in listed]
    return Outcome(sent.answers, kept, again, memory, cpu_seconds, sent.cpu_seconds, ended)


@contextmanager
def serving(
    directory: Path, warehouse: Warehouse, load: Load, redis_url: str | None
) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    command = [load.python, "-c", "from tidyberg.cli.main import run; run()", "serve"]
    command += ["--port", str(port), "--workers", str(load.workers), "--engine", "inline"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDYBERG_", "REDIS_"))}
    environment = {
        **kept,
        "CATALOG_URI": warehouse.properties["uri"],
        "CATALOG_WAREHOUSE": warehouse.properties["warehouse"],
        "TIDYBERG_HOME": str(directory / "state"),
        **({"REDIS_URL": redis_url} if redis_url else {}),
        **dict(load.environment),
    }
    with (
        (directory / "serve.log").open("wb") as log,
        subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while not is_ready(f"http://127.0.0.1:{port}"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((directory / "serve.log").read_text()[-2000:])
                time.sleep(0.1)
            yield psutil.Process(process.pid), port
        finally:
            process.kill()


def interpreter(path: str) -> str:
    """Returns the interpreter of the environment whose tidyberg serves."""
    return str(Path(path).absolute())  # not resolved: the link itself identifies the environment


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def watching(process: psutil.Process) -> Iterator[list[int]]:
    """Samples the memory of the process once a second."""
    seen: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(1):
            seen.append(process.memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def jobs(url: str) -> Iterator[tuple[str, str]]:
    """Returns the id and status of every job that the service lists."""
    cursor = None
    while True:
        parameters = {"limit": 500, **({"cursor": cursor} if cursor else {})}
        page = httpx.get(f"{url}/api/v1/jobs", params=parameters, timeout=60).json()
        yield from ((job["job_id"], job["status"]) for job in page["jobs"])
        if (cursor := page["next_cursor"]) is None:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--store", choices=["sqlite", "redis"], action="append")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=50)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--python", type=interpreter, default=sys.executable, help=interpreter.__doc__)
    parser.add_argument("--fsync", choices=["everysec", "always"], default="everysec", help="Redis's; its own default")
    arguments = parser.parse_args()
    load = Load(arguments.rate, arguments.seconds, arguments.connections, arguments.workers, python=arguments.python)
    failed = False
    for store in arguments.store or ["sqlite", "redis"]:
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            redis = None
            if store == "redis":
                redis = stack.enter_context(RedisServer(directory, durable=True, fsync=arguments.fsync))
            outcome = measure(directory, load, redis.url if redis else None)
        print(json.dumps({"store": store, **report(outcome)}, indent=2), flush=True)
        failed |= bool(outcome.problems())
    sys.exit(1 if failed else 0)


def report(outcome: Outcome) -> dict[str, object]:
    megabytes = [seen // 2**20 for seen in outcome.memory]
    return {
        "problems": outcome.problems(),
        "statuses": dict(outcome.statuses),
        "share_shed": round(outcome.shed, 3),
        "jobs": dict(outcome.ended),
        "milliseconds": outcome.milliseconds(),
        "cpu_milliseconds_each": {
            "service": round(1000 * outcome.cpu_seconds / len(outcome.answers), 2),
            "client": round(1000 * outcome.client_cpu_seconds / len(outcome.answers), 2),
        },
        "megabytes": megabytes[:: max(1, len(megabytes) // 10)],
    }


if __name__ == "__main__":
    main()
