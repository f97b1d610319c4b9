"""Scan reports of query engines, added up per table, day and shape of the filter."""

from dataclasses import dataclass

SCAN_REPORT_DAYS = 30  # older days are dropped
MOST_SCAN_SHAPES = 200  # of one table and day
OTHER_SHAPES = "null"  # the shape of no filter, to which further shapes of a day are added


@dataclass(frozen=True, slots=True)
class ScanReportTotals:
    """The reports of one day whose filters differ only in values."""

    day: int  # since 1970-01-01, in UTC
    shape: str  # columns and operators of the filter, as planning/workload/report_filters.py writes them
    reports: int = 1
    result_files: int = 0  # data files that scans read
    skipped_files: int = 0
    result_bytes: int = 0
    planning_nanoseconds: int = 0
