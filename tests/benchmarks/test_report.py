"""The arithmetic of benchmarks, worked out by hand."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.markdown import HEADLINES, full_text, missed_table, summary_lines
from benchmarks.measure import Run
from benchmarks.memory import PeakMemory
from benchmarks.plot import dot_plot
from benchmarks.publish import PAGE, PAGES, README, RESULTS, published, rates_plot, renewed
from benchmarks.report import Input, allocated_gb, extrapolated_seconds, promises, scenario_report
from benchmarks.scenarios import SCENARIOS
from benchmarks.side import ON_S3

from tidyberg.model.sizes import GB, MB

ESTIMATE = {"get_requests": 1000, "put_requests": 100, "storage_dollars": 0.008}
INPUT = Input(files=10, rows=1_000, bytes=2 * GB, delete_files=0, partitions=1)
MACHINE = {
    "cores": 2, "processor": "P", "memory_gb": 24, "disk": "ext4", "python": "3", "pyspark": "4", "pyarrow": "26",
    "pyiceberg": "0", "duckdb": "2", "iceberg_java": "1",
}  # fmt: skip


def run(side: str, seconds: float, peak: int = 2 * GB, facts: dict[str, Any] | None = None) -> Run:
    return Run(side, seconds, seconds * 2, peak, 300 * MB, 4, 2 * GB, facts or {})


def report(*runs: Run, scenario: str = "encode") -> dict[str, Any]:
    made = scenario_report(SCENARIOS[scenario], INPUT, runs, threads=2)
    return {"at": "2026-11-15T16:00:00+00:00", "machine": MACHINE, **made}


def ours(*seconds: float, side: str = "tidyberg", requests: dict[str, int] | None = None) -> list[Run]:
    return [run(side, each, facts={"estimate": ESTIMATE, "requests": requests}) for each in seconds]


def test_ratios_are_of_medians() -> None:
    found = report(*ours(4.0, 5.0, 9.0), run("java", 20.0), run("java", 40.0), run("cp", 0.5))
    assert found["times_faster"] == {"java": 6.0, "cp": 0.1}
    assert found["sides"]["tidyberg"]["best_seconds"] == 4.0


def test_the_rate_is_per_core() -> None:
    found = report(*ours(8.0))
    assert found["sides"]["tidyberg"]["mb_per_core_second"] == 2048 / 8 / 2
    assert found["extrapolated_seconds"] == pytest.approx(102_400 / (128 * 16))
    assert extrapolated_seconds(64) == pytest.approx(100.0)


def test_dollars_are_of_allocated_memory_and_of_requests() -> None:
    dollars = report(*ours(6.0))["sides"]["tidyberg"]["dollars_per_gb"]
    assert dollars["compute"] == pytest.approx(6 * 4 * 0.0000166667 / 2)
    assert dollars["requests"] == pytest.approx((1000 * 0.0004 + 100 * 0.005) / 1000 / 2)
    assert dollars["total"] == pytest.approx(dollars["compute"] + dollars["requests"])
    assert dollars["storage_until_expiry"] == pytest.approx(0.004)
    assert dollars["counted_requests"] is None


def test_requests_counted_on_s3_stand_in_for_modelled_ones() -> None:
    on_s3 = ours(30.0, side=ON_S3, requests={"get": 20, "head": 5, "put": 2, "UploadPart": 40, "delete": 9})
    found = report(*ours(6.0), *on_s3, run("java", 20.0))
    dollars = found["sides"]["tidyberg"]["dollars_per_gb"]
    assert dollars["compute"] == pytest.approx(6 * 4 * 0.0000166667 / 2)
    assert dollars["requests"] == pytest.approx((25 * 0.0004 + 42 * 0.005) / 1000 / 2)
    assert "(modelled)" not in full_text([found])
    assert found["times_faster"] == {"java": 20 / 6}  # the server shares the cores: its time is shown, no more
    assert "| 6.00 s | 30.00 s |" in full_text([found])


@pytest.mark.parametrize(("peak", "gigabytes"), [(1, 4), (4 * GB, 4), (4 * GB + 1, 5), (6 * GB, 6)])
def test_memory_is_paid_for_in_whole_gigabytes(peak: int, gigabytes: int) -> None:
    assert allocated_gb(peak) == gigabytes


def test_missed_promises_are_reported() -> None:
    found = report(*ours(1.0), run("java", 3.0), run("cp", 0.1), scenario="copy")
    kept = {promise["what"]: promise["kept"] for promise in found["promises"]}
    assert kept == {
        "times as fast as Java's action": False,  # 3 of 20
        "of the rate of cp": False,  # 0.1 of 0.4
        "GB of memory, all processes": True,
        "GB of memory, largest worker": True,
        "dollars per GB": False,  # requests alone are more than 0.0003
    }
    assert full_text([found]).count("**missed**") == 3


def test_a_promise_at_its_very_limit_is_kept() -> None:
    sides = report(*ours(1.0), run("java", 20.0), run("cp", 0.4), scenario="copy")["sides"]
    kept = {promise.what: promise.kept for promise in promises(SCENARIOS["copy"], sides)}
    assert kept["times as fast as Java's action"]
    assert kept["of the rate of cp"]


def test_tables_leave_out_sides_that_did_not_run() -> None:
    text = full_text([report(*ours(2.0), run("java", 8.0)), report(*ours(2.0), run("duckdb", 3.0), scenario="wide")])
    assert "| 100 small files (auto) | 2,048 MB | 2.00 s |  | 8.00 s |  |  | 4.0 |  | 4.0 | 512 |" in text
    assert "| 200 columns (auto) | 2,048 MB | 2.00 s |  |  | 3.00 s |  |  | 1.5 |  | 512 |" in text


def test_the_sampler_sees_the_memory_of_children() -> None:
    grandchild = "data = bytearray(200 * 2**20); data[::4096] = b'1' * len(data[::4096]); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with (
        subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process,
        PeakMemory(process.pid, every_seconds=0.05) as memory,
    ):
        assert process.stdin is not None
        while memory.worker_bytes < 200 * MB:
            assert process.poll() is None
        process.stdin.write(b"\n")
    assert memory.peak_bytes > memory.worker_bytes >= 200 * MB


def test_a_page_gets_the_tables_it_has_places_for() -> None:
    page = "before\n<!-- table: times -->\nold\n<!-- end of table -->\nafter\n"
    found = renewed(page, [report(*ours(2.0), run("java", 8.0))])
    assert found.startswith("before\n<!-- table: times -->\n| table |")
    assert found.endswith("<!-- end of table -->\nafter\n")
    assert "old" not in found
    assert renewed(found, [report(*ours(2.0), run("java", 8.0))]) == found


def test_the_documentation_shows_the_results_beside_it() -> None:
    reports = published(RESULTS)
    for page in PAGES:
        assert renewed(page.read_text(), reports) == page.read_text(), f"{page.name}: run make bench-docs"
    assert not reports or (RESULTS / "rewrites.svg").read_text() == rates_plot(reports), "run make bench-docs"


def figures(page: Path, name: str) -> dict[str, list[str]]:
    """The rows of a generated table, by what stands in their first cells."""
    found = re.search(rf"<!-- table: {name} -->\n(.*?)<!-- end of table -->", page.read_text(), re.DOTALL)
    assert found is not None, f"{page.name} has no table {name}"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def test_the_figures_of_the_readme_are_those_of_the_performance_page() -> None:
    times = {re.sub(r" \(\w+\)$", "", title): row for title, row in figures(PAGE, "times").items()}
    memory = figures(PAGE, "memory")
    headline = figures(README, "headline")
    assert len(headline) == len(HEADLINES)
    for title, (ours, java, faster, our_memory, java_memory) in headline.items():
        assert [ours, java, faster] == [times[title][1], times[title][3], times[title][6]], title
        assert [our_memory, java_memory] == memory[title][:2], title


def test_the_readme_has_no_figures_besides_those_of_the_results() -> None:
    """A time "against" another tool, or a "times as fast" in prose, would not follow the results."""
    prose = re.sub(r"```.*?```|<!-- table.*?end of table -->", "", README.read_text(), flags=re.DOTALL)
    assert re.findall(r"[\d.]+ (?:s|ms|GB|MB|times)\b", prose) == []


def test_the_summary_and_the_missed_promises_follow_the_results() -> None:
    fast, slow = report(*ours(2.0), run("java", 8.0)), report(*ours(2.0), run("java", 20.0))
    assert summary_lines([fast, slow]).startswith("- A rewrite is 4.0 to 10.0 times as fast")
    for promise in fast["promises"]:
        promise["kept"] = True
    assert missed_table([fast]) == "None."
    fast["promises"][0]["kept"] = False
    assert missed_table([fast]).count("\n") == 2


def test_a_plot_shows_ratios_as_distances() -> None:
    text = dot_plot("T", "MB/s", [("a<b", {"x": 10.0, "y": 100.0}), ("c", {"x": 100.0, "y": 1000.0})])
    places = [float(part.split('"')[1]) for part in text.split("<circle cx=")[3:]]
    assert len(places) == 4
    assert places[1] - places[0] == pytest.approx(places[3] - places[2], abs=0.2)
    assert "a&lt;b" in text
