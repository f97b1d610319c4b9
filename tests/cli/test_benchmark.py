"""`tidyberg bench` measures a copy, leaves the table unchanged and removes the copy."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.console import Run
from tidyberg.benchmarking import runs
from tidyberg.testing import Warehouse

RUNTIME = "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def untouched(warehouse: Warehouse, name: str = "analytics.events") -> tuple[str, set[str], list[str]]:
    table = warehouse.catalog.load_table(name)
    return table.metadata_location, warehouse.files_on_disk(table), warehouse.rows(table)


def test_each_mode_is_measured_and_the_table_is_unchanged(run: Run, warehouse: Warehouse, tmp_path: Path) -> None:
    before = untouched(warehouse)
    ran = run("bench", "analytics.events", "--scratch", str(tmp_path / "scratch"), "--json")
    assert ran.status == 0, ran.err
    assert ran.json["files"] == 12
    assert [measured["mode"] for measured in ran.json["runs"]] == ["auto", "copy", "encode"]
    assert [(m["files_read"], m["files_written"]) for m in ran.json["runs"]] == [(12, 1)] * 3
    assert untouched(warehouse) == before
    assert list((tmp_path / "scratch").iterdir()) == []
    assert run("history").out.count("analytics") == 0


def test_text_shows_what_was_copied_and_that_the_copy_is_removed(run: Run) -> None:
    ran = run("bench", "analytics.events", "--max-bytes", "20KB")
    assert ran.status == 0, ran.err
    assert "left out by --max-bytes" in ran.out
    assert "encode" in ran.out
    assert "The table was only read" in ran.out


def test_auto_comes_first_and_shows_copied_and_spliced_bytes(run: Run, warehouse: Warehouse) -> None:
    def rows(number: int) -> pa.Table:
        random = np.random.default_rng(number)
        values = {"id": random.integers(0, 2**60, 25_000), "ratio": random.random(25_000), "kind": ["a"] * 25_000}
        return pa.table(values)

    table = warehouse.create_table("analytics.plain", rows(0).schema)
    warehouse.append_files(table, 3, rows=rows)
    ran = run("bench", "analytics.plain", "--json")
    assert ran.status == 0, ran.err
    auto, copy, encode = ran.json["runs"]
    assert [measured["mode"] for measured in (auto, copy, encode)] == ["auto", "copy", "encode"]
    # Row groups are small, so that auto does not copy. Pages of unique numbers can be spliced.
    assert auto["bytes_copied"] == 0
    assert auto["bytes_spliced"] > 0.3 * auto["bytes_written"]
    assert 0 < auto["bytes_encoded"] == auto["bytes_written"] - auto["bytes_spliced"]
    assert (copy["bytes_copied"], copy["bytes_spliced"], copy["bytes_encoded"]) == (copy["bytes_read"], 0, 0)
    assert (encode["bytes_copied"], encode["bytes_spliced"]) == (0, 0)
    assert encode["bytes_encoded"] == encode["bytes_written"]
    lines = run("bench", "analytics.plain").out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["auto", "copy", "encode"]
    assert "spliced as pages" in lines[5]
    assert "encoded" in lines[5]
    assert lines[5].startswith("auto wrote ")


def test_a_table_with_nothing_to_rewrite_has_nothing_to_measure(run: Run) -> None:
    assert run("compact", "analytics.events", "--strategy", "full").status == 0
    ran = run("bench", "analytics.events")
    assert ran.status == 2
    assert "nothing to measure" in ran.err


def test_java_needs_its_runtime(run: Run) -> None:
    ran = run("bench", "analytics.events", "--against", "java")
    assert ran.status == 2
    assert "--spark-conf spark.jars.packages=" in ran.err


def test_failed_run_leaves_no_files(
    run: Run, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no room")

    before = untouched(warehouse)
    monkeypatch.setattr(runs, "_mode_run", fail)
    assert run("bench", "analytics.events", "--scratch", str(tmp_path / "scratch")).status != 0
    assert list((tmp_path / "scratch").iterdir()) == []
    assert untouched(warehouse) == before


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.usefixtures("config")
def test_java_is_measured_on_the_same_copy(warehouse: Warehouse, tmp_path: Path) -> None:
    rows = pa.table({"id": range(50), "name": [f"name {number}" for number in range(50)]})
    table = warehouse.create_table(
        "analytics.plain", rows.schema
    )  # the other table has a column that Spark cannot read
    warehouse.append_files(table, 6, rows=lambda _: rows)
    before = untouched(warehouse, "analytics.plain")
    arguments = ("--against", "java", "--spark-conf", RUNTIME, "--scratch", str(tmp_path / "scratch"), "--json")
    # In its own process, because sockets to a JVM stay open until the process ends.
    command = [str(Path(sys.executable).with_name("tidyberg")), "bench", "analytics.plain", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    reported = json.loads(ran.stdout)
    assert reported["java_seconds"] > 0
    assert all(measured["times_as_fast_as_java"] > 0 for measured in reported["runs"])
    assert untouched(warehouse, "analytics.plain") == before
    assert list((tmp_path / "scratch").iterdir()) == []
