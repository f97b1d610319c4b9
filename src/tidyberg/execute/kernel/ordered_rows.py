"""Writes rows that are in order. Outputs claim the order of the table only if every row was seen to be in it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tidyberg.execute.kernel.encode import FirstFiles, RowWriter
from tidyberg.execute.kernel.order.merging import merged_runs
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskResult


class OrderedRowWriter(RowWriter):
    """Writes rows that are in order, checks that they are, and sets the claim of the outputs."""

    def __init__(self, first: FirstFiles) -> None:
        super().__init__(first)
        self._task = first.attempt.task
        self._schema = first.schema
        self._should_stop = first.attempt.should_stop
        key = self._task.sort_key
        assert key is not None
        self._key = key
        self._check = OrderCheck(first.schema, key) if key.curve is None else None

    def write_in_order(self, rows: pa.Table | pa.RecordBatch) -> None:
        if self._check is not None:
            self._check.add(rows)
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            self.write_rows(batch)

    def write_merged(self, runs: Sequence[Iterator[pa.RecordBatch]], rows_per_run: int) -> None:
        """Raises NotInOrder if a run is not sorted."""
        for table in merged_runs(runs, self._schema, self._key, rows_per_run=rows_per_run):
            self.raise_if_stopped()
            self.write_in_order(table)

    def raise_if_stopped(self) -> None:
        if self._should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")

    def finish(self) -> list[FinishedOutput]:
        if self._check is not None and self._check.first_wrong is not None:
            raise AssertionError(f"row {self._check.first_wrong} is less than the row that was written before it")
        return super().finish()

    def describe(self, result: TaskResult) -> TaskResult:
        result = super().describe(result)
        if self._check is None or self._key.order_id is None or self._check.rows != result.rows_written:
            return result
        # I9: all rows passed in one stream, so each output is in order, and so are the outputs of each partition.
        claimed = (replace(output, sort_order_id=self._key.order_id) for output in result.outputs)
        return replace(result, outputs=tuple(claimed))
