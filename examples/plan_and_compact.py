"""Plan and compact a table from Python. Run it: python examples/plan_and_compact.py [inline]"""

# ruff: noqa: T201
import sys
import tempfile
from pathlib import Path

import tidyberg
from tidyberg.model.plan import Rewrite
from tidyberg.model.report import Event, GroupFinished
from tidyberg.testing import Warehouse


def show_progress(event: Event) -> None:
    if isinstance(event, GroupFinished):
        print(f"  {event.progress.groups_completed} of {event.progress.groups_total} groups done")


def main(directory: Path, engine: str = "spark") -> None:
    # Any PyIceberg table will do: catalog.load_table("analytics.events"). Here we make one with 20 small files.
    warehouse = Warehouse(directory)
    table = warehouse.append_files(warehouse.create_table("analytics.events"), files=20, rows_per_file=1_000)

    # A plan changes nothing and starts no JVM.
    plan = tidyberg.plan(table, strategy="small_files", target_file_size="256MB")
    for partition in plan.partitions:
        verdict = partition.verdict
        outcome = f"{verdict.files} -> {verdict.outputs}" if isinstance(verdict, Rewrite) else verdict.reason
        print(f"{partition.partition_path or 'the whole table'}: {verdict.kind} {outcome}")
    print(f"costs ${plan.estimate.dollars:.6f}, pays back after {plan.estimate.payback_scans} scans")

    # Compacting plans again, rewrites, verifies and commits; engine="inline" does it in this process.
    result = tidyberg.compact(table, strategy="small_files", verify="full", engine=engine, on_event=show_progress)
    print(f"{result.outcome}: {result.stats.files_before} files before, {result.stats.files_after} after")

    # A second time there is nothing to do.
    print(tidyberg.compact(table, strategy="small_files", engine=engine).outcome)
    warehouse.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary), *sys.argv[1:2])
