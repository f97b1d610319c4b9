"""Audits on the inline engine, and compactions that go wrong on purpose."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.control.conftest import make_control
from tests.deletes.tables import REF
from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken, Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.audit import AuditReport, Harm, SnapshotAudit
from tidyberg.model.task import StorageAccess, TaskResult, WrittenFile
from tidyberg.testing import Warehouse, local_path


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lab") as warehouse:
        yield warehouse


def audit(warehouse: Warehouse, snapshot_id: int | None = None, engine: Engine | None = None) -> AuditReport:
    with make_control(warehouse, engine) as control:
        return control.audit(REF, snapshot_id=snapshot_id)


def audit_latest(warehouse: Warehouse) -> SnapshotAudit:
    return audit(warehouse).snapshots[0]


def harms(warehouse: Warehouse) -> dict[Harm, int]:
    return dict(audit_latest(warehouse).harms)


def overwrite(path: str, rows: pa.Table) -> None:
    """Another file under the same name, as a broken disk or a stranger would leave it."""
    pq.write_table(rows, local_path(path), store_schema=False)


class Spoiling(InlineEngine):
    """Runs the tasks, then spoils the rows of the first output and reports as if all were well."""

    def __init__(self, spoil: Callable[[pa.Table], pa.Table]) -> None:
        super().__init__()
        self._spoil = spoil

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        on_result: Callable[[AnyResult], None],
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> list[AnyResult]:
        spoiled: list[str] = []

        def spoil_first(result: AnyResult) -> None:
            if isinstance(result, TaskResult) and not spoiled:
                spoiled.append(result.outputs[0].path)
                result = replace(result, outputs=(self._spoiled(result.outputs[0]), *result.outputs[1:]))
            on_result(result)

        return super().run(tasks, storage, on_result=spoil_first, cancel=cancel, max_parallelism=max_parallelism)

    def _spoiled(self, output: WrittenFile) -> WrittenFile:
        rows = self._spoil(pq.read_table(local_path(output.path), partitioning=None))
        overwrite(output.path, rows)
        return replace(output, records=rows.num_rows, size=Path(local_path(output.path)).stat().st_size)
