"""Writes results into the documentation, and renews the tables and plots there from all that it holds.

    python -m benchmarks.publish [bench-results/encode.json ...]

A table stands between `<!-- table: name -->` and `<!-- end of table -->`. The results are kept in docs/performance, one
file for each scenario, so that a test can compare the pages with them.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.markdown import (
    Report,
    cost_table,
    headline_table,
    machine_line,
    memory_table,
    missed_table,
    promises_table,
    summary_lines,
    times_table,
)
from benchmarks.plot import dot_plot
from benchmarks.scenarios import SCENARIOS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
PAGES = (PAGE, ROOT / "docs" / "internals" / "performance.md", README)
RESULTS = PAGE.with_suffix("")
_PLOT = "![Input rewritten per second and core, by table and tool](performance/rewrites.svg)"
_NOTHING = "Not measured yet: `make bench`, then `make bench-docs`."
TABLES: dict[str, Callable[[list[Report]], str]] = {
    "machine": machine_line,
    "plot": lambda _: _PLOT,
    "times": times_table,
    "memory": memory_table,
    "cost": cost_table,
    "promises": promises_table,
    "missed": missed_table,
    "headline": headline_table,
    "summary": summary_lines,
}
_SERIES = {"tidyberg": "tidyberg", "java": "rewrite_data_files", "duckdb": "DuckDB and PyIceberg", "cp": "cp"}


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    for given in map(Path, sys.argv[1:]):
        report = json.loads(given.read_text())
        if "scenario" not in report:
            continue  # of another benchmark
        (RESULTS / f"{report['scenario']}.json").write_text(json.dumps(report, indent=2) + "\n")
    reports = published(RESULTS)
    for page in PAGES:
        page.write_text(renewed(page.read_text(), reports))
    if reports:
        (RESULTS / "rewrites.svg").write_text(rates_plot(reports))


def published(directory: Path) -> list[Report]:
    """Returns the results in the order of the scenarios."""
    paths = [directory / f"{name}.json" for name in SCENARIOS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def renewed(page: str, reports: list[Report]) -> str:
    """Returns the page with every table that it has a marker for."""

    def table(place: re.Match[str]) -> str:
        return f"{place[1]}\n{TABLES[place[2]](reports) if reports else _NOTHING}\n{place[3]}"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end of table -->)", table, page, flags=re.DOTALL)


def rates_plot(reports: list[Report]) -> str:
    rows = [
        (
            report["scenario"].replace("-", " "),
            {
                name: report["sides"][side]["mb_per_core_second"]
                for side, name in _SERIES.items()
                if side in report["sides"]
            },
        )
        for report in reports
    ]
    return dot_plot("Input rewritten per second and core", "MB/s", rows)


if __name__ == "__main__":
    main()
