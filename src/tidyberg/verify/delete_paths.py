"""Reads which data files a position delete file names, independently of the workers that applied it."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.engine import error_of
from tidyberg.failures import KernelFailure
from tidyberg.model.plan import DeleteFile
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage

_FIELD_ID = b"PARQUET:field_id"
_PATH_ID, _PATH_NAME = b"2147483546", "file_path"  # of the spec


class DeletePaths:
    """Reads the path column of each delete file once."""

    def __init__(self, access: StorageAccess) -> None:
        self._access = access
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, delete: DeleteFile) -> Collection[str]:
        if delete.path not in self._known:
            try:
                self._known[delete.path] = self._read(delete)
            except KernelFailure as failure:
                raise error_of(failure) from failure
        return self._known[delete.path]

    def _read(self, delete: DeleteFile) -> frozenset[str]:
        storage = Storage(self._access)
        found: set[str] = set()
        with (
            storage.open_input(storage.place(delete.path), delete.size) as source,
            storage.guard(delete.path),
        ):
            file = pq.ParquetFile(source)
            for batch in file.iter_batches(columns=[_column(file.schema_arrow)]):
                found.update(pc.unique(batch.column(0)).to_pylist())
        return frozenset(found)


def _column(schema: pa.Schema) -> str:
    for column in schema:
        if (column.metadata or {}).get(_FIELD_ID) == _PATH_ID:
            return str(column.name)
    return _PATH_NAME
