"""Plans scans with Iceberg's Java library and counts what they read, by Iceberg's own ScanReport."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.java import open_small_session
from tidyberg.testing import Warehouse

Predicate = list[tuple[str, str, Any]]  # conditions: a column, the name of a method of Java's Expressions, a value


@dataclass(frozen=True)
class ScanTotals:
    files: int
    bytes: int


class JavaScans:
    """Plans scans with Iceberg's Java library, and reads its reports."""

    def __init__(self, session: Any) -> None:
        self.session, self._jvm = session, session._jvm

    def files_read(self, table: str, predicates: Iterable[Predicate]) -> int:
        """Returns the data files that all scans together have in their results."""
        return self.reads(table, predicates).files

    def reads(self, table: str, predicates: Iterable[Predicate]) -> ScanTotals:
        """Returns what the reports of all scans together say."""
        jvm = self._jvm
        found = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.session._jsparkSession, f"lab.{table}")
        files = size = 0
        for conditions in predicates:
            reporter = jvm.org.apache.iceberg.metrics.InMemoryMetricsReporter()
            scan = found.newScan().metricsReporter(reporter)
            for column, operator, value in conditions:
                scan = scan.filter(getattr(jvm.org.apache.iceberg.expressions.Expressions, operator)(column, value))
            tasks = scan.planFiles()
            planned = tasks.iterator()
            while planned.hasNext():
                planned.next()
            tasks.close()  # the report is written at the end
            metrics = reporter.scanReport().scanMetrics()
            files += int(metrics.resultDataFiles().value())
            size += int(metrics.totalFileSizeInBytes().value())
        return ScanTotals(files, size)

    def live_files(self, table: str) -> int:
        return int(self.session.sql(f"SELECT count(*) FROM lab.{table}.files").collect()[0][0])

    def sort(self, table: str, order: str, **options: str) -> int:
        """Runs Java's sort. Returns how many files it has rewritten."""
        given = ", ".join(f"'{key.replace('_', '-')}', '{value}'" for key, value in options.items())
        (row,) = self.session.sql(
            f"CALL lab.system.rewrite_data_files(table => '{table}', strategy => 'sort', sort_order => '{order}', "
            f"options => map({given}))"
        ).collect()
        return int(row["rewritten_data_files_count"])

    def checksum(self, table: str) -> tuple[Any, ...]:
        rows = self.session.table(f"lab.{table}")
        columns = ", ".join(rows.columns)
        text = f"SELECT count(*), sum(cast(xxhash64({columns}) AS decimal(38, 0))) FROM lab.{table}"
        return tuple(self.session.sql(text).collect()[0])


@contextlib.contextmanager
def scanned_warehouse(threads: int) -> Iterator[tuple[Warehouse, JavaScans]]:
    """Yields an empty warehouse, and Java on so many threads of Spark, which scans its tables."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        home = Path(scratch)
        with Warehouse(home / "lake") as warehouse:
            session = open_small_session(home / "lake", threads, home / "spark")
            yield warehouse, JavaScans(session)
            session.stop()
