"""Tables with deletes, and helpers to inspect them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from tests.control.conftest import make_control
from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken, Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.storage.access import StorageAccess
from tidyberg.testing import LiveFile, Warehouse

REF = TableRef("lab", ("db",), "events")
ROWS = 10

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "amount", IntegerType(), required=False),
    NestedField(4, "note", StringType(), required=False),
    NestedField(5, "place", StructType(NestedField(6, "city", StringType(), required=False)), required=False),
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
SPECS = {"unpartitioned": UNPARTITIONED_PARTITION_SPEC, "by-region": BY_REGION}


def rows_of(number: int, region: str, rows: int = ROWS) -> pa.Table:
    """The rows of the file with that number: ids from ten times it on, every fifth amount and place null."""
    ids = range(number * ROWS, number * ROWS + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([region] * rows, pa.string()),
            "amount": pa.array([None if i % 5 == 0 else i % 5 for i in ids], pa.int32()),
            "note": pa.array([f"note-{i % 3}" for i in ids], pa.string()),
            "place": pa.array(
                [None if i % 5 == 0 else {"city": None if i % 5 == 1 else f"city-{i % 5}"} for i in ids],
                pa.struct([("city", pa.string())]),
            ),
        }
    )


def make_table(
    warehouse: Warehouse, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC, format_version: int = 2
) -> Table:
    """Files 0 to 3 in region eu, one commit each, and 4 and 5 in region us."""
    table = warehouse.create_table("db.events", SCHEMA, spec, format_version=format_version)
    append(warehouse, table, [0, 1, 2, 3], "eu")
    return append(warehouse, table, [4, 5], "us")


def append(warehouse: Warehouse, table: Table, numbers: Sequence[int], region: str, *, per_commit: int = 1) -> Table:
    return warehouse.append_files(
        table,
        len(numbers),
        rows=lambda position: rows_of(numbers[position], region).select(
            [name for name in table.schema().column_names if name in SCHEMA.column_names and "." not in name]
        ),
        files_per_commit=per_commit,
    )


def options(strategy: Strategy = Strategy.FULL, where: str | None = None) -> PlanOptions:
    """Two files are enough, and nothing is hot."""
    return PlanOptions(strategy=strategy, where=where, min_input_files=2, hot_commits=10_000)


def compact(
    warehouse: Warehouse,
    how: PlanOptions | None = None,
    *,
    engine: Engine | None = None,
    verify: VerifyMode = VerifyMode.FULL,
    jobs: str = "jobs.db",
    replans: int = 2,
) -> CompactionResult:
    """Another name for `jobs` makes it another installation, which knows nothing of the first."""
    store = SqliteStore(warehouse.directory / jobs, is_alive)
    with make_control(warehouse, engine, store=store, replans=replans) as control:
        return control.compact(REF, how or options(), verify=verify)


class Meddling(InlineEngine):
    """Runs the tasks, then lets something else happen before the commit."""

    def __init__(self, meddle: Callable[[], object], max_parallelism: int | None = None) -> None:
        super().__init__(max_parallelism)
        self._meddle: Callable[[], object] | None = meddle

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        on_result: Callable[[AnyResult], None],
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> list[AnyResult]:
        results = super().run(tasks, storage, on_result=on_result, cancel=cancel, max_parallelism=max_parallelism)
        if self._meddle is not None:
            self._meddle()
            self._meddle = None  # full verification runs the engine again
        return results


def data_files(warehouse: Warehouse, table: Table) -> list[LiveFile]:
    """The live data files, oldest first."""
    files = [file for file in warehouse.live_files(table) if file.content is DataFileContent.DATA]
    return sorted(files, key=lambda file: (file.sequence_number, file.path))


def paths(warehouse: Warehouse, table: Table) -> list[str]:
    return [file.path for file in data_files(warehouse, table)]


def delete_files(warehouse: Warehouse, table: Table) -> list[str]:
    """The live delete files, oldest first."""
    files = [file for file in warehouse.live_files(table) if file.content is not DataFileContent.DATA]
    return [file.path for file in sorted(files, key=lambda file: (file.sequence_number, file.path))]


def ids(warehouse: Warehouse, table: Table) -> list[int]:
    """The ids of all rows, for what the test can say in numbers."""
    return sorted(int(row.removeprefix("(").split(",")[0]) for row in warehouse.rows(table))


def leftovers(warehouse: Warehouse, table: Table) -> set[str]:
    found = warehouse.files_on_disk(table) - warehouse.referenced_files(table)
    return {path for path in found if Path(path).suffix != ".crc"}
