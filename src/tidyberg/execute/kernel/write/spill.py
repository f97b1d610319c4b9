"""Rows that do not fit into the memory of a task wait in a file on the worker's disk."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
        with _naming_directory():
            for batch in table.combine_chunks().to_batches():
                self._writer.write_batch(batch)
                self._count += 1
        return list(range(first, self._count))

    def read(self, position: int) -> pa.RecordBatch:
        if self._reader is None:
            with _naming_directory():
                self._writer.close()
                self._file.flush()
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
        return self._reader.get_batch(position)

    def close(self) -> None:
        with suppress(OSError):  # a full disk, of which an earlier failure tells
            self._file.close()


@contextmanager
def _naming_directory() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KernelFailure(
            FailureKind.STORAGE,
            f"Cannot write to the worker's temporary directory {tempfile.gettempdir()}: {error}. "
            "Free some space, or set TMPDIR to another disk.",
        ) from error
