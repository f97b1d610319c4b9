"""Rows that do not fit into the memory of a task wait in a file on the worker's disk."""

import tempfile

import pyarrow as pa

from tidyberg.failures import FailureKind, KernelFailure


class SpillFile:
    """Batches in a file without a name, which disappears with the process, however it ends."""

    def __init__(self, schema: pa.Schema) -> None:
        self._file = tempfile.TemporaryFile(prefix="tidyberg-")  # noqa: SIM115 - `close` closes it
        self._writer = pa.ipc.new_file(
            pa.PythonFile(self._file, "w"), schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
        )
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        self._count = 0

    def write(self, table: pa.Table) -> list[int]:
        """Adds rows, and returns the numbers of their batches."""
        first = self._count
        try:
            for batch in table.combine_chunks().to_batches():
                self._writer.write_batch(batch)
                self._count += 1
        except OSError as error:
            raise KernelFailure(
                FailureKind.STORAGE,
                f"Cannot write to the worker's temporary directory {tempfile.gettempdir()}: {error}. "
                "Free some space, or set TMPDIR to another disk.",
            ) from error
        return list(range(first, self._count))

    def read(self, position: int) -> pa.RecordBatch:
        if self._reader is None:
            self._writer.close()
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
        return self._reader.get_batch(position)

    def close(self) -> None:
        self._file.close()
