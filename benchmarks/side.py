"""Runs one side of a benchmark in its own process: warms up on a small table, then rewrites the large one.

It prints a JSON line after the warm-up and another after the rewrite. After each, it waits for a line on its input.
"""

import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.two_sides import answering
from benchmarks.warehouse import SMALL_TABLE, TABLE, data_files, inventory_of

ON_S3 = "tidyberg-s3"
WARM_UP_OUTPUTS = 4  # every worker should have run a task before the measurement


@dataclass(frozen=True, slots=True)
class Order:
    """The instructions for a side."""

    directory: str
    target_bytes: int
    threads: int
    mode: str
    properties: dict[str, str] = field(default_factory=dict)  # of the catalog, for storage other than local disks


Rewrite = Callable[[str, int], dict[str, Any]]  # takes a table and its target size, returns facts for the report
Side = Callable[[Order, Path], Rewrite]


def main() -> None:
    side, order = SIDES[sys.argv[1]], Order(**json.loads(sys.argv[2]))
    with answering() as (answers, scratch):
        rewrite = side(order, scratch)
        small = inventory_of(Path(order.directory), SMALL_TABLE, order.properties).data_files
        rewrite(SMALL_TABLE, sum(small["size"].to_pylist()) // WARM_UP_OUTPUTS)
        gc.collect()  # a full collection takes 0.1 s, and by chance it falls into the measured time or not
        print(json.dumps({"warm": True}), file=answers, flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        facts = rewrite(TABLE, order.target_bytes)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, **facts}), file=answers, flush=True)
        sys.stdin.readline()  # wait until the parent has read the CPU time of the workers


def tidyberg_side(order: Order, scratch: Path) -> Rewrite:
    """Runs tidyberg: observe, plan, execute on Spark, verify counts, commit."""
    from tidyberg.control.control import Control
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.model.options import PlanOptions, RewriteMode, Strategy
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore
    from tidyberg.testing import Warehouse

    warehouse = Warehouse(order.directory, properties=order.properties)
    control = Control(
        lambda _: warehouse.catalog,
        lambda: SparkEngine(f"local[{order.threads}]"),
        SqliteStore(scratch / "jobs.db", is_alive),
    )

    mode = RewriteMode(order.mode)

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:
        options = PlanOptions(
            strategy=Strategy.FULL, target_file_size=target_bytes, min_input_files=2, force=True, mode=mode
        )
        result = control.compact(TableRef.parse(table, warehouse.name), options)
        assert result.outcome == "committed", result
        if order.mode == "copy":
            assert result.job.copied.groups == len(result.plan.groups), result.job.copied
        return {
            "estimate": asdict(result.plan.estimate),
            "requests": dict(result.job.requests),
            "bytes_spliced": result.job.spliced.bytes_spliced,
        }

    return rewrite


def tidyberg_sort_side(order: Order, scratch: Path) -> Rewrite:
    """Runs tidyberg: sorts all rows of the table. The mode is the kind of order, its columns and further settings.

    With the setting `compact`, files that claim the order of the table are merged in it instead.
    """
    from tidyberg.control.control import Control
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.execute.spark.session import session_of
    from tidyberg.model.options import PlanOptions, Strategy
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore
    from tidyberg.testing import Warehouse

    kind, columns, *words = order.mode.split()
    settings = dict(word.split("=") for word in words)
    warehouse = Warehouse(order.directory, properties=order.properties)
    engine = SparkEngine(
        f"local[{order.threads}]",
        conf={"spark.local.dir": str(scratch), **limited_workers(settings.get("memory"))},
    )
    if "session" in settings:  # an engine on somebody's session uses Spark's shuffle
        engine.start()
        engine = SparkEngine(session=session_of(engine._spark))
    control = Control(
        lambda _: warehouse.catalog,
        lambda: engine,
        SqliteStore(scratch / "jobs.db", is_alive),
    )

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:
        force = "incremental" not in settings
        order: dict[str, Any] = {"strategy": Strategy.FULL} if "compact" in settings else {kind: columns}
        options = PlanOptions(target_file_size=target_bytes, force=force, **order)
        result = control.compact(TableRef.parse(table, warehouse.name), options)
        assert result.outcome == "committed", result
        return {"groups": len(result.plan.groups)}

    return rewrite


def limited_workers(gigabytes: str | None) -> dict[str, str]:
    """Python workers that ask for more address space than this get none, and fail."""
    if gigabytes is None:
        return {}
    return {"spark.executor.pyspark.memory": f"{round(float(gigabytes) * 1024)}m"}


def java_sort_side(order: Order, scratch: Path) -> Rewrite:
    from benchmarks.java import open_session, sort_data_files

    session = open_session(Path(order.directory), order.threads, scratch)
    kind, columns, *_ = order.mode.split()

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:
        sort_data_files(session, table, target_bytes, kind, columns)
        return {}

    return rewrite


def java_side(order: Order, scratch: Path) -> Rewrite:
    """Runs Iceberg's own action on Spark, which plans, rewrites and commits in one call."""
    from benchmarks.java import open_session, rewrite_data_files

    session = open_session(Path(order.directory), order.threads, scratch)

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:
        rewrite_data_files(session, table, target_bytes)
        return {}

    return rewrite


def duckdb_side(order: Order, scratch: Path) -> Rewrite:
    """A way without Spark: DuckDB reads the data files into memory, and PyIceberg overwrites the table with the rows.

    DuckDB's Iceberg reader is an extension that it downloads, so this side passes the paths of the files instead.
    """
    import duckdb

    from tidyberg.testing import Warehouse

    warehouse = Warehouse(order.directory)
    connection = duckdb.connect(config={"threads": order.threads, "temp_directory": str(scratch)})
    connection.execute("SET TimeZone = 'UTC'")

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:
        loaded = warehouse.catalog.load_table(table)
        paths = data_files(inventory_of(Path(order.directory), table))
        rows = connection.read_parquet(list(map(str, paths)), hive_partitioning=False).to_arrow_table()
        with loaded.transaction() as transaction:
            transaction.set_properties({"write.target-file-size-bytes": str(target_bytes)})
            transaction.overwrite(rows)
        return {}

    return rewrite


def cp_side(order: Order, scratch: Path) -> Rewrite:  # noqa: ARG001 - every side has the same parameters
    """Copies the bytes of the data files with `cp`. This is not a rewrite, but the lower limit for any rewrite."""
    target = Path(order.directory) / "copied"
    listed = {table: data_files(inventory_of(Path(order.directory), table)) for table in (SMALL_TABLE, TABLE)}

    def rewrite(table: str, target_bytes: int) -> dict[str, Any]:  # noqa: ARG001
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for first in range(0, len(listed[table]), 1_000):  # limited by the length of a command line
            names = listed[table][first : first + 1_000]
            subprocess.run(["cp", "--reflink=never", *map(str, names), str(target)], check=True)
        return {}

    return rewrite


SIDES: dict[str, Side] = {
    "tidyberg": tidyberg_side,
    ON_S3: tidyberg_side,
    "java": java_side,
    "tidyberg-sort": tidyberg_sort_side,
    "java-sort": java_sort_side,
    "duckdb": duckdb_side,
    "cp": cp_side,
}


if __name__ == "__main__":
    main()
