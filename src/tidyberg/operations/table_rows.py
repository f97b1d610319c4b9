"""Streams the live rows of a table's newest snapshot, with every kind of delete applied."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.table import Table

from tidyberg.auditing.states import whole_state
from tidyberg.auditing.tasks import readings
from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.control import Control
from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.live_rows import live_rows
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.execute.tasks.schemas import arrow_schema_bytes
from tidyberg.failures import KernelFailure
from tidyberg.model.table import TableRef
from tidyberg.model.task import AuditTask
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.storage.access import StorageAccess, storage_access
from tidyberg.storage.file_io import Storage

_BRANCH = "main"


@dataclass(frozen=True)
class TableRows:
    """The rows of one snapshot. Nothing is read before `batches` is called."""

    schema: pa.Schema
    tasks: tuple[AuditTask, ...]
    access: StorageAccess

    def batches(self, should_stop: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        storage = Storage(self.access)
        try:
            for task in with_delete_contents(self.tasks, self.access):
                yield from live_rows(task, storage, should_stop)
        except KernelFailure as failure:
            raise error_of(failure) from failure


def table_rows(control: Control, ref: TableRef) -> TableRows:
    """Pins the newest snapshot and lists its files."""
    table = load_table(control.catalog(ref.catalog), ref)
    with catalog_errors(ref.catalog, what=ref.name):
        return _rows(control, ref, table)


def _rows(control: Control, ref: TableRef, table: Table) -> TableRows:
    pinned = pin(table, ref, _BRANCH)
    schema = pa.ipc.read_schema(pa.BufferReader(arrow_schema_bytes(pinned.schema)))
    access = storage_access(table.io)
    if pinned.snapshot_id is None:
        return TableRows(schema, (), access)
    state = whole_state(take_inventory(table, pinned, control.cache))
    return TableRows(schema, tuple(each.task for each in readings(state, first_number=0, lineage=False)), access)
