"""`tidyberg advise --queries`: what it shows for a log, and for scans that engines reported."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestampType

from tests.builders.console import Run
from tidyberg.app import open_records
from tidyberg.cli.command_line import command_line
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.session import Session
from tidyberg.cli.show_query_advice import boundary_flags, boundary_words, layout_flags
from tidyberg.model.scan_reports import ScanReportTotals
from tidyberg.model.sort_key import Curve
from tidyberg.model.table import TableRef
from tidyberg.model.workload import BoundaryChoice, LayoutChoice
from tidyberg.settings.load import load_settings
from tidyberg.testing import Warehouse

NAME = "analytics.numbers"


@pytest.fixture
def numbers(warehouse: Warehouse) -> TableRef:
    schema = Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "b", LongType(), required=False))
    table = warehouse.create_table(NAME, schema)
    random = np.random.default_rng(1)
    for _ in range(20):
        table.append(pa.table({name: random.integers(0, 10_000, 500) for name in "ab"}))
    return TableRef("lab", ("analytics",), "numbers")


def test_it_recommends_a_layout_with_figures_and_a_command(run: Run, numbers: TableRef, tmp_path: Path) -> None:
    log = tmp_path / "queries.sql"
    log.write_text(
        "select * from analytics.numbers where a between 100 and 200;\n"
        "select * from numbers join dim on numbers.b = dim.k where a = 5000;\n"
        "select nonsense from from;\nselect 1;\nselect count(*) from numbers;\n"
    )
    ran = run("advise", NAME, "--queries", str(log))
    assert ran.status == 0, ran.err
    assert "5 queries, 3 scans of this table, 1 query without it" in ran.out
    assert "1 query could not be parsed:" in ran.out
    assert "filtered by: a (2x)" in ran.out
    assert "joined on: b (1x)" in ran.out
    assert "1 scan has no filter" in ran.out
    assert "layout: sort by a: the queries read 5.0 % of the files instead of 100 %" in ran.out
    assert f"to write it: tidyberg compact {NAME} --sort-order a\n" in ran.out
    assert "20 files become 1" in ran.out
    read = r"20 \(([\d.]+) KB\) → 1 \(([\d.]+) KB\)  1x  select \* from analytics.numbers where a between 100 and 200"
    (sizes,) = re.findall(read, ran.out)
    assert float(sizes[0]) / float(sizes[1]) == pytest.approx(20, rel=0.05)
    assert "measured on 10,000 rows" in ran.out
    document = run("advise", NAME, "--queries", str(log), "--json").json
    assert document["outcome"] == "advised"
    assert document["best"] == {"columns": ["a"], "curve": None}
    assert document["command"] == f"tidyberg compact {NAME} --sort-order a"
    assert (document["columns"], document["joined_on"]) == ({"a": 2.0}, {"b": 1.0})


@pytest.mark.parametrize(
    ("columns", "curve", "order"),
    [
        (("table",), None, ['"table"']),
        (("My Col", "b"), None, ['"My Col", b']),
        (("My Col", "b"), Curve.HILBERT, ["hilbert", '"My Col",b']),
    ],
)
def test_the_command_can_be_typed_whatever_the_columns_are_called(
    columns: tuple[str, ...], curve: Curve | None, order: list[str]
) -> None:
    layout = LayoutChoice(columns, curve)
    words = shlex.split(command_line(Session(CommonFlags()), "compact", "db.it's", **layout_flags(layout)))
    assert words[:3] == ["tidyberg", "compact", "db.it's"]
    assert words[3:] == (["--sort-order", *order] if curve is None else [f"--{order[0]}", *order[1:]])


def test_an_empty_log_has_neither_queries_nor_reports(run: Run, numbers: TableRef, tmp_path: Path) -> None:
    log = tmp_path / "empty.sql"
    log.write_text("  ;\n-- nothing\n")
    ran = run("advise", NAME, "--queries", str(log))
    assert "0 queries, 0 scans of this table\n" in ran.out
    assert "layout: none: the log has no query" in ran.out


def test_a_log_of_json_lines_has_counts(run: Run, numbers: TableRef, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [
        {"query": "select * from numbers where a < 500", "count": 900},
        {"query": "select * from numbers where b < 500", "count": 800},
    ]
    log.write_text("\n".join(map(json.dumps, lines)) + "\nnot json\n")
    ran = run("advise", NAME, "--queries", str(log), "--dialect", "trino")
    assert "layout: hilbert(a, b): the queries read" in ran.out
    assert f"to write it: tidyberg compact {NAME} --hilbert a,b" in ran.out
    assert "line 3: it is not JSON" in ran.out
    assert "zorder(a, b): " in ran.out
    assert "900x" in ran.out


def test_the_command_for_boundaries_cuts_the_files_that_straddle(
    run: Run, warehouse: Warehouse, tmp_path: Path
) -> None:
    schema = Schema(NestedField(1, "ts", TimestampType(), required=False))
    table = warehouse.create_table("analytics.late", schema)
    random, hour = np.random.default_rng(3), 3_600_000_000
    for number in range(24):
        hours = number * 4 + random.integers(-8 * hour, 4 * hour, 1_000) / hour
        times = np.datetime64("2026-11-08") + (hours * hour).astype("m8[us]")
        table.append(pa.table({"ts": pa.array(times, pa.timestamp("us"))}))
    days = [(f"2026-11-{day:02d}", f"2026-11-{day + 1:02d}") for day in (9, 10)]
    log = tmp_path / "queries.sql"
    log.write_text(";".join(f"select * from late where ts >= '{low}' and ts < '{high}'" for low, high in days))
    command = "tidyberg compact analytics.late --sort-order ts --boundaries '2026-11-09, 2026-11-10, 2026-11-11'"
    ran = run("advise", "analytics.late", "--queries", str(log))
    assert f"to write it: {command}" in " ".join(ran.out.split())
    document = run("advise", "analytics.late", "--queries", str(log), "--json").json
    assert document["boundary"]["command"] == command
    files = {file.path for file in warehouse.live_files(table)}
    ranges = [f"ts >= '{low}T00:00:00' and ts < '{high}T00:00:00'" for low, high in days]
    before = sum(len(list(table.scan(row_filter=one).plan_files())) for one in ranges)
    assert run(*shlex.split(command)[1:]).status == 0
    table.refresh()
    after = sum(len(list(table.scan(row_filter=one).plan_files())) for one in ranges)
    assert after < before
    left = {file.path for file in warehouse.live_files(table)}
    planned = {path.removeprefix("file://") for path in document["boundary"]["paths"]}
    assert {path.removeprefix("file://") for path in files - left} == planned
    assert run(*shlex.split(command)[1:], "--detailed-exitcode").status == 3, "I10: once is enough"


@pytest.mark.parametrize("column", ["name", "my column"])
@pytest.mark.parametrize("boundaries", [("'it''s'", "'z '"), ("'$x'",), ("'a\"b'", "'`c`'", "'\\\\'")])
def test_a_shell_reads_the_boundaries_as_they_are(boundaries: tuple[str, ...], column: str) -> None:
    choice = BoundaryChoice(column, boundaries, 1, 1, 0.5, 0.5, 2)
    command = shlex.split(command_line(Session(CommonFlags()), "compact", "db.t", **boundary_flags(choice)))
    assert command[-1] == ", ".join(boundaries)
    assert command[-3] == ("name" if column == "name" else '"my column"')


def test_the_commands_have_the_catalog_and_the_settings_of_this_one(
    run: Run, numbers: TableRef, tmp_path: Path
) -> None:
    log, settings = tmp_path / "queries.sql", tmp_path / "other.yaml"
    log.write_text("select * from numbers where a = 5")
    settings.write_text((tmp_path / "tidyberg.yaml").read_text())
    flags = ("--config", str(settings), "--catalog", "lab")
    shown = run("advise", NAME, "--queries", str(log), *flags)
    command = f"tidyberg compact {NAME} --sort-order a --config {settings} --catalog lab"
    assert f"to write it: {command}\n" in shown.out
    assert run("advise", NAME, "--queries", str(log), *flags, "--json").json["command"] == command
    properties = run("advise", NAME, *flags)
    assert f"to set them: tidyberg advise {NAME} --apply --config {settings} --catalog lab, or" in properties.out


def test_none_is_shown_with_its_reason(run: Run, numbers: TableRef, tmp_path: Path) -> None:
    log = tmp_path / "queries.sql"
    log.write_text("select * from numbers where a >= 0")
    ran = run("advise", NAME, "--queries", str(log))
    assert "layout: none: no order of the filter columns lets these queries skip many more files" in ran.out
    assert "the queries read 100 % of 20 files today" in ran.out
    document = run("advise", NAME, "--queries", str(log), "--json").json
    assert (document["outcome"], document["best"], document["command"]) == ("nothing", None, None)


def test_scan_reports_of_the_store_are_used(run: Run, numbers: TableRef) -> None:
    failed = run("advise", NAME, "--scan-reports")
    assert failed.status != 0
    assert f"No scan of {NAME} was reported to this job store." in failed.err
    records = open_records(load_settings())
    records.ledger.add_scan_report(numbers, ScanReportTotals(20_000, '{"column":"b","operator":"="}', 70))
    records.close()
    ran = run("advise", NAME, "--scan-reports")
    assert ran.status == 0, ran.err
    assert "70 scans of this table, from reports of engines" in ran.out
    assert "layout: sort by b: the queries read" in ran.out
    assert "reported scans: b = ? (typical values)" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--queries", "nothing.sql"), "nothing.sql cannot be read: No such file or directory."),
        (("--queries", "."), "cannot be read"),
        (("--queries", "queries.sql", "--apply"), "Advice on the layout sets no properties."),
        (("--queries", "queries.sql", "--dialect", "klingon"), "'klingon' is not a dialect of SQL."),
        (("--dialect", "spark"), "--dialect says how to read --queries."),
    ],
)
def test_bad_input_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "queries.sql").write_text("select 1")
    ran = run("advise", "analytics.events", *arguments)
    assert ran.status == 2
    assert words in ran.err


def test_a_file_of_other_bytes_is_not_fatal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_bytes(bytes(range(256)) * 10)
    ran = run("advise", "analytics.events", "--queries", "queries.sql")
    assert ran.status == 0, ran.err
    assert "layout: none" in ran.out


@pytest.mark.parametrize("files", [1, 2])
def test_one_file_straddles_and_several_straddle(files: int) -> None:
    choice = BoundaryChoice("a", ("1",), files=files, bytes=10, share=0.5, full_bytes=20, full_share=0.4)
    expected = (
        "the 1 file that straddles 1 boundary of a" if files == 1 else "the 2 files that straddle 1 boundary of a"
    )
    assert expected in boundary_words(choice)
