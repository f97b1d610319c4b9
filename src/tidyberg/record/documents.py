"""Converts values to the JSON documents that all job stores keep."""

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
MOST_RESULT_BYTES = 1024 * 1024  # a result has a few hundred bytes per column and file


def plan_to_keep(document: str) -> str | None:
    """Return the document to keep, or None if it is too large."""
    return document if len(document) <= MOST_PLAN_BYTES else None


def result_to_keep(finished: Finished) -> bytes | None:
    """Return the document to keep.

    None means that it is too large, or that JSON would change the types of its partition values [I9].
    """
    if any(output.partition is not None for output in finished.result.outputs):
        return None
    document = _RESULT.dump_json((finished.result,))
    return document if len(document) <= MOST_RESULT_BYTES else None


def kept_result(document: bytes | str, finished_ms: int) -> Finished | None:
    """Parse a kept result. None means that another version wrote it."""
    try:
        return Finished(_RESULT.validate_json(document)[0], finished_ms)
    except ValidationError:
        return None


def table_key(table: TableRef) -> str:
    """Return the key of a table in the store."""
    return json.dumps((table.catalog, *table.identifier), separators=(",", ":"))
