"""Describes a table without a plan: its health, and one line for a list of tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog import Catalog

from tidyberg.catalog.open import load_table
from tidyberg.errors import TidybergError
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import HealthReport, TableSummary
from tidyberg.model.table import TableRef
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.planning.health import assess
from tidyberg.planning.overhead import overhead_of


def health_report(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    options: PlanOptions,
    now_ms: int,
) -> HealthReport:
    upkeep = overhead_of(inventory)
    target = resolve_sizes(options, inventory.pinned.properties).target
    worst = sorted(statistics, key=lambda s: (-s.small_files, -s.delete_files, -s.files, s.partition))
    return HealthReport(
        table=inventory.pinned.table,
        branch=options.branch,
        snapshot_id=inventory.pinned.snapshot_id,
        snapshot_ms=inventory.pinned.timestamp_ms,
        health=assess(statistics, options, target, now_ms, upkeep),
        files=inventory.data_files.num_rows,
        small_files=sum(s.small_files for s in statistics),
        bytes=sum(s.bytes for s in statistics),
        records=sum(s.records for s in statistics),
        delete_files=inventory.delete_files.num_rows,
        partitions=tuple((inventory.partitions[s.partition].label, s) for s in worst),
        file_sizes=tuple(inventory.data_files["size"].to_pylist()),
        target_file_size=target,
        snapshots=upkeep.snapshots,
        manifests=upkeep.manifests,
        dead_bytes=upkeep.dead_bytes,
        deletes_old_metadata=upkeep.deletes_old_metadata,
        metadata_bytes=upkeep.metadata_bytes,
    )


def summarise(catalog: Catalog, ref: TableRef) -> TableSummary:
    try:
        table = load_table(catalog, ref)
    except TidybergError as error:
        return TableSummary(ref, None, None, None, None, None, error=str(error))
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return TableSummary(ref, 0, 0, 0, 0, None)
    summary: Mapping[str, Any] = snapshot.summary.additional_properties if snapshot.summary else {}

    def number(name: str) -> int | None:
        return int(summary[name]) if name in summary else None

    return TableSummary(
        ref,
        number("total-data-files"),
        number("total-files-size"),
        number("total-records"),
        number("total-delete-files"),
        snapshot.timestamp_ms,
    )
