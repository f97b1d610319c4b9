"""Audits of `db.events` on the inline engine."""

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tidyberg.execute.engine import Engine
from tidyberg.model.audit import AuditReport, SnapshotAudit
from tidyberg.model.task import KEY_MEMORY_BYTES
from tidyberg.testing import Warehouse


def audit(
    warehouse: Warehouse,
    snapshot_id: int | None = None,
    engine: Engine | None = None,
    key_memory_bytes: int = KEY_MEMORY_BYTES,
) -> AuditReport:
    with make_control(warehouse, engine) as control:
        return control.audit(REF, snapshot_id=snapshot_id, key_memory_bytes=key_memory_bytes)


def audit_latest(warehouse: Warehouse) -> SnapshotAudit:
    return audit(warehouse).snapshots[0]
