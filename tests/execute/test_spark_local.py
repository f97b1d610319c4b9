"""The Spark engine on this machine: start, run, fail, cancel, lose a worker."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, IdentityTransform

from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, append, compact, delete_files, make_table, options, paths
from tests.builders.footers import damage, other_type
from tests.builders.moved_tables import MOVE, change_spec
from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files
from tests.builders.tracing import KeepingTracer
from tests.execute.spark_checks import (
    check_cancel,
    check_damaged_file,
    check_deletes,
    check_engine_reads,
    check_manifests,
    check_results_and_progress,
    check_storage_error,
    endless_tasks,
    group_tasks,
)
from tidyberg.errors import Cancelled, ConfigurationError, DamagedFile, EngineError, StorageError
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.run import error_from_spark, split_into_jobs
from tidyberg.execute.spark.session import check_java, local_cores, retrying_master, session_of, session_settings
from tidyberg.execute.spark.worker import pack
from tidyberg.model.audit import Harm, Receipt, Verdict
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.model.task import NanFacts, TaskResult
from tidyberg.storage.access import StorageAccess
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import (
    EqualTo,
    Positions,
    Vectors,
    commit_deletes,
    delete_equal,
    delete_positions,
    delete_rows,
)
from tidyberg.testing.warehouse import local_path

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets of its actions to the garbage collector, and says so in a comment.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SECRET = "hush-hush-hush"


@pytest.fixture(scope="module", name="engine")
def _engine() -> Iterator[SparkEngine]:
    engine = SparkEngine("local[2]")
    yield engine
    engine.close()


def test_results_and_progress(engine: SparkEngine, tmp_path: Path) -> None:
    port: Engine = engine
    assert port.name == "spark"
    assert port.attempts == 4
    check_results_and_progress(engine, tmp_path)


def test_manifests_are_read_as_they_are_here(engine: SparkEngine, tmp_path: Path) -> None:
    check_manifests(engine, tmp_path)


def test_huge_tables_are_read_and_listed_as_they_are_here(engine: SparkEngine, tmp_path: Path) -> None:
    check_engine_reads(engine, tmp_path)


def kill_java() -> None:
    java = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    for process in java:
        process.kill()
    psutil.wait_procs(java, timeout=10)


def test_a_spark_that_died_is_restarted(engine: SparkEngine, tmp_path: Path) -> None:
    engine.start()
    kill_java()
    check_results_and_progress(engine, tmp_path)
    check_results_and_progress(engine, tmp_path / "again")


def test_a_run_whose_spark_dies_fails_and_the_next_one_works(engine: SparkEngine, tmp_path: Path) -> None:
    engine.start()
    threading.Timer(2.0, kill_java).start()
    with pytest.raises(EngineError):
        list(engine.run(endless_tasks(tmp_path / "endless", 2), STORAGE, cancel=CancelToken()))
    check_results_and_progress(engine, tmp_path)


def test_threads_share_a_session_and_a_cancel_stops_only_its_own_run(engine: SparkEngine, tmp_path: Path) -> None:
    cancel, ended = CancelToken(), list[str]()
    endless = endless_tasks(tmp_path / "endless", 1)  # the other core is for the others

    def run_until_cancelled() -> None:
        with pytest.raises(Cancelled):
            list(engine.run(endless, StorageAccess(), cancel=cancel))
        ended.append("cancelled")

    def run_to_the_end(name: str) -> None:
        check_results_and_progress(engine, tmp_path / name)
        ended.append(name)

    threads = [threading.Thread(target=run_until_cancelled)]
    threads += [threading.Thread(target=run_to_the_end, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    threads[1].join()
    cancel.cancel()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["cancelled", "one", "two"]


def test_a_job_on_spark_is_traced_down_to_its_tasks(engine: SparkEngine, tmp_path: Path) -> None:
    tracer = KeepingTracer()
    with Warehouse(tmp_path / "lab") as warehouse:
        warehouse.append_files(warehouse.create_table(), 8, 40)
        control = make_control(warehouse, engine, tracer=tracer, resources=engine.resources)
        small = PlanOptions(strategy=Strategy.FULL, min_input_files=2, target_file_size=4_000)
        result = control.compact(REF, small)
        learned = control.calibration().calibration.jobs
        control.store.close()
    assert learned == 1  # it is known by the name under which plans are made
    [execution] = tracer.named("execution")
    tasks = tracer.named("task")
    assert len(tasks) == result.groups_committed > 1
    for task in tasks:  # by the clock of another process
        assert (execution.start_time or 0) <= (task.start_time or 0) <= (task.end_time or 0)
        assert (task.end_time or 0) <= (execution.end_time or 0) + 1_000_000
        assert task.parent is not None
        assert execution.context is not None
        assert task.parent.span_id == execution.context.span_id


def test_groups_are_copied_on_spark(engine: SparkEngine, tmp_path: Path) -> None:
    with Warehouse(tmp_path / "lab") as warehouse:
        table = warehouse.append_files(warehouse.create_table(), 8, 40)
        rows = warehouse.rows(table)
        control = make_control(warehouse, engine)
        how = PlanOptions(strategy=Strategy.FULL, min_input_files=2, copy_min_row_group_bytes=100)
        result = control.compact(REF, how, verify=VerifyMode.FULL)
        control.store.close()
        assert (result.job.copied.groups, result.stats.files_after) == (1, 1)
        assert warehouse.rows(table) == rows


def test_deletes_are_merged_on_spark(engine: SparkEngine, tmp_path: Path) -> None:
    """In v2, and after an upgrade in v3, where deletes of every kind become vectors."""
    merge = options(Strategy.DELETES_ONLY)
    with Warehouse(tmp_path / "lab") as warehouse:
        table = make_table(warehouse, BY_REGION)
        first, second, *_, last = before = paths(warehouse, table)
        commit_deletes(table, Positions({first: [0], second: [1, 2]}), Positions({first: [3]}, file_scoped=True))
        rows = warehouse.rows(table)
        result = compact(warehouse, merge, engine=engine)
        assert (result.outcome, result.plan.keeps_data) == ("committed", True)
        assert warehouse.rows(table) == rows
        assert len(delete_files(warehouse, table)) == 2

        warehouse.upgrade(table, 3)
        append(warehouse, table, [6], "eu")
        commit_deletes(table, Vectors({second: [7], last: [4]}))
        delete_equal(table, first, {"id": [5, 15, 16, 65]})
        rows = warehouse.rows(table, lineage=True)
        assert compact(warehouse, merge, engine=engine).outcome == "committed"
        assert warehouse.rows(table, lineage=True) == rows
        assert set(before) < set(paths(warehouse, table))
        assert all(path.endswith(".puffin") for path in delete_files(warehouse, table))
        assert compact(warehouse, merge, engine=engine).outcome == "tidy"


def test_a_large_file_is_divided_among_tasks_on_spark(engine: SparkEngine, tmp_path: Path) -> None:
    tracer = KeepingTracer()
    with Warehouse(tmp_path / "lab") as warehouse:
        empty = warehouse.create_table(properties={"write.parquet.row-group-limit": "500"}, format_version=3)
        table = warehouse.append_files(empty, 1, 4_000)
        rows = warehouse.rows(table, lineage=True)
        [path] = paths(warehouse, table)
        delete_rows(table, {path: [0, 999, 1_000, 1_001, 3_999]})
        left = warehouse.rows(table, lineage=True)
        assert len(left) == len(rows) - 5
        target = Path(local_path(path)).stat().st_size // 8
        how = PlanOptions(strategy=Strategy.FULL, mode=RewriteMode.ENCODE, target_file_size=target)
        control = make_control(warehouse, engine, tracer=tracer)
        result = control.compact(REF, how, verify=VerifyMode.FULL)
        control.store.close()
        assert (result.outcome, result.groups_committed) == ("committed", 1)
        assert warehouse.rows(table, lineage=True) == left
    assert sorted((task.attributes or {})["part"] for task in tracer.named("task")) == [0, 1, 2, 3]  # type: ignore[type-var]


def test_an_audit_reads_on_spark(engine: SparkEngine, tmp_path: Path) -> None:
    with Warehouse(tmp_path / "lab") as warehouse:
        table = make_table(warehouse)
        commit_deletes(table, EqualTo({"id": [2, 14]}))
        delete_positions(table, paths(warehouse, table)[3], [0])
        control = make_control(warehouse, engine)
        control.compact(REF, options())
        intact, *_ = control.audit(REF).snapshots
        append(warehouse, table, [0], "eu")
        commit_deletes(table, EqualTo({"id": [3, 4]}))
        commit_deletes(table, remove=delete_files(warehouse, table), operation=Operation.REPLACE)
        damaged, *_ = control.audit(REF).snapshots
        control.store.close()  # not the engine: others run on it
    assert (intact.verdict, intact.receipt, intact.rows_after) == (Verdict.INTACT, Receipt.HOLDS, 57)
    assert dict(damaged.harms) == {Harm.CAME_BACK: 4}


def test_rows_of_format_v3_keep_their_lineage_when_spark_moves_them(engine: SparkEngine, tmp_path: Path) -> None:
    with Warehouse(tmp_path / "lab") as warehouse:
        table = make_table(warehouse, format_version=3)
        commit_deletes(table, EqualTo({"id": [2, 14]}))
        delete_rows(table, {path: [0, 9] for path in paths(warehouse, table)[2:]})
        change_spec(table, ("region", IdentityTransform()), ("id", BucketTransform(2)))
        rows = warehouse.rows(table, lineage=True)
        control = make_control(warehouse, engine)
        result = control.compact(REF, MOVE, verify=VerifyMode.FULL)
        control.store.close()  # not the engine: others run on it
        assert result.outcome == "committed"
        assert warehouse.rows(table, lineage=True) == rows
        assert {file.spec_id for file in warehouse.live_files(table)} == {1}
        assert delete_files(warehouse, table) == []


def test_deleted_rows_are_left_out(engine: SparkEngine, tmp_path: Path) -> None:
    check_deletes(engine, tmp_path)


def test_a_damaged_file_is_named(engine: SparkEngine, tmp_path: Path) -> None:
    check_damaged_file(engine, tmp_path)


def test_a_storage_failure_is_reported_after_retries(engine: SparkEngine, tmp_path: Path) -> None:
    check_storage_error(engine, tmp_path)


def test_cancel(engine: SparkEngine, tmp_path: Path) -> None:
    check_cancel(engine, tmp_path)


def test_an_existing_session_is_used_and_left_running(engine: SparkEngine, tmp_path: Path) -> None:
    engine.start()
    guest = SparkEngine(session=session_of(engine._spark))
    assert guest.resources.cores == 2
    assert guest.attempts >= engine.attempts
    check_results_and_progress(guest, tmp_path)
    guest.close()
    check_results_and_progress(engine, tmp_path / "again")


def test_hundreds_of_groups(engine: SparkEngine, tmp_path: Path) -> None:
    tasks = group_tasks(tmp_path, 200)
    results = engine.run(tasks, StorageAccess(), cancel=CancelToken(), max_parallelism=2)
    assert sorted(result.group_id for result in results) == list(range(200))


def test_closing_the_results_early_stops_the_run_and_leaves_the_session_usable(
    engine: SparkEngine, tmp_path: Path
) -> None:
    short = [replace(task, group_id=7) for task in group_tasks(tmp_path / "short", 1)]
    results = engine.run([*short, *endless_tasks(tmp_path / "endless", 1)], STORAGE, cancel=CancelToken())
    assert next(results).group_id == 7
    started = time.monotonic()
    results.close()
    assert time.monotonic() - started < 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidyberg-spark")]
    check_results_and_progress(engine, tmp_path / "after")


def test_a_killed_python_worker_is_replaced(engine: SparkEngine, tmp_path: Path) -> None:
    tasks = endless_tasks(tmp_path, 1, times=120)
    killed: list[int] = []

    def kill_one_that_writes() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not killed:
            for process in psutil.Process().children(recursive=True):
                try:
                    if any(str(tmp_path) in opened.path for opened in process.open_files()):
                        os.kill(process.pid, signal.SIGKILL)
                        killed.append(process.pid)
                        return
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            time.sleep(0.02)

    killer = threading.Thread(target=kill_one_that_writes)
    killer.start()
    (result,) = engine.run(tasks, StorageAccess(), cancel=CancelToken())
    killer.join()
    assert killed
    assert isinstance(result, TaskResult)
    assert result.attempt == 1
    assert result.rows_written == 120 * 50_000
    assert all("-a01-" in output.path for output in result.outputs)


def test_secrets_stay_in_the_closure(engine: SparkEngine, tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 10)
    task = make_task(files, NUMBERS, tmp_path / "out", output_directory="s3://bucket/data")
    access = StorageAccess(
        {"s3.endpoint": "http://127.0.0.1:1", "s3.region": "x", "s3.access-key-id": "AKIA-NOT-SHOWN",
         "s3.secret-access-key": SECRET, "s3.connect-timeout": "1"}
    )  # fmt: skip
    with pytest.raises(StorageError) as raised:
        list(engine.run([task], access, cancel=CancelToken()))
    reported = []
    error: BaseException | None = raised.value
    while error is not None:
        reported.append(f"{error!s} {error!r}")
        error = error.__cause__ or error.__context__
    reported += [f"{name}={value}" for name, value in engine._spark.getConf().getAll()]
    log = Path(engine._directory()) / "spark.log"
    reported.append(log.read_text(errors="replace"))
    assert "s3://bucket/data" in raised.value.message
    assert not [text for text in reported if SECRET in text or "AKIA-NOT-SHOWN" in text]


def test_start_is_silent_and_close_ends_the_jvm() -> None:
    code = (
        "from tidyberg.execute.spark.engine import SparkEngine\n"
        "import os, psutil, threading\n"
        "from py4j.clientserver import ClientServer\n"
        "engine = SparkEngine('local[1]'); engine.start()\n"
        "assert isinstance(engine._spark._gateway, ClientServer), 'nothing could be cancelled'\n"
        "assert os.environ['PYSPARK_PIN_THREAD'] == 'false'\n"
        "children = psutil.Process().children(recursive=True)\n"
        "assert any('java' in child.name() for child in children)\n"
        "assert engine._spark.parallelize([1], 1).map(str).collect() == ['1']\n"
        "server = engine._spark._accumulatorServer\n"
        "engine.close()\n"
        "assert not os.path.exists(server.server_address)\n"
        "assert 'tidyberg-spark-end' not in {thread.name for thread in threading.enumerate()}\n"
        "gone, alive = psutil.wait_procs(children, timeout=10)\n"
        "assert not alive, alive\n"
    )
    environment = {**os.environ, "PYSPARK_PIN_THREAD": "false"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="Install Java 17"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no java on the PATH"):
        check_java()


@pytest.mark.parametrize(
    ("version", "reported"), [("1.8.0_402", "is Java 8"), ("11.0.2", "is Java 11"), ("17.0.1", ""), ("21", "")]
)
def test_too_old_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, reported: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if not reported:
        check_java()
        return
    with pytest.raises(ConfigurationError) as raised:
        check_java()
    assert reported in raised.value.message
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("master", "retrying", "cores"),
    [
        ("local", "local[1,4]", 1),
        ("local[3]", "local[3,4]", 3),
        ("local[*]", "local[*,4]", len(os.sched_getaffinity(0))),
        ("local[2,7]", "local[2,7]", 2),
        ("spark://host:7077", "spark://host:7077", None),
        ("yarn", "yarn", None),
    ],
)
def test_masters(master: str, retrying: str, cores: int | None) -> None:
    assert retrying_master(master) == retrying
    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({}, 2),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.cores.max": "6"}, 6),
    ],
)
def test_cores_of_a_cluster_come_from_its_settings(conf: dict[str, str], cores: int) -> None:
    engine = SparkEngine("spark://host:7077", conf=conf)
    assert engine.resources.cores == cores
    assert engine.attempts == 8


def test_the_number_of_attempts_does_not_change_after_it_was_reported() -> None:
    engine = SparkEngine("local[2]", conf={"spark.task.maxFailures": "6"})
    assert engine.attempts == 6
    engine._is_own_local = False
    assert engine.attempts == 6


def test_the_callers_settings_win() -> None:
    settings = session_settings("local[2]", "1g", {"spark.driver.memory": "3g", "spark.x": "y"})
    assert settings["spark.driver.memory"] == "3g"
    assert settings["spark.x"] == "y"
    assert settings["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("count", "cores", "limit"), [(1, 2, None), (7, 2, None), (40, None, None), (5_000, 2, 1), (5_000, None, 200)]
)
def test_tasks_are_spread_over_few_spark_jobs(tmp_path: Path, count: int, cores: int | None, limit: int | None) -> None:
    tasks = group_tasks(tmp_path, 1) * count
    threads, jobs = split_into_jobs(tasks, cores, limit)
    positions = [position for job in jobs for partition in job for position, _ in partition]
    assert sorted(positions) == list(range(count))
    assert len(jobs) <= 150
    assert all(partition for job in jobs for partition in job)
    at_once = threads * max(len(job) for job in jobs)
    assert at_once <= (limit or (cores or 31) + 1)
    if count <= 40:
        assert all(len(job) == 1 and len(job[0]) == 1 for job in jobs)


def test_small_tasks_share_spark_jobs_and_large_ones_have_their_own(tmp_path: Path) -> None:
    (small,) = group_tasks(tmp_path, 1)
    large = replace(small, inputs=tuple(replace(file, size=100 << 20) for file in small.inputs))
    _, jobs = split_into_jobs([small] * 1_000 + [large] * 20, 2, None)
    per_job = [sum(len(partition) for partition in job) for job in jobs]
    assert per_job[:20] == [1] * 20
    assert {position for job in jobs[:20] for partition in job for position, _ in partition} == set(range(1_000, 1_020))
    assert 20 < len(jobs) <= 70
    _, jobs = split_into_jobs([large] * 100, 2, None)
    assert len(jobs) == 100


def test_a_file_that_ends_its_worker_is_named(engine: SparkEngine, tmp_path: Path) -> None:
    tasks = group_tasks(tmp_path, 1)
    path = Path(tasks[0].inputs[1].path)
    damage(path, other_type)
    with pytest.raises(DamagedFile, match="has a damaged footer") as raised:
        list(engine.run(tasks, STORAGE, cancel=CancelToken()))
    assert str(path) in raised.value.message


def test_descriptors_are_slim(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 10) * 1_000
    task = make_task(files, NUMBERS, tmp_path / "out")
    assert len(pack(task)) / 1_000 < 100
    numbers = random.Random(1)
    with_nans = [
        replace(
            file,
            nans=tuple(NanFacts(column, number, numbers.randbytes(8), numbers.randbytes(8)) for column in range(64)),
        )
        for number, file in enumerate(files[:100])
    ]
    assert len(pack(replace(task, inputs=tuple(with_nans)))) / 100 < 2_000
    assert SECRET not in repr(pickle.dumps(task))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("... Python worker exited unexpectedly (crashed) ...", "a group, of a, b, c and 1 more file"),
        ("x\nModuleNotFoundError: No module named 'pyarrow'\ny", "pyarrow"),
        ("a\njava.lang.IllegalStateException: boom\nb", "boom"),
    ],
)
def test_other_errors_are_short(text: str, reported: str) -> None:
    error = error_from_spark(RuntimeError(text), ["a", "b", "c", "d"])
    assert isinstance(error, EngineError)
    assert reported in error.message
    assert "\n" not in error.message
