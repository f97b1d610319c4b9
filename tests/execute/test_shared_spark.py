"""Calls with the same settings share one Spark session per process. A session of the caller is never stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table

import tidyberg
from tidyberg.errors import BadInput
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.shared_spark import SharedSpark, SparkSettings, shared_spark
from tidyberg.testing import Warehouse

SETTINGS = SparkSettings("local[1]", {}, None, "1g", 4.0)
OTHER = SparkSettings("local[2]", {}, None, "1g", 4.0)


def test_the_same_settings_share_an_engine_and_others_replace_it() -> None:
    kept = SharedSpark()
    first, second = kept.borrow(SETTINGS), kept.borrow(SETTINGS)
    engine = kept._engine
    first.close()
    second.close()
    third = kept.borrow(SETTINGS)
    assert kept._engine is engine
    third.close()
    third.close()  # giving back twice counts once
    kept.borrow(OTHER).close()
    assert kept._engine is not engine
    kept.stop()
    assert kept._engine is None


def test_other_settings_wait_for_those_that_are_used() -> None:
    kept = SharedSpark()
    used = kept.borrow(SETTINGS)
    got = threading.Event()

    def ask() -> None:
        kept.borrow(OTHER).close()
        got.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert not got.wait(0.2)
    assert kept._settings == SETTINGS
    used.close()
    assert got.wait(10)
    thread.join()
    assert kept._settings == OTHER


def test_a_call_within_a_call_does_not_wait_for_itself() -> None:
    kept = SharedSpark()
    outer = kept.borrow(SETTINGS)
    inner = kept.borrow(OTHER)
    assert isinstance(inner, SparkEngine)
    with pytest.raises(BadInput, match="by a call that runs on it"):
        kept.stop()
    outer.close()
    kept.stop()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    Path("tidyberg.yaml").write_text(
        "engine: spark\nspark: {master: 'local[1]'}\ncompaction: {hot_window_seconds: 0}\n"
    )
    with Warehouse(tmp_path / "lake") as warehouse:
        table = warehouse.create_table("db.events")
        warehouse.append_files(table, 6, 20)
        yield table
    tidyberg.stop_spark()


def more(table: Table) -> None:
    rows = table.scan().to_arrow()
    for _ in range(6):
        table.append(rows.slice(0, 1))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_calls_share_a_spark_until_it_dies_or_is_stopped(table: Table) -> None:
    assert tidyberg.compact(table).outcome == "committed"
    assert shared_spark._engine is not None
    jvm = shared_spark._engine._spark._gateway.proc
    more(table)
    assert tidyberg.compact(table).outcome == "committed"
    assert shared_spark._engine._spark._gateway.proc is jvm
    os.killpg(jvm.pid, signal.SIGKILL)
    jvm.wait()
    more(table)
    assert tidyberg.compact(table).outcome == "committed"
    second = shared_spark._engine._spark._gateway.proc
    assert second.pid != jvm.pid
    tidyberg.stop_spark()
    assert second.poll() is not None


@pytest.mark.spark
def test_it_ends_with_the_process_and_says_nothing(table: Table, tmp_path: Path) -> None:
    properties = table.catalog.properties
    code = (
        "import tidyberg, sys\n"
        "from pyiceberg.catalog import load_catalog\n"
        f"table = load_catalog({table.catalog.name!r}, **{dict(properties)!r}).load_table('db.events')\n"
        "assert tidyberg.compact(table).outcome == 'committed'\n"
        "from tidyberg.execute.spark.shared_spark import shared_spark\n"
        "print(shared_spark._engine._spark._gateway.proc.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for _ in range(100):
        if not Path(f"/proc/{done.stdout.strip()}").exists():
            return
        time.sleep(0.1)
    raise AssertionError("the JVM outlived the process")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_session_of_the_caller_is_used_and_never_stopped(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    for _ in range(2):
        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            assert tidyberg.compact(table).outcome == "committed"
            tidyberg.stop_spark()
            assert session.range(3).count() == 3
            more(table)
        finally:
            session.stop()  # the next turn finds that this one is gone
