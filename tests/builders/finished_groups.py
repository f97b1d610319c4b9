"""Finished groups without an engine: plain Arrow merges the inputs, so only the commit is under test."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.commit.loop import CommitLoop
from tidyberg.commit.publish import Committed, FinishedGroup, Publisher
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import SentCommit
from tidyberg.model.plan import DeleteFile, Estimate, FileGroup, InputFile, Plan
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult, WrittenFile
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.testing.warehouse import local_path

NO_ESTIMATE = Estimate(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, None)


def reference(table: Table) -> TableRef:
    *namespace, name = table.name()
    return TableRef(table.catalog.name, tuple(namespace), name)


def inventory_of(table: Table, branch: str = "main") -> Inventory:
    return take_inventory(table, pin(table.refresh(), reference(table), branch))


def groups_of(inventory: Inventory) -> list[FileGroup]:
    """Puts all files of a partition into one group."""
    groups: dict[int, list[InputFile]] = {}
    for row in inventory.data_files.to_pylist():
        file = InputFile(
            row["path"],
            row["size"],
            row["records"],
            row["sequence_number"],
            inventory.manifests[row["manifest"]].path,
            row["first_row_id"],
        )
        groups.setdefault(row["partition"], []).append(file)
    return [
        FileGroup(
            number,
            inventory.partitions[partition].spec_id,
            inventory.partitions[partition].path,
            tuple(sorted(files, key=lambda file: file.path)),
            1,
            "encode",
            1.0,
            NO_ESTIMATE,
        )
        for number, (partition, files) in enumerate(sorted(groups.items()))
    ]


def plan_of(table: Table, branch: str = "main") -> Plan:
    return plan_for(inventory_of(table, branch))


def plan_for(inventory: Inventory, deletes: Sequence[DeleteFile] = ()) -> Plan:
    pinned = inventory.pinned
    return Plan(
        format=1,
        tool_version="0",
        table=pinned.table,
        table_uuid=pinned.uuid,
        format_version=pinned.format_version,
        branch=pinned.branch,
        snapshot_id=pinned.snapshot_id,
        sequence_number=pinned.sequence_number,
        snapshot_ms=pinned.timestamp_ms,
        schema_id=pinned.schema.schema_id,
        created_ms=0,
        options={},
        resolved_where=None,
        target_file_size=1,
        health=0,
        partitions=(),
        groups=tuple(groups_of(inventory)),
        estimate=NO_ESTIMATE,
        deletes=tuple(deletes),
        hash="test",
    )


def finish(table: Table, groups: Sequence[FileGroup], job_id: str) -> list[FinishedGroup]:
    """Merges the files of each group into one output."""
    finished = []
    for group in groups:
        merged = pa.concat_tables([pq.read_table(local_path(file.path)) for file in group.files])
        path = f"{table.location()}/data/{job_id}-{group.group_id}.parquet"
        pq.write_table(merged, local_path(path))
        size = len(table.io.new_input(path))
        output = WrittenFile(path, size, merged.num_rows, {1: 10}, {1: merged.num_rows}, {1: 0}, {}, {}, {}, (4,))
        result = TaskResult(job_id, group.group_id, 0, (output,), merged.num_rows, 0, merged.num_rows, 0, size, 0.0, 0)
        finished.append(FinishedGroup(group, result))
    return finished


@dataclass
class ListJournal:
    """A journal that keeps what a commit announces."""

    written: list[str] = field(default_factory=list)
    commits: int = 0

    def about_to_write(self, paths: Sequence[str]) -> None:
        self.written += paths

    def check_ownership(self) -> None:
        """The job always owns the table."""

    def about_to_commit(self, sent: SentCommit) -> None:
        self.commits += 1


def publisher(table: Table, plan: Plan, job_id: str | None = None, catalog: Catalog | None = None) -> Publisher:
    retry = RetryPolicy(retries=5, min_wait_ms=1, max_wait_ms=2)
    return Publisher(
        CommitLoop(catalog or table.catalog, plan.table, plan.table_uuid, retry),
        plan,
        job_id=job_id or str(uuid.uuid4()),
        snapshot_id=table.metadata.new_snapshot_id(),
        journal=ListJournal(),
        cache=ManifestCache(),
    )


def commit_all(table: Table, plan: Plan | None = None, catalog: Catalog | None = None) -> Committed:
    """Rewrites every group of the plan and commits them."""
    plan = plan or plan_of(table)
    publish = publisher(table, plan, catalog=catalog)
    return publish.publish(finish(table, plan.groups, publish.job_id))
