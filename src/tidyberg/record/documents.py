"""What the job stores keep as JSON, the same in each of them."""

import json

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tidyberg.model.job import Job, Owner
from tidyberg.model.submission import AuditEntry, JobEvent, KeptPlan, Pause, Schedule, Submission
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult
from tidyberg.record.store import Finished

JOB = TypeAdapter(Job)
OWNER = TypeAdapter(Owner)
SUBMISSION = TypeAdapter(Submission)
EVENT = TypeAdapter(JobEvent)
SCHEDULE = TypeAdapter(Schedule)
KEPT_PLAN = TypeAdapter(KeptPlan)
PAUSE = TypeAdapter(Pause)
AUDIT_ENTRY = TypeAdapter(AuditEntry)
_RESULT = TypeAdapter(tuple[TaskResult], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))

MOST_PLAN_BYTES = 64 * 1024 * 1024
MOST_RESULT_BYTES = 1024 * 1024  # a result has some hundred bytes a column and file


def plan_to_keep(document: str) -> str | None:
    """None: it is too large."""
    return document if len(document) <= MOST_PLAN_BYTES else None


def result_to_keep(finished: Finished) -> bytes | None:
    """None: it is too large, or JSON would not give back the exact types of its partition values [I9]."""
    if any(output.partition is not None for output in finished.result.outputs):
        return None
    document = _RESULT.dump_json((finished.result,))
    return document if len(document) <= MOST_RESULT_BYTES else None


def kept_result(document: bytes | str, finished_ms: int) -> Finished | None:
    """None: another version wrote it."""
    try:
        return Finished(_RESULT.validate_json(document)[0], finished_ms)
    except ValidationError:
        return None


def table_key(table: TableRef) -> str:
    """Under what something about a table is kept."""
    return json.dumps((table.catalog, *table.identifier), separators=(",", ":"))
