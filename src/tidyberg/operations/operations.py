"""Table operations: checks a request, finds the table of the tenant, and answers in the envelope of the contract."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidyberg._version import __version__
from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import catalog_secrets
from tidyberg.control.control import Control
from tidyberg.errors import AccessDenied, BadInput, TidybergError, UnknownNamespace, UnknownTable
from tidyberg.model.table import TableRef
from tidyberg.model.tenant_namespaces import tenant_namespace
from tidyberg.operations.answers import OperationAnswer, error_answer
from tidyberg.operations.compaction import Compactor, automatic_options, compact_answer, compaction_options
from tidyberg.operations.creation import create_table
from tidyberg.operations.query import QueryRunner
from tidyberg.operations.requests import (
    CompactOperation,
    CreateTableOperation,
    HealthOperation,
    OfTable,
    Operation,
    QueryOperation,
    WriteOperation,
    parse_operation,
)
from tidyberg.operations.writing import TableWriter
from tidyberg.settings.catalogs import named_catalog
from tidyberg.settings.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableOperations:
    """Threads may share one. `handle` never raises for a mistake of the caller or an outage."""

    settings: Settings
    control: Control = field(repr=False)
    compactor: Compactor
    queries: QueryRunner
    writer: TableWriter

    def handle(self, body: Mapping[str, Any], tenant: str | None) -> OperationAnswer:
        """Runs one operation. `tenant` is the tenant of the caller; None means that the caller may name any."""
        try:
            return OperationAnswer(200, self.perform(parse_operation(body), tenant))
        except TidybergError as error:
            return error_answer(error, self.control.scrub)

    def health(self) -> OperationAnswer:
        """Says whether the catalog of the tables answers."""
        try:
            return OperationAnswer(200, self._health())
        except TidybergError as error:
            return error_answer(error, self.control.scrub)

    def perform(self, request: Operation, tenant: str | None) -> dict[str, Any]:
        """Runs one operation, and raises an error if it fails."""
        if isinstance(request, HealthOperation):
            if request.tenant_id is not None or tenant is not None:
                tenant_namespace("", acting_tenant(request.tenant_id, tenant), "default")
            return self._health()
        table = self.table_of(request, tenant)
        try:
            match request:
                case CreateTableOperation():
                    return create_table(
                        self.control.catalog(table.catalog), table, request, self.settings.iceberg.write
                    )
                case WriteOperation():
                    return self._write(table, request)
                case QueryOperation():
                    return self.queries.run(table, request)
                case CompactOperation():
                    return self._compact(table, request)
        except (UnknownTable, UnknownNamespace):
            # The message of a catalog would show the encoded namespace, and its hint those of other tenants.
            raise UnknownTable(
                f"There is no table {request.table!r} in namespace {request.namespace!r}.",
                hint="CREATE_TABLE makes one.",
            ) from None

    def table_of(self, request: OfTable, tenant: str | None) -> TableRef:
        """Returns the table that a request names for a tenant. Raises AccessDenied for a table of another one."""
        owner = acting_tenant(request.tenant_id, tenant)
        namespace = tenant_namespace(self.settings.operations.namespace_prefix, owner, request.namespace)
        return TableRef(named_catalog(self.settings, self.settings.operations.catalog), (namespace,), request.table)

    def _write(self, table: TableRef, request: WriteOperation) -> dict[str, Any]:
        written = self.writer.write(table, request.records, request.write_id)
        answer: dict[str, Any] = {
            "success": True,
            "records_written": written.records,
            "compaction_recommended": written.check.recommended,
            "small_files_count": written.check.small_files,
        }
        if written.repeated:
            answer["repeated"] = True
        if written.check.recommended and self.settings.iceberg.compaction.auto_compact:
            answer |= self._auto_compact(table)
        return answer

    def _auto_compact(self, table: TableRef) -> dict[str, Any]:
        """Compacts after a write. The records are committed, so an error here does not fail the write."""
        try:
            outcome = self.compactor.start(table, automatic_options(self.settings.iceberg.compaction))
        except TidybergError as error:
            words = self.control.scrub(str(error))
            _log.warning("The compaction after a write to %s failed: %s", table, words)
            return {"compaction_error": words}
        return {"compacted": outcome.compacted} | ({"job_id": outcome.job_id} if outcome.job_id else {})

    def _compact(self, table: TableRef, request: CompactOperation) -> dict[str, Any]:
        options = compaction_options(request, self.settings.iceberg.compaction)
        return compact_answer(self.compactor.compact(table, options))

    def _health(self) -> dict[str, Any]:
        name = named_catalog(self.settings, self.settings.operations.catalog)
        catalog = self.control.catalog(name)
        with catalog_errors(name, secrets=catalog_secrets(catalog)):
            catalog.namespace_exists(("tidyberg_health",))
        return {"success": True, "status": "healthy", "version": __version__}


def acting_tenant(asked: str | None, tenant: str | None) -> str:
    """Returns the tenant of a request. The tenant of the caller is authoritative."""
    if tenant is None:
        if asked is None:
            raise BadInput("'tenant_id' is missing.", hint="Your credential is not of one tenant, so name one.")
        return asked
    if asked not in (None, tenant):
        raise AccessDenied(f"You may not work for tenant {str(asked)[:100]!r}.")  # whether or not it exists
    return tenant
