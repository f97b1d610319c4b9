"""COMPACT: its options, the interface of what runs it, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidyberg.control.control import Control
from tidyberg.model.job import CompactionStats
from tidyberg.model.options import Strategy
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.operations.requests import CompactOperation
from tidyberg.settings.operations import IcebergCompaction
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings

# The statistics of the contract. A job record has more.
_STATISTICS = (
    "files_before",
    "files_after",
    "files_compacted",
    "files_removed",
    "bytes_before",
    "bytes_after",
    "bytes_saved",
    "snapshots_expired",
    "compaction_time_ms",
    "small_files_remaining",
)


@dataclass(frozen=True)
class CompactionOutcome:
    """The end of a compaction, or the id of a job that still runs."""

    compacted: bool
    stats: CompactionStats | None
    reason: str | None = None  # why nothing was compacted, or what went wrong after the commit
    job_id: str | None = None


class Compactor(Protocol):
    """Runs compactions: in this process, or as jobs of a service."""

    def compact(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        """Compacts a table and waits for the end."""
        ...

    def start(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        """Starts a compaction that nobody waits for, if that is possible here."""
        ...


@dataclass(frozen=True)
class InlineCompactor:
    """Implements Compactor in this process."""

    settings: Settings
    control: Control = field(repr=False)

    def compact(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        result = self.control.compact(table, plan_options(self.settings, table, options), verify=self.settings.verify)
        reasons = [str(result.failure)] if result.failure else [*result.groups_left, *(str(one) for one in result.left)]
        reason = None if result.has_committed and not result.failure else " ".join(dict.fromkeys(reasons)) or None
        return CompactionOutcome(result.has_committed, result.stats, reason)

    def start(self, table: TableRef, options: Mapping[str, Any]) -> CompactionOutcome:
        """A Lambda function is frozen after its answer, so this waits for the end too."""
        return self.compact(table, options)


def compaction_options(request: CompactOperation, settings: IcebergCompaction) -> dict[str, Any]:
    """Returns plan options. Only small files are merged, whatever other strategies would do."""
    options: dict[str, Any] = {
        **automatic_options(settings),
        "force": request.force or None,
        "target_file_size_mb": request.target_file_size_mb,
        "partition_filter": _condition(request.partition_filter),
        "expire_snapshots": request.expire_snapshots,
    }
    if request.max_files is not None:
        options["max_files"] = request.max_files
    if request.expire_snapshots:
        options["snapshot_retention_hours"] = request.snapshot_retention_hours
    return {name: value for name, value in options.items() if value is not None}


def automatic_options(settings: IcebergCompaction) -> dict[str, Any]:
    return {
        "strategy": Strategy.SMALL_FILES.value,
        "small_file_threshold_mb": settings.small_file_threshold_mb,
        "min_files_to_compact": settings.min_files_to_compact,
        "max_files": settings.max_files_per_compaction,
    }


def compact_answer(outcome: CompactionOutcome) -> dict[str, Any]:
    answer: dict[str, Any] = {"success": True, "compacted": outcome.compacted}
    if outcome.stats is not None:
        answer["stats"] = {name: getattr(outcome.stats, name) for name in _STATISTICS}
    if outcome.reason is not None:
        answer["message"] = outcome.reason
    elif not outcome.compacted and outcome.stats is not None:
        small = plural(outcome.stats.small_files_remaining, "small file")
        answer["message"] = f"Nothing was compacted: the table has {small}, too few to be worth it."
    if outcome.job_id is not None:
        answer["job_id"] = outcome.job_id
    return answer


def _condition(given: str | Mapping[str, Any] | None) -> str | None:
    """Turns `{"country": "CH"}` into an SQL condition."""
    if given is None or isinstance(given, str):
        return given
    return " AND ".join(_equals(column, value) for column, value in given.items()) or None


def _equals(column: str, value: Any) -> str:
    quoted = '"' + column.replace('"', '""') + '"'
    if value is None:
        return f"{quoted} IS NULL"
    if isinstance(value, bool):
        return f"{quoted} = {str(value).upper()}"
    if isinstance(value, str):
        text = value.replace("'", "''")
        return f"{quoted} = '{text}'"
    return f"{quoted} = {value}"
