"""Table operations of a service: who may do what, the audit log, and compactions as jobs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidyberg.errors import JobFailed, NotEnabled
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import Principal, Role
from tidyberg.model.table import TableRef
from tidyberg.operations.answers import OperationAnswer
from tidyberg.operations.build import build_operations
from tidyberg.operations.compaction import CompactionOutcome
from tidyberg.operations.operations import TableOperations, acting_tenant
from tidyberg.operations.requests import OfTable, Operation, parse_operation
from tidyberg.service.audit_log import AuditLog
from tidyberg.service.requests import JobView, SubmitRequest
from tidyberg.service.service import Service

_POLL_SECONDS = 0.1
_ROLES: Mapping[str, Role] = {
    "HEALTH": Role.VIEWER,
    "QUERY": Role.VIEWER,
    "WRITE": Role.OPERATOR,
    "CREATE_TABLE": Role.OPERATOR,
    "COMPACT": Role.OPERATOR,
}
_ACTIONS: Mapping[str, str] = {"WRITE": "table.write", "CREATE_TABLE": "table.create"}  # a COMPACT is audited as a job


@dataclass(frozen=True)
class JobCompactor:
    """Implements Compactor: submits a job in the name of the caller."""

    service: Service = field(repr=False)
    who: Principal
    wait_seconds: float
    sleep: Callable[[float], None] = time.sleep

    def compact(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        job_id = self._submit(table, options)
        deadline = time.monotonic() + self.wait_seconds
        while not (view := self.service.job(job_id, self.who)).submission.status.is_final:
            if time.monotonic() >= deadline:
                words = f"The compaction is not finished yet. GET /api/v1/jobs/{job_id} shows it."
                return CompactionOutcome(compacted=False, stats=None, reason=words, job_id=job_id)
            self.sleep(_POLL_SECONDS)
        return _outcome(view)

    def start(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        return CompactionOutcome(compacted=False, stats=None, job_id=self._submit(table, options))

    def _submit(self, table: TableRef, options: Mapping[str, Any]) -> str:
        request = SubmitRequest(
            table=table.name,
            catalog=table.catalog,
            namespace=".".join(table.namespace),
            options={name: value for name, value in options.items() if name != "strategy"},
            strategy=options.get("strategy"),
        )
        return self.service.submit(request, self.who).job_id


def _outcome(view: JobView) -> CompactionOutcome:
    submission, run = view.submission, view.run
    if submission.status is not JobStatus.SUCCEEDED:
        raise JobFailed(f"The compaction {submission.status.value}: {submission.error or 'no reason is known'}")
    stats = run.stats if run is not None else None
    compacted = run is not None and run.outcome in ("committed", "partly")
    reasons = [str(left) for left in run.left] if run is not None and not compacted else []
    reason = submission.error or " ".join(dict.fromkeys(reasons)) or None
    return CompactionOutcome(compacted, stats, reason, submission.job_id)


class ServiceOperations:
    """Checks the caller, then runs the operation for its tenant."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings
        self._audit = AuditLog(service.records.ledger, service.now_ms)
        self._operations = build_operations(
            service.settings, service.control, JobCompactor(service, Principal("nobody", Role.VIEWER), 0.0)
        )

    def handle(self, body: Any, who: Principal) -> OperationAnswer:
        """Runs one operation. Errors are raised, so that the API answers all of them in one place."""
        if not self._settings.operations.enabled:
            raise NotEnabled(
                "Table operations are not enabled in this service.", hint="Set operations.enabled to true to use them."
            )
        request = parse_operation(body)
        tenant = None if who.tenants is None else who.tenant
        action = _ACTIONS.get(request.operation)
        if action is None:
            return self._run(request, who, tenant)
        assert isinstance(request, OfTable)
        details = {"records": len(request.records)} if request.operation == "WRITE" else {}
        with self._audit.acting(who, action, f"{request.namespace}.{request.table}", details) as act:
            act.tenant = self._tenant(request, who, tenant)
            return self._run(request, who, tenant)

    def _tenant(self, request: Operation, who: Principal, tenant: str | None) -> str:
        """Returns the tenant to record: the one that the request works for, if the caller may."""
        return who.tenant if tenant is not None else request.tenant_id or who.tenant

    def _run(self, request: Operation, who: Principal, tenant: str | None) -> OperationAnswer:
        access = self._service.access
        access.require(who, _ROLES[request.operation])
        if tenant is None and access.tenants and request.tenant_id is not None:
            access.check_tenant(acting_tenant(request.tenant_id, tenant))
        answer = self._as(who).perform(request, tenant)
        is_waiting = request.operation == "COMPACT" and "stats" not in answer
        return OperationAnswer(202 if is_waiting else 200, answer)

    def _as(self, who: Principal) -> TableOperations:
        compactor = JobCompactor(self._service, who, self._settings.operations.compact_wait_seconds)
        return replace(self._operations, compactor=compactor)
