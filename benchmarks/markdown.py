"""Benchmark reports as Markdown tables."""

from collections.abc import Sequence
from typing import Any

from tidyberg.model.sizes import GB, MB

SIDES = {
    "tidyberg": "tidyberg",
    "tidyberg-s3": "the same on S3",
    "java": "Iceberg's `rewrite_data_files`",
    "duckdb": "DuckDB and PyIceberg",
    "cp": "`cp`",
}
HEADLINES = ("copy", "encode", "spark-files", "equality-deletes", "delete-piles", "tiny-files")
Report = dict[str, Any]


def machine_line(reports: Sequence[Report]) -> str:
    """Describes the machines that the figures come from. Usually there is one."""
    lines = []
    for report in reports:
        facts = report["machine"]
        lines.append(
            f"{report['master']} on {facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, "
            f"{facts['disk']}; Python {facts['python']}, PySpark {facts['pyspark']}, PyArrow {facts['pyarrow']}, "
            f"PyIceberg {facts['pyiceberg']}, DuckDB {facts['duckdb']}, Iceberg for Java {facts['iceberg_java']}; "
            f"{report['at'][:10]}."
        )
    return "\n".join(dict.fromkeys(lines))


def times_table(reports: Sequence[Report]) -> str:
    rows = [
        [
            f"{report['title']} ({report['mode']})",
            f"{report['input']['bytes'] / MB:,.0f} MB",
            *(_seconds(report, side) for side in SIDES),
            *(_times(report, side) for side in ("java", "duckdb")),
            _cpu_times(report),
            f"{report['sides']['tidyberg']['mb_per_core_second']:.0f}",
        ]
        for report in reports
    ]
    header = [
        "table",
        "size",
        *SIDES.values(),
        "times as fast as Java",
        "as DuckDB",
        "CPU of Java / ours",
        "MB/s per core",
    ]
    return _table(header, rows)


def memory_table(reports: Sequence[Report]) -> str:
    rows = [
        [
            report["title"],
            *(_megabytes(report, side, "peak_bytes") for side in ("tidyberg", "java", "duckdb")),
            _megabytes(report, "tidyberg", "worker_bytes"),
            *(_files(report, side) for side in ("tidyberg", "java")),
        ]
        for report in reports
    ]
    header = ["table", "peak, tidyberg", "Java", "DuckDB", "its largest worker", "files written", "by Java"]
    return _table(header, rows)


def cost_table(reports: Sequence[Report]) -> str:
    rows = []
    for report in reports:
        ours = report["sides"]["tidyberg"]["dollars_per_gb"]
        java = report["sides"].get("java", {}).get("dollars_per_gb")
        rows.append(
            [
                report["title"],
                f"${ours['compute']:.5f}",
                f"${ours['requests']:.5f}" + ("" if ours["counted_requests"] else " (modelled)"),
                f"${ours['total']:.5f}",
                f"${java['compute']:.5f}" if java else "",
                f"${ours['storage_until_expiry']:.5f}",
                f"{report['extrapolated_seconds'] / 60:.1f} min",
            ]
        )
    header = [
        "table", "compute", "requests", "together", "Java, compute", "storage until expiry",
        "100 GB on 16 cores (extrapolated)",
    ]  # fmt: skip
    return _table(header, rows)


def promises_table(reports: Sequence[Report]) -> str:
    rows = [
        [
            report["title"],
            promise["what"],
            f"{'at most' if promise['at_most'] else 'at least'} {_number(promise['wanted'])}",
            _number(promise["found"]),
            "kept" if promise["kept"] else "**missed**",
        ]
        for report in reports
        for promise in report["promises"]
    ]
    return _table(["table", "promise", "wanted", "found", ""], rows)


def missed_table(reports: Sequence[Report]) -> str:
    rows = [
        [
            report["title"],
            promise["what"],
            f"{'at most' if promise['at_most'] else 'at least'} {_number(promise['wanted'])}",
            _number(promise["found"]),
        ]
        for report in reports
        for promise in report["promises"]
        if not promise["kept"]
    ]
    return _table(["table", "promise", "wanted", "found"], rows) if rows else "None."


def headline_table(reports: Sequence[Report]) -> str:
    """The few rows that README.md shows."""
    rows = [
        [
            report["title"],
            *(_seconds(report, side) for side in ("tidyberg", "java")),
            _times(report, "java"),
            *(_megabytes(report, side, "peak_bytes") for side in ("tidyberg", "java")),
        ]
        for report in reports
        if report["scenario"] in HEADLINES
    ]
    header = ["table", "tidyberg", SIDES["java"], "times as fast", "memory, tidyberg", "memory, Java"]
    return _table(header, rows)


def summary_lines(reports: Sequence[Report]) -> str:
    """The range of speeds and of memory over all tables that both tools rewrote."""
    both = [report for report in reports if "java" in report["sides"]]
    faster = [report["times_faster"]["java"] for report in both]
    ours, java = ([report["sides"][side]["peak_bytes"] / GB for report in both] for side in ("tidyberg", "java"))
    return (
        f"- A rewrite is {min(faster):.1f} to {max(faster):.1f} times as fast as Iceberg's Java action "
        "`rewrite_data_files`, on the same cores and the same data.\n"
        f"- All processes of a job together need {min(ours):.1f} to {max(ours):.1f} GB of memory. "
        f"The Java action needs {min(java):.1f} to {max(java):.1f} GB."
    )


def full_text(reports: Sequence[Report]) -> str:
    return "\n\n".join(
        [machine_line(reports), *(make(reports) for make in (times_table, memory_table, cost_table, promises_table))]
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _seconds(report: Report, side: str) -> str:
    found = report["sides"].get(side)
    return f"{found['median_seconds']:.2f} s" if found else ""


def _times(report: Report, side: str) -> str:
    found = report["times_faster"].get(side)
    return f"{found:.1f}" if found else ""


def _cpu_times(report: Report) -> str:
    """Returns Java's CPU time as a multiple of ours. On a busy machine it is more reliable than wall time."""
    java = report["sides"].get("java")
    return f"{java['cpu_seconds'] / report['sides']['tidyberg']['cpu_seconds']:.1f}" if java else ""


def _megabytes(report: Report, side: str, what: str) -> str:
    found = report["sides"].get(side)
    return f"{found[what] / MB:,.0f} MB" if found else ""


def _files(report: Report, side: str) -> str:
    found = report["sides"].get(side)
    return f"{found['outputs']:,} ({found['bytes_written'] / GB:.2f} GB)" if found else ""


def _number(value: float) -> str:
    return f"{value:.5f}" if value < 0.01 else f"{value:.2f}"
