"""Converts model values to JSON, for --json."""

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Set
from enum import Enum
from pathlib import Path
from typing import Any

from tidyberg.cli.console import escape_controls
from tidyberg.cli.show_sizes import bucket_label, size_buckets
from tidyberg.errors import TidybergError
from tidyberg.model.job import Job
from tidyberg.model.left import LeftAlone
from tidyberg.model.report import CompactionResult, HealthReport, TableSummary
from tidyberg.model.table import TableRef

# Returns a command line with the given options and the flags of this run.
TakeNow = Callable[[Mapping[str, Any]], str]


def print_json(value: Any) -> None:
    """Prints exactly one document on standard output."""
    sys.stdout.write(escape_controls(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def plain(value: Any) -> Any:
    """Converts dataclasses, enums and mappings to plain JSON values."""
    if isinstance(value, TableRef):
        return {"catalog": value.catalog, "namespace": list(value.namespace), "name": value.name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Set):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def job_json(job: Job) -> dict[str, Any]:
    document: dict[str, Any] = plain(dataclasses.replace(job, intent=None))
    del document["intent"]
    for name in ("expiry", "expired"):  # only jobs that expire snapshots have them
        if document[name] is None:
            del document[name]
    return document


def result_json(result: CompactionResult, take_now: TakeNow | None = None) -> dict[str, Any]:
    """Returns the result of a compaction as the contract defines it, plus further fields."""
    return {
        "success": result.failure is None,
        "compacted": result.has_committed,
        "outcome": result.outcome,
        "left": [left_json(left, take_now) for left in result.left],
        "table": str(result.job.table),
        "job_id": result.job.job_id,
        "snapshot_id": result.snapshot_id,
        "plan_hash": result.plan.hash,
        "stats": plain(result.stats),
        "groups_committed": result.groups_committed,
        "groups_left": list(result.groups_left),
        **(error_json(result.failure) if result.failure is not None else {}),
        "job": job_json(result.job),
    }


def left_json(left: LeftAlone, take_now: TakeNow | None = None) -> dict[str, Any]:
    """Includes the command that rewrites the files now, if there is one."""
    command = take_now(left.take_now) if take_now is not None and left.take_now is not None else None
    return {**plain(left), "take_now": command}


def health_json(report: HealthReport) -> dict[str, Any]:
    document: dict[str, Any] = plain(dataclasses.replace(report, partitions=(), file_sizes=()))
    document["partitions"] = [{"label": label, **plain(numbers)} for label, numbers in report.partitions]
    buckets = enumerate(size_buckets(report.file_sizes))
    document["file_sizes"] = {bucket_label(number): files for number, files in buckets}
    return document


def table_json(summary: TableSummary) -> dict[str, Any]:
    return {"identifier": str(summary.table), **plain(summary)}


def error_json(error: TidybergError) -> dict[str, Any]:
    return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
