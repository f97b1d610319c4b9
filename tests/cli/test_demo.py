"""The demo, as a new user runs it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.console import Run
from tidyberg.demo.events import TABLE, make_events
from tidyberg.demo.query import run_query
from tidyberg.testing import Warehouse

NOW = 1_763_200_000_000


def test_demo_table_looks_like_a_week_of_streaming(tmp_path: Path) -> None:
    with Warehouse(tmp_path, "demo") as warehouse:
        table = make_events(warehouse, NOW)
        assert warehouse.files_on_disk(table) == warehouse.referenced_files(table), "nothing lies around"
        files = [task.file for task in table.scan().plan_files()]
        assert len(files) > 400
        assert len({str(file.partition) for file in files}) == 8
        assert max(file.file_size_in_bytes for file in files) > 32 * 1024 * 1024, "one day is tidy"
        times = [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
        assert times == sorted(times)
        assert times[-1] < NOW
        assert sum(NOW - time < 600_000 for time in times) == 4, "today is hot"
        assert run_query(warehouse.catalog).rows == sum(file.record_count for file in files)


def test_the_demo_can_be_run_again_and_replaces_only_its_own_table(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDYBERG_ENGINE", "inline")
    directory = tmp_path / "demo"
    first = run("demo", "-d", str(directory))
    assert first.status == 0, first.err
    assert "hot: 4 commits" in first.out
    assert "already tidy" in first.out
    assert "x faster, same answer" in first.out
    with Warehouse(directory, "demo") as warehouse:
        uuid = warehouse.catalog.load_table(TABLE).metadata.table_uuid
        other = warehouse.create_table("demo.other").metadata.table_uuid
        again = run("demo", "-d", str(directory), "--json").json
        assert again["compacted"]
        assert again["table"] == TABLE
        assert again["stats"]["files_after"] < 50
        assert again["query"]["rows"] > 1_000_000
        assert warehouse.catalog.load_table(TABLE).metadata.table_uuid != uuid
        assert warehouse.catalog.load_table("demo.other").metadata.table_uuid == other
        table = warehouse.catalog.load_table(TABLE)
        assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)


@pytest.mark.spark
@pytest.mark.slow
def test_demo_runs_on_spark_and_its_suggested_commands_work(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    command = [sys.executable, "-c", "from tidyberg.cli.main import run; run()"]
    first = subprocess.run([*command, "demo", "-d", str(directory)], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert "x faster, same answer" in first.stdout
    assert "Traceback" not in first.stderr
    assert "WARN" not in first.stderr, "Spark stays quiet"
    advice = [line.strip() for line in first.stdout.split("Try next")[1].splitlines() if line.strip()]
    assert len(advice) == 4
    for line in advice:
        tried = subprocess.run([*command, *shlex.split(line)[1:]], capture_output=True, text=True, check=False)
        assert tried.returncode == 0, f"{line}: {tried.stderr}"


def test_unwritable_directory_is_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run("demo", "-d", str(tmp_path / "file" / "below"))
    assert ran.status == 5
    assert "The demo cannot write to" in ran.err
