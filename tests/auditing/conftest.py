"""Audits on the inline engine, and compactions that go wrong on purpose."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.audits import audit_latest
from tests.builders.engines import Spoiling
from tidyberg.model.audit import Harm
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse, local_path


def harms(warehouse: Warehouse) -> dict[Harm, int]:
    return dict(audit_latest(warehouse).harms)


def overwrite(path: str, rows: pa.Table) -> None:
    """Another file under the same name, as a broken disk or a stranger would leave it."""
    pq.write_table(rows, local_path(path), store_schema=False)


class SpoilingRows(Spoiling):
    """Spoils the rows of the first output and reports as if all were well."""

    def __init__(self, spoil: Callable[[pa.Table], pa.Table]) -> None:
        super().__init__(self._spoil_first)
        self._spoil_rows: Callable[[pa.Table], pa.Table] | None = spoil

    def _spoil_first(self, result: TaskResult) -> TaskResult:
        if self._spoil_rows is None:
            return result
        output = result.outputs[0]
        rows = self._spoil_rows(pq.read_table(local_path(output.path), partitioning=None))
        self._spoil_rows = None
        overwrite(output.path, rows)
        spoiled = replace(output, records=rows.num_rows, size=Path(local_path(output.path)).stat().st_size)
        return replace(result, outputs=(spoiled, *result.outputs[1:]))
