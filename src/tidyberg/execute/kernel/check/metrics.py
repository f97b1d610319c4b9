"""Checks what a manifest says about a Parquet file against the report of `parquet/check/file.py`.

    report = check_path(path)
    problems = [*report.problems, *check_metrics(report, written)]

A `WrittenFile` is what a manifest will say about an output. `written_file_of` makes one from a manifest entry.
"""

import math
import struct
from collections.abc import Mapping
from typing import Any

from tidyberg.model.task import WrittenFile
from tidyberg.parquet.check.file import ColumnTruth, FileReport
from tidyberg.parquet.check.order import Order, Value
from tidyberg.parquet.check.problems import FileProblem, Findings
from tidyberg.parquet.footer import BYTE_ARRAY, FIXED_BYTE_ARRAY

_INTEGERS = {4: "<i", 8: "<q"}
_FLOATS = {4: "<f", 8: "<d"}


def check_metrics(report: FileReport, written: WrittenFile) -> tuple[FileProblem, ...]:
    findings = Findings(FileProblem("", "", written.path))
    findings.equal("metrics-size", "the size", written.size, report.size)
    if not report.columns:  # the file could not be read, and the report says why
        return tuple(findings)
    findings.equal("metrics-records", "the number of records", written.records, report.rows)
    if written.split_offsets:
        offsets = sorted(report.row_group_offsets)
        findings.equal("metrics-split-offsets", "the split offsets", list(written.split_offsets), offsets)
    columns = {column.field_id: column for column in report.columns if column.field_id is not None}
    for name, said, true in (
        ("size", written.column_sizes, "stored_bytes"),
        ("values", written.value_counts, "values"),
        ("nulls", written.null_value_counts, "nulls"),
        ("nans", written.nan_value_counts, "nans"),
    ):
        for field_id, number in said.items():
            if (column := columns.get(field_id)) is None:
                findings.add(f"metrics-{name}", f"field {field_id} is not a column of the file")
                continue
            of_column = findings.at(column=column.column.name)
            of_column.equal(f"metrics-{name}", f"the metric {name}", number, getattr(column, true))
    for is_lower, bounds in ((True, written.lower_bounds), (False, written.upper_bounds)):
        for field_id, bound in bounds.items():
            if (column := columns.get(field_id)) is None:
                findings.add("metrics-bound", f"field {field_id} is not a column of the file")
            else:
                _check_bound(bound, is_lower, column, findings.at(column=column.column.name))
    return tuple(findings)


def _check_bound(bound: bytes, is_lower: bool, column: ColumnTruth, findings: Findings) -> None:
    name, order = "lower" if is_lower else "upper", column.column.order
    if order is None:
        findings.add("metrics-bound", f"there is a {name} bound, but values of the column have no order")
        return
    said = _value(bound, order)
    if said is None or (isinstance(said, float) and math.isnan(said)):
        findings.add("metrics-bound", f"the {name} bound {bound!r} is not a value of the column")
        return
    true = column.lower if is_lower else column.upper
    if true is None:
        findings.add("metrics-bound", f"there is a {name} bound, but the column has no values")
        return
    scaled = true * _scale(order) if isinstance(true, int) else true
    if (said > scaled) if is_lower else (said < scaled):
        findings.add("metrics-bound", f"the {name} bound is {said!r}, beyond the value {scaled!r}")
    elif said != scaled and not order.is_bytes:
        findings.add("metrics-loose", f"the {name} bound is {said!r}, but it should be {scaled!r}")
    elif said == 0 and isinstance(said, float):
        # In the spec's order -0.0 is below 0.0, so a bound must cover the zero that occurs.
        is_negative = math.copysign(1, said) < 0
        if (is_lower and not is_negative and column.has_negative_zero) or (
            not is_lower and is_negative and column.has_positive_zero
        ):
            findings.add("metrics-bound", f"the {name} bound {said!r} does not cover the zero of the other sign")


def _value(bound: bytes, order: Order) -> Value | None:
    """Decodes Iceberg's binary form (spec, appendix D). Returns None if the bytes are not a value."""
    if order.is_decimal:
        return int.from_bytes(bound, "big", signed=True) if bound else None
    if order.is_float:
        layout = _FLOATS.get(len(bound))
        return None if layout is None else struct.unpack(layout, bound)[0]
    if order.type in (BYTE_ARRAY, FIXED_BYTE_ARRAY):
        return bytes(bound)
    if order.type == 0:
        return bound != b"\x00" if len(bound) == 1 else None
    layout = _INTEGERS.get(len(bound))
    return None if layout is None else struct.unpack(layout, bound)[0]


def _scale(order: Order) -> int:
    """Manifests store times in microseconds, or in nanoseconds if the file does. Milliseconds must be scaled."""
    return 1000 if "milliseconds" in order.annotation else 1


def written_file_of(data_file: Mapping[int, Any]) -> WrittenFile:
    """Makes a `WrittenFile` from a manifest entry, whose keys are the field ids of the spec's `data_file`."""
    return WrittenFile(
        path=data_file[100],
        size=data_file[104],
        records=data_file[103],
        column_sizes=dict(data_file.get(108) or {}),
        value_counts=dict(data_file.get(109) or {}),
        null_value_counts=dict(data_file.get(110) or {}),
        nan_value_counts=dict(data_file.get(137) or {}),
        lower_bounds=dict(data_file.get(125) or {}),
        upper_bounds=dict(data_file.get(128) or {}),
        split_offsets=tuple(data_file.get(132) or ()),
    )
