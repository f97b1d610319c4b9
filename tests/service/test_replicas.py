"""Replicas on one store are killed and stopped at random: every job ends once, no row or live file is lost [I6, I7].

TEST_REPLICA_JOBS, _TABLES, _KILLS, _PAUSES and _RESTARTS say how much; `make test-replicas` raises all, some on Spark.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.builders.control import chunks, leftovers
from tests.builders.sales_table import BY_REGION, SCHEMA
from tests.seed import SEED
from tests.servers.redis import RedisServer
from tests.service.fleet import Fleet
from tidyberg.app import build_service
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Query, Submission
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

JOBS = int(os.environ.get("TEST_REPLICA_JOBS", "20"))
TABLES = int(os.environ.get("TEST_REPLICA_TABLES", "6"))
KILLS = int(os.environ.get("TEST_REPLICA_KILLS", "4"))
PAUSES = int(os.environ.get("TEST_REPLICA_PAUSES", "1"))
RESTARTS = int(os.environ.get("TEST_REPLICA_RESTARTS", "1"))
WITH_SPARK = os.environ.get("TEST_REPLICA_SPARK") == "1"
PATIENCE_SECONDS = 120.0 + 6.0 * JOBS
CLAIM_SECONDS = 1.0
FILES, ROWS = 6, 400


def settings_of(warehouse: Warehouse, store: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {
        "engine": "inline",
        "catalogs": {"lab": warehouse.properties},
        "default_catalog": "lab",
        "compaction": {"min_input_files": 2},
        "store": store,
        "commit": {"min_wait_ms": 10, "max_wait_ms": 200},
        "queue": {
            "workers": 2,
            "claim_seconds": CLAIM_SECONDS,
            "lease_seconds": CLAIM_SECONDS,
            "poll_seconds": 0.1,
            "retry_seconds": 0.2,
            "max_retry_seconds": 2.0,
            "max_attempts": 100,
            "upkeep_seconds": 1.0,
            "grace_seconds": 0.2,  # so that a restart interrupts jobs
        },
        **changes,
    }


def fill(warehouse: Warehouse, name: str, regions: int, rng: random.Random) -> list[str]:
    """Creates a table with small files in each partition, one partition per job. Returns its rows."""
    table = warehouse.create_table(name, SCHEMA, BY_REGION)

    def rows(_: int) -> pa.Table:
        labels = [f"r{region}" for region in range(regions) for _ in range(ROWS)]
        columns = [[rng.randrange(10**9) for _ in labels], labels, [rng.randrange(1000) for _ in labels]]
        types = (pa.int64(), pa.string(), pa.int32())
        return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["id", "region", "amount"])

    warehouse.append_files(table, FILES, rows=rows)
    return warehouse.rows(table)


def jobs_of(service: Service) -> list[Submission]:
    found, cursor = list[Submission](), None
    while True:
        page = service.jobs(Query(limit=1000, cursor=cursor), LOCAL)
        found += page.submissions
        if (cursor := page.next) is None:
            return found


def start_all(fleet: Fleet, service: Service) -> None:
    """Starts the replica with Spark first, because it is slow and others would take all jobs."""
    slow_ones = [number for number, (_, engine) in enumerate(fleet.replicas) if engine == "spark"]
    for number in slow_ones:
        fleet.begin(number)
    until(lambda: not slow_ones or any(run.engine == "spark" for run in service.records.store.find(limit=1000)))
    for number in range(len(fleet.replicas)):
        if number not in slow_ones:
            fleet.begin(number)


def harass(fleet: Fleet, service: Service, requests: list[SubmitRequest], rng: random.Random) -> None:
    """Submits jobs gradually, so that there are always running and queued jobs."""
    blows = ["kill"] * KILLS + ["pause"] * PAUSES + ["restart"] * RESTARTS
    rng.shuffle(blows)
    submitted = 0

    def submit_up_to(number: int) -> None:
        nonlocal submitted
        while submitted < number:
            service.submit(requests[submitted], LOCAL)
            submitted += 1

    first = min(JOBS // 2, 24)
    submit_up_to(first)
    start_all(fleet, service)
    for number, blow in enumerate(blows):
        waiting = rng.randint(1, min(first, 12))
        until(lambda: ended(service) >= submitted - waiting)  # noqa: B023
        time.sleep(rng.uniform(0.0, 0.2))
        match blow:
            case "kill":
                fleet.kill_one()
            case "restart":
                fleet.restart_one()
            case _:
                fleet.pause_one(rng.uniform(2.0, 4.0) * CLAIM_SECONDS)
        submit_up_to(first + (JOBS - first) * (number + 1) // len(blows))
    until(lambda: ended(service) == JOBS)


def ended(service: Service) -> int:
    return sum(job.status.is_final for job in jobs_of(service))


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_job_on_redis_ends_once_despite_killed_replicas(tmp_path: Path, redis_server: RedisServer) -> None:
    check_fleet(tmp_path, {"url": redis_server.url})


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_job_on_sqlite_ends_once_despite_killed_replicas(tmp_path: Path) -> None:
    check_fleet(tmp_path, {"path": str(tmp_path / "jobs.db")})


def check_fleet(tmp_path: Path, store: dict[str, str]) -> None:
    rng = random.Random(SEED)
    with Warehouse(tmp_path / "lab") as warehouse:
        tables = [f"db.t{number}" for number in range(TABLES)]
        per_table = Counter(tables[number % TABLES] for number in range(JOBS))
        expected = {name: fill(warehouse, name, per_table[name], rng) for name in tables}
        inline = settings_of(warehouse, store)
        spark = settings_of(warehouse, store, engine="spark", spark={"master": "local[1]"})
        fleet_settings = [inline, inline, spark if WITH_SPARK else inline]
        service = build_service(Settings.model_validate(inline))
        requests = [
            SubmitRequest(name, options={"where": f"region = 'r{region}'"}, priority=rng.randrange(3))
            for name in tables
            for region in range(per_table[name])
        ]
        rng.shuffle(requests)
        started = time.monotonic()
        with Fleet([(json.dumps(settings), str(settings["engine"])) for settings in fleet_settings], rng) as fleet:
            harass(fleet, service, requests, rng)
            until(lambda: not service.records.store.find(unfinished=True, limit=1000))
            fleet.stop()
        seconds = time.monotonic() - started
        assert (fleet.kills, fleet.pauses, fleet.restarts) == (KILLS, PAUSES, RESTARTS)
        jobs = jobs_of(service)
        assert len(jobs) == JOBS, "no job is lost or doubled"
        for job in jobs:
            assert (job.status, job.outcome, job.error) == (JobStatus.SUCCEEDED, "committed", None), job
            said = [event.data["status"] for event in service.events(job.job_id, LOCAL) if event.kind == "status"]
            assert said.count("succeeded") <= 1, "it ended once; who was killed right then could not tell"
        for name in tables:
            table = warehouse.catalog.load_table(name)
            assert warehouse.rows(table) == expected[name], f"{name} must hold the same rows"
            assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table), "no live file is deleted"
            assert not leftovers(warehouse, table), "nothing is left over"
            live = [file.path for file in warehouse.live_files(table)]
            assert len(live) == len(set(live)) == per_table[name], "each partition is one file now"
            committed = chunks(table)
            assert len(committed) == len(set(committed)) == per_table[name], "each job has committed exactly once"
        runs = service.records.store.find(limit=10_000)
        engines = Counter(run.engine for run in runs if run.engine)
        print(  # noqa: T201
            f"\n{JOBS} jobs on {TABLES} tables in {seconds:.0f} s: {fleet.kills} kills, {fleet.pauses} pauses,"
            f" {fleet.restarts} restarts;"
            f" {sum(job.attempts for job in jobs)} attempts, {len(runs)} runs,"
            f" {sum(run.error_code == 'died' for run in runs)} of them died; engines {dict(engines)}"
        )
        assert not WITH_SPARK or len(engines) > 1
        service.stop()
