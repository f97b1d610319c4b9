"""One side of the rewrite benchmark in a process of its own: warms up on a small table, then rewrites the big one.

Writes a JSON line when it is warm and another when it is done; starts, and ends, when a line comes in.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.data import SMALL_TABLE, TABLE

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"
WARM_UP_TARGET = 8 * 1024 * 1024  # several outputs, so that every worker has worked before the clock starts
Rewrite = Callable[[str, int], None]


def main() -> None:
    side, directory, target_bytes, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark writes to standard output as it likes
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        rewrite = (tidyberg_side if side == "tidyberg" else java_side)(directory, threads, Path(scratch))
        rewrite(SMALL_TABLE, WARM_UP_TARGET)
        print(json.dumps({"warm": True}), file=answers, flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        rewrite(TABLE, target_bytes)
        print(json.dumps({"seconds": time.perf_counter() - started}), file=answers, flush=True)
        sys.stdin.readline()  # until the CPU time of the workers has been read


def tidyberg_side(directory: Path, threads: int, scratch: Path) -> Rewrite:
    """Observe, plan, execute on Spark, verify counts and commit."""
    from tidyberg.control.control import Control
    from tidyberg.execute.spark import SparkEngine
    from tidyberg.model.options import PlanOptions, Strategy
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore
    from tidyberg.testing import Warehouse

    warehouse = Warehouse(directory)
    control = Control(
        lambda _: warehouse.catalog,
        lambda: SparkEngine(f"local[{threads}]"),
        SqliteStore(scratch / "jobs.db", is_alive),
    )

    def rewrite(table: str, target_bytes: int) -> None:
        options = PlanOptions(strategy=Strategy.FULL, target_file_size=target_bytes, min_input_files=2, force=True)
        result = control.compact(TableRef.parse(table, warehouse.name), options)
        assert result.outcome == "committed", result

    return rewrite


def java_side(directory: Path, threads: int, scratch: Path) -> Rewrite:
    """Iceberg's own action on Spark: plans, rewrites and commits in one call."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.jars.packages", PACKAGES)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(scratch))
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.catalog.lab", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lab.type", "jdbc")
        .config("spark.sql.catalog.lab.uri", f"jdbc:sqlite:{directory / 'catalog.db'}")
        .config("spark.sql.catalog.lab.warehouse", f"file://{directory / 'warehouse'}")
        .config("spark.sql.catalog.lab.jdbc.schema-version", "V1")
        .config("spark.sql.catalog.lab.cache-enabled", "false")
        .getOrCreate()
    )

    def rewrite(table: str, target_bytes: int) -> None:
        options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{target_bytes}')"
        call = f"CALL lab.system.rewrite_data_files(table => '{table}', options => {options})"
        (row,) = spark.sql(call).collect()
        assert row["rewritten_data_files_count"] > 0, row

    return rewrite


if __name__ == "__main__":
    main()
