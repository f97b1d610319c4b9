"""WRITE: appends records to a table in one commit, at most once."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, UnauthorizedError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.update import AssertTableUUID

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.metadata_file import swaps_in_process
from tidyberg.catalog.open import catalog_secrets, load_table
from tidyberg.control.control import Control
from tidyberg.errors import AccessDenied, BadInput, CommitStateUnknown, Conflict, TidybergError, Unsupported
from tidyberg.model.table import TableRef
from tidyberg.operations.records import records_to_arrow
from tidyberg.operations.small_files import OpportunisticCheck, check_after_write
from tidyberg.redact import redact_text
from tidyberg.settings.settings import Settings

WRITE_ID = "tidyberg.write-id"  # in the summaries of snapshots that WRITE made
_WRITES_VERSIONS = (1, 2)  # PyIceberg cannot append to tables of version 3


@dataclass(frozen=True)
class Written:
    records: int
    check: OpportunisticCheck
    repeated: bool = False  # an earlier request with the same id had written the records


class _TableLocks:
    """Writers of one process take turns on a table, so that they do not lose races against each other."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._of_table: WeakValueDictionary[TableRef, threading.Lock] = WeakValueDictionary()

    def of(self, table: TableRef) -> threading.Lock:
        with self._guard:
            lock = self._of_table.get(table)
            if lock is None:
                self._of_table[table] = lock = threading.Lock()
            return lock


@dataclass(frozen=True)
class TableWriter:
    """Appends through PyIceberg. A commit that lost a race is sent again, with the files that were written before."""

    settings: Settings
    control: Control = field(repr=False)
    sleep: Callable[[float], None] = time.sleep
    _locks: _TableLocks = field(default_factory=_TableLocks)

    def write(self, ref: TableRef, records: Sequence[Mapping[str, Any]], write_id: str | None) -> Written:
        limit = self.settings.operations.max_records
        if len(records) > limit:
            raise BadInput(
                f"The request has {len(records)} records; the limit is {limit}.",
                hint="Send them in several requests. The limit is operations.max_records.",
            )
        catalog = self.control.catalog(ref.catalog)
        with self._locks.of(ref):
            table = load_table(catalog, ref)
            if write_id is not None and _has_landed(table, write_id):
                return Written(len(records), OpportunisticCheck(), repeated=True)
            if table.metadata.format_version not in _WRITES_VERSIONS:
                raise Unsupported(f"{ref.name} is of format version {table.metadata.format_version}; WRITE needs 2.")
            rows = records_to_arrow(records, table.schema())
            self._append(catalog, ref, table, rows, write_id or str(uuid.uuid4()))
            return Written(len(records), check_after_write(table.metadata, self.settings.iceberg.compaction))

    def _append(self, catalog: Catalog, ref: TableRef, table: Table, rows: pa.Table, write_id: str) -> None:
        """Commits. Before each further attempt the table shows whether an earlier one has landed [I7]."""
        secrets = catalog_secrets(catalog)
        layout = _layout(table)
        with catalog_errors(ref.catalog, what=ref.name, secrets=secrets):
            files = list(_dataframe_to_data_files(table.metadata, rows, table.io))
        retry = self.settings.commit.retry_policy
        lost: list[Transaction] = []
        for attempt in range(retry.retries + 1):
            if attempt:
                self.sleep(retry.wait_seconds(attempt - 1, random.Random()))  # noqa: S311 - jitter, not a secret
                with catalog_errors(ref.catalog, what=ref.name, secrets=secrets):
                    table.refresh()
                if _has_landed(table, write_id):
                    return  # perhaps by this attempt, so its manifests stay
                _remove_manifests(lost)
                if _layout(table) != layout:
                    break
            with catalog_errors(ref.catalog, what=ref.name, secrets=secrets):
                transaction = _appended(table, files, write_id)
                lost.append(transaction)
            try:
                _send(table, transaction)
            except CommitFailedException:
                continue
            except (ForbiddenError, UnauthorizedError) as error:
                raise AccessDenied(f"The catalog refused the write to {ref.name}.") from error
            except Exception as error:  # noqa: BLE001 - the answer may be lost, so only the table knows
                if self._landed_after(catalog, ref, table, write_id, error):
                    return
                continue
            return
        _remove(table, files, lost, write_id)
        raise Conflict(f"{ref.name} was too busy, or its columns changed: nothing was written.", hint="Try again.")

    def _landed_after(self, catalog: Catalog, ref: TableRef, table: Table, write_id: str, error: Exception) -> bool:
        """Returns whether a commit with a lost answer landed. Raises if nobody can know, because it still may land."""
        try:
            table.refresh()
        except Exception:  # noqa: BLE001 - without an answer nobody can tell
            raise _unknown(ref, write_id, error, catalog) from error
        if _has_landed(table, write_id):
            return True
        if swaps_in_process(catalog):
            return False
        raise _unknown(ref, write_id, error, catalog) from error


def _appended(table: Table, files: Sequence[DataFile], write_id: str) -> Transaction:
    transaction = table.transaction()
    update = transaction.update_snapshot(snapshot_properties={WRITE_ID: write_id})
    merges = table.metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED, "false").lower() == "true"
    with update.merge_append() if merges else update.fast_append() as append:
        for file in files:
            append.append_data_file(file)
    return transaction


def _send(table: Table, transaction: Transaction) -> None:
    """Sends a commit once. PyIceberg's own `commit_transaction` does two things that a write must not do.

    Its retries know only their own snapshot, so they repeat a write that another request with the same id has made. And
    it deletes the manifests of a commit that was answered with a conflict, though such an answer may follow a commit
    that landed.
    """
    requirements = (*transaction._requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
    table._do_commit(updates=transaction._updates, requirements=requirements)


def _layout(table: Table) -> tuple[Any, ...]:
    """Returns what the written files depend on. A table that was dropped and created again is another one."""
    return table.metadata.table_uuid, table.metadata.current_schema_id, table.metadata.default_spec_id


def _remove_manifests(lost: list[Transaction]) -> None:
    """Removes the manifests of attempts that have definitely not landed. Their data files are used again."""
    for transaction in lost:
        for producer in transaction._snapshot_producers:
            producer._clean_all_uncommitted()
    lost.clear()


def _remove(table: Table, files: Sequence[DataFile], lost: list[Transaction], write_id: str) -> None:
    """Removes the files of a write that has definitely not landed [I6]. Orphan removal finds those that stay."""
    with suppress(Exception):
        if not _has_landed(table.refresh(), write_id):
            _remove_manifests(lost)
            for file in files:
                table.io.delete(file.file_path)


def _has_landed(table: Table, write_id: str) -> bool:
    return any(
        snapshot.summary is not None and snapshot.summary.additional_properties.get(WRITE_ID) == write_id
        for snapshot in table.metadata.snapshots
    )


def _unknown(ref: TableRef, write_id: str, error: Exception, catalog: Catalog) -> TidybergError:
    said = redact_text(str(error), catalog_secrets(catalog)).strip().splitlines()
    return CommitStateUnknown(
        f"Nobody can tell whether the write to {ref.name} has landed ({said[0] if said else type(error).__name__}).",
        hint=f"Send it again with write_id {write_id!r}: it is not applied twice.",
    )
