"""Reads reports of metrics as Iceberg's REST specification defines them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidyberg.errors import BadInput
from tidyberg.planning.workload.report_filters import condition_shape, report_condition

_SCAN = "scan-report"
_LARGEST = 2**45  # larger values are cut, so that totals of a day cannot overflow
_NANOSECONDS = {
    "nanoseconds": 1,
    "microseconds": 10**3,
    "milliseconds": 10**6,
    "seconds": 10**9,
    "minutes": 60 * 10**9,
    "hours": 3600 * 10**9,
    "days": 86_400 * 10**9,
}


@dataclass(frozen=True, slots=True)
class ScanReport:
    shape: str  # columns and operators of the filter; values are dropped
    result_files: int
    skipped_files: int
    result_bytes: int
    planning_nanoseconds: int


def parse_report(document: Any) -> ScanReport | None:
    """Returns None for a report that is not about a scan. Raises BadInput if it is no report."""
    if not isinstance(document, dict) or not isinstance(document.get("report-type"), str):
        raise BadInput("The body is not a report of metrics.", hint="Send a ReportMetricsRequest with its report-type.")
    if document["report-type"] != _SCAN:
        return None
    if not isinstance(document.get("table-name"), str) or not _is_integer(document.get("snapshot-id")):
        raise BadInput("The scan report lacks its table-name or its snapshot-id.", hint="Send the whole report.")
    if "filter" not in document:
        raise BadInput("The scan report has no filter.", hint="Send true for a scan without a filter.")
    metrics = document.get("metrics")
    if not isinstance(metrics, dict):
        raise BadInput("The scan report has no metrics.", hint="Send an empty object if nothing was measured.")
    return ScanReport(
        condition_shape(report_condition(document["filter"])),
        _counter(metrics, "result-data-files"),
        _counter(metrics, "skipped-data-files"),
        _counter(metrics, "total-file-size-in-bytes"),
        _timer(metrics, "total-planning-duration"),
    )


def _counter(metrics: Mapping[str, Any], name: str) -> int:
    found = metrics.get(name)
    if found is None:
        return 0
    if not isinstance(found, dict) or not _is_integer(found.get("value")) or found["value"] < 0:
        raise BadInput(f"The metric {name} of the report is not a counter.", hint='Send {"unit": "count", "value": 5}.')
    return min(int(found["value"]), _LARGEST)


def _timer(metrics: Mapping[str, Any], name: str) -> int:
    found = metrics.get(name)
    if found is None:
        return 0
    unit = found.get("time-unit") if isinstance(found, dict) else None
    factor = _NANOSECONDS.get(unit.lower()) if isinstance(unit, str) else None
    if factor is None or not _is_integer(found.get("total-duration")) or found["total-duration"] < 0:
        raise BadInput(
            f"The metric {name} of the report is not a timer.",
            hint='Send {"count": 1, "time-unit": "nanoseconds", "total-duration": 5}.',
        )
    return min(int(found["total-duration"]) * factor, _LARGEST)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
