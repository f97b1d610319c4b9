"""Every command on a real catalog, with the inline engine."""

import dataclasses
import datetime as dt
import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, TimestampType

from tests.builders.console import Run
from tidyberg._version import __version__
from tidyberg.model.job import CompactionStats
from tidyberg.model.task import output_name
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path


def test_plan_shows_verdicts_price_and_the_next_command(run: Run) -> None:
    ran = run("plan", "analytics.events")
    assert ran.status == 0
    assert "12 files" in ran.out
    assert "12 → 1  encode" in ran.out
    assert "pays back after" in ran.out
    assert "next: tidyberg compact analytics.events" in ran.out
    assert "\x1b" not in ran.out, "no colours without a terminal"


def test_compact_commits_and_a_second_run_does_nothing(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    before = warehouse.rows(table)
    ran = run("compact", "analytics.events", "--verify", "full")
    assert ran.status == 0
    assert "1 group committed" in ran.out
    assert "12 files replaced" in ran.out
    assert "committing" in ran.err, "progress goes to standard error"
    assert warehouse.rows(table) == before
    assert len(list(table.refresh().scan().plan_files())) == 1
    again = run("compact", "analytics.events")
    assert (again.status, "nothing to do" in again.out) == (0, True)
    assert run("compact", "analytics.events", "--detailed-exitcode").status == 3
    assert run("plan", "analytics.events", "--detailed-exitcode").status == 3


def test_compact_json_has_the_stats_of_the_contract(run: Run) -> None:
    document = run("compact", "analytics.events", "--json").json
    assert (document["success"], document["compacted"]) == (True, True)
    assert set(document["stats"]) == {field.name for field in dataclasses.fields(CompactionStats)}
    assert (document["stats"]["files_before"], document["stats"]["files_after"]) == (12, 1)


def test_dry_run_changes_nothing(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    ran = run("compact", "analytics.events", "--dry-run")
    assert "12 → 1" in ran.out
    assert table.refresh().metadata_location == table.metadata_location
    assert len(table.metadata.snapshots) == 1
    assert run("history").out == "no jobs are recorded\n"


def test_a_plan_is_written_explained_and_applied(run: Run, tmp_path: Path, warehouse: Warehouse) -> None:
    file = tmp_path / "plan.json"
    planned = run("plan", "analytics.events", "--out", str(file))
    assert f"next: tidyberg apply {file}" in planned.out
    explained = run("explain", str(file))
    assert "12 → 1" in explained.out
    assert "group" in explained.out
    assert run("explain", str(file), "--json").json == json.loads(file.read_text())
    assert run("apply", str(file), "--dry-run").status == 0
    applied = run("apply", str(file))
    assert (applied.status, "12 files replaced" in applied.out) == (0, True)
    stale = run("apply", str(file))
    assert stale.status == 4, "the plan's files are gone"
    assert "error: " in stale.err


def test_copy_mode_is_planned_explained_and_reported(run: Run, tmp_path: Path, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    before, file = warehouse.rows(table), tmp_path / "plan.json"
    run("plan", "analytics.events", "--mode", "copy", "--out", str(file))
    explained = run("explain", str(file)).out
    assert "1 group copied (asked for)" in explained
    assert "because" in explained
    assert "1 group copied, " in run("apply", str(file)).out
    assert warehouse.rows(table) == before
    refused = run("plan", "analytics.events", "--mode", "move")
    assert refused.status == 2
    assert "'move' is not a way to rewrite" in refused.err


def test_a_filter_names_partitions_as_the_plan_prints_them(run: Run, warehouse: Warehouse) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()))
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "day"))
    table = warehouse.create_table("analytics.clicks", schema, spec)
    today, files = dt.datetime.now(dt.UTC).replace(tzinfo=None), range(6)
    for back in (9, 1):
        rows = pa.table({"id": [1], "ts": [today - dt.timedelta(days=back)]}, schema=table.schema().as_arrow())
        warehouse.append_files(table, len(files), rows=lambda _, rows=rows: rows)  # type: ignore[misc]
    yesterday = f"{today - dt.timedelta(days=1):%Y-%m-%d}"
    ran = run("plan", "analytics.clicks", "--where", "day >= current_date - 7", "--strategy", "full")
    assert ran.status == 0, ran.err
    assert f"where day >= '{today - dt.timedelta(days=7):%Y-%m-%d}'" in ran.out
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.startswith(" day=")}
    assert "6 → 1" in lines.pop(f"day={yesterday}")
    assert all("not selected by the filter" in line for line in lines.values())
    assert run("compact", "analytics.clicks", "--where", f"day = '{yesterday}'", "-s", "full").status == 0
    assert len(list(table.refresh().scan().plan_files())) == 7
    refused = run("plan", "analytics.clicks", "--where", "nothing_like_it = 1")
    assert refused.status == 2
    assert "The table has id, ts; its partition fields are day." in refused.err


def test_plan_json_equals_the_plan_file(run: Run, tmp_path: Path) -> None:
    document = run("plan", "analytics.events", "--json")
    file = tmp_path / "plan.json"
    file.write_text(document.out)
    assert run("explain", str(file)).status == 0


def test_an_edited_plan_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run("plan", "analytics.events", "--out", str(file))
    file.write_text(file.read_text().replace('"target_file_size": ', '"target_file_size": 1'))
    assert run("apply", str(file)).status == 2
    file.write_text("{")
    assert run("explain", str(file)).status == 2
    assert run("explain", str(tmp_path / "absent.json")).status == 2


def test_health_shows_a_score_and_reasons(run: Run) -> None:
    ran = run("health", "analytics.events")
    assert ran.status == 0
    assert "/100" in ran.out
    assert "file size" in ran.out
    document = run("health", "analytics.events", "--json").json
    assert 0 <= document["health"]["score"] < 100
    assert document["health"]["reasons"]
    assert sum(document["file_sizes"].values()) == 12


def test_tables_lists_every_table(run: Run, warehouse: Warehouse) -> None:
    warehouse.create_table("sales.empty")
    assert "analytics.events" in run("tables").out
    listed = run("tables", "--json").json["tables"]
    assert [table["identifier"] for table in listed] == ["analytics.events", "sales.empty"]
    assert [table["identifier"] for table in run("tables", "sales", "--json").json["tables"]] == ["sales.empty"]


def test_history_lists_jobs(run: Run) -> None:
    run("compact", "analytics.events")
    ran = run("history", "analytics.events")
    assert "succeeded" in ran.out
    (job,) = run("history", "--json").json["jobs"]
    assert (job["status"], job["table"]["name"]) == ("succeeded", "events")
    assert "intent" not in job


def test_recover_has_nothing_to_do_after_jobs_that_ended(run: Run) -> None:
    run("compact", "analytics.events")
    said = run("recover").out
    assert said.startswith("nothing to recover: the job store has no job that died\n")
    assert "`tidyberg recover --scan TABLE` lists files that dead jobs may have left" in said
    assert run("recover", "analytics.events", "--json").json == {"recovered": []}


def test_recover_scan_finds_files_unknown_to_the_store(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    data = Path(local_path(f"{table.location()}/data"))
    old, young = (data / output_name("lost", 0, 0, number) for number in range(2))
    for path in (old, young):
        path.write_bytes(b"abc")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    listed = run("recover", "--scan", "analytics.events")
    assert listed.status == 0
    assert "2 outputs of tidyberg (6 B) that no snapshot of analytics.events references" in listed.out
    assert "tidyberg recover --scan analytics.events --remove" in listed.out
    assert old.exists()
    removed = run("recover", "analytics.events", "--scan", "--remove", "--json").json
    assert (len(removed["removed"]), removed["kept"], removed["claimed"]) == (1, 1, 0)
    assert (old.exists(), young.exists()) == (False, True)
    for wrong in (("recover", "--scan"), ("recover", "--remove"), ("recover", "--scan", "x", "--min-age-hours", "1")):
        assert run(*wrong).status == 2


def test_target_of_one_byte_is_refused(run: Run) -> None:
    ran = run("compact", "analytics.events", "--target-file-size", "1B", "--force")
    assert ran.status == 2
    assert "below the minimum of 1 MB" in ran.err


def test_command_line_options_reach_the_plan(run: Run) -> None:
    options = run(
        "plan", "analytics.events", "--strategy", "small-files", "--target-file-size", "64MB", "--max-files", "6",
        "--min-input-files", "2", "--parquet", "compression-level=7", "--where", "id >= 0", "--json",
    ).json["options"]  # fmt: skip
    assert options["strategy"] == "small_files"
    assert options["target_file_size"] == 64 * 1024 * 1024
    assert (options["max_files"], options["min_input_files"]) == (6, 2)
    assert options["parquet"] == {"compression-level": "7"}
    assert options["where"] == "id >= 0"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("plan", "analytics.event"), "unknown-table", "Did you mean analytics.events?"),
        (("plan", "analytic.events"), "unknown-namespace", "Did you mean 'analytics'?"),
        (("plan", "analytics.events", "--catalog", "lob"), "unknown-catalog", "Did you mean 'lab'?"),
        (("tables", "nowhere"), "unknown-namespace", "Known: analytics"),
        (("plan", "analytics.events", "--strategy", "quick"), "bad-input", "'quick' is not a strategy"),
        (("plan", "analytics.events", "--target-file-size", "12XB"), "bad-input", "'12XB' is not a size"),
        (("plan", "analytics.events", "--where", "id >"), "bad-predicate", ""),
        (("plan", "analytics.events", "--where", "nope = 1"), "bad-predicate", "nope"),
        (("plan", "analytics.events", "--branch", "nope"), "unknown-reference", "nope"),
        (("plan", "analytics.events", "--max-files", "0"), "bad-input", "max_files"),
        (("plan", "analytics.events", "--max-files", "few"), "bad-input", "--max-files"),
        (("plan", "analytics.events", "--parquet", "x"), "bad-input", "KEY=VALUE"),
        (("plan", "analytics.events", "--target-size", "1GB"), "bad-input", "No such option"),
        (("plan",), "bad-input", "No table is named"),
        (("squash", "analytics.events"), "bad-input", "No such command"),
        (("compact", "analytics.events", "--engine", "flink"), "bad-input", "flink"),
        (("plan", "analytics.events", "--config", "absent.yaml"), "configuration", "not a file"),
    ],
)
def test_bad_input_is_a_clear_error_and_changes_nothing(
    run: Run, warehouse: Warehouse, arguments: tuple[str, ...], code: str, said: str
) -> None:
    before = warehouse.catalog.load_table("analytics.events").metadata_location
    ran = run(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err
    assert said in " ".join(ran.err.split())
    document = run(*arguments, "--json").json
    assert document["error"]["code"] == code
    assert warehouse.catalog.load_table("analytics.events").metadata_location == before


def test_a_tag_is_refused_as_target(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "v1").commit()
    ran = run("compact", "analytics.events", "--branch", "v1")
    assert ran.status == 2
    assert "tag" in ran.err


def test_common_flags_may_come_before_the_command(run: Run, config: Path, tmp_path: Path) -> None:
    moved = config.rename(tmp_path / "elsewhere.yaml")
    assert run("plan", "analytics.events").status == 2
    assert run("--config", str(moved), "--json", "plan", "analytics.events").json["table"]


def test_config_commands(run: Run, config: Path) -> None:
    assert run("config", "path").out.strip() == "tidyberg.yaml"
    assert run("config", "show", "--json").json["engine"] == "inline"
    assert "engine: inline" in run("config", "show").out
    assert json.loads(run("config", "schema").out)["title"] == "tidyberg.yaml"
    config.write_text("catalog: {uri: 'http://u:hunter2@host', token: hunter2}\n")
    assert "hunter2" not in run("config", "show").out
    config.unlink()
    assert run("config", "path").status == 2


def test_version_and_help(run: Run) -> None:
    assert run("--version").out == f"tidyberg {__version__}\n"
    for command in ("demo", "doctor", "tables", "health", "plan", "explain", "apply", "compact", "history"):
        assert command in run("--help").out
        assert run(command, "--help").status == 0


def test_unexpected_failures_show_a_traceback_only_in_debug_mode(
    run: Run, monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("postgresql://me:hunter2@host is odd")

    monkeypatch.setattr("tidyberg.cli.tables.resolve_table", broken)
    ran = run("plan", "analytics.events")
    assert ran.status == 5
    assert "Unexpected failure: RuntimeError" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("TIDYBERG_DEBUG", "1")
    debugged = run("plan", "analytics.events")
    assert "Traceback" in debugged.err
    assert "hunter2" not in ran.err + debugged.err
