"""Writes rows that are in order. Outputs claim the order of the table only if every row was seen to be in it."""

from dataclasses import replace

import pyarrow as pa

from tidyberg.execute.kernel.encode import FirstFiles, RowWriter
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.model.task import TaskResult


class OrderedRowWriter(RowWriter):
    """Writes rows that are in order, checks that they are, and sets the claim of the outputs."""

    def __init__(self, first: FirstFiles) -> None:
        super().__init__(first)
        key = first.attempt.task.sort_key
        assert key is not None
        self._key = key
        self._check = OrderCheck(first.schema, key) if key.curve is None else None

    def write_in_order(self, rows: pa.Table | pa.RecordBatch) -> None:
        if self._check is not None:
            self._check.add(rows)
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            self.write_rows(batch)

    def finish(self) -> list[FinishedOutput]:
        if self._check is not None and self._check.first_wrong is not None:
            raise AssertionError(f"row {self._check.first_wrong} is less than the row that was written before it")
        return super().finish()

    def describe(self, result: TaskResult) -> TaskResult:
        result = super().describe(result)
        if self._check is None or self._key.order_id is None:
            return result
        # I9: all rows passed in one stream, so each output is in order, and so are the outputs of each partition.
        claimed = (replace(output, sort_order_id=self._key.order_id) for output in result.outputs)
        return replace(result, outputs=tuple(claimed))
