"""Adds up what the cells of a run did, and prints it. A matrix whose modes were never used would prove nothing."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

PROPERTY = "matrix"  # of a test's report: so it also comes back from the processes that share the tests
_ADDED = ("bytes_copied", "bytes_spliced", "bytes_joined", "files_joined", "bytes_encoded", "filters", "unsupported")


def summary(tallies: Iterable[Mapping[str, Any]], failures: int) -> dict[str, Any]:
    found = list(tallies)
    limits: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for tally in found:
        limits.update(tally["limits"])
        reasons.update(_without_path(reason) for reason in tally["reasons"])
    return {
        "cells": len(found) + failures,
        "failures": failures,
        "cells_by_mode": dict(Counter(tally["mode"] for tally in found)),
        **{name: sum(tally[name] for tally in found) for name in _ADDED},
        "limits": dict(limits.most_common()),
        "not_copied": dict(reasons.most_common(12)),
    }


def _without_path(reason: str) -> str:
    """Returns the reason why a copy was encoded, without the name of the file."""
    return reason.rpartition(".parquet ")[2]


def lines(total: Mapping[str, Any]) -> list[str]:
    """Returns the lines that are printed at the end of a run."""
    by_mode = ", ".join(f"{count} {mode}" for mode, count in total["cells_by_mode"].items())
    found = [
        f"{total['cells']} cells ({by_mode}), {total['failures']} failures",
        f"{total['bytes_copied']:,} bytes copied, {total['bytes_spliced']:,} spliced, "
        f"{total['bytes_encoded']:,} encoded",
        f"{total['files_joined']:,} files with {total['bytes_joined']:,} bytes joined",
        f"{total['filters']:,} filters, {total['unsupported']:,} of them unknown to the reader",
    ]
    found += [f"limit of {limit}: {count} filters, before and after" for limit, count in total["limits"].items()]
    found += [f"not copied, {count} times: {reason}" for reason, count in total["not_copied"].items()]
    return found


def of_reports(reports: Iterable[Any]) -> list[dict[str, Any]]:
    return [json.loads(value) for report in reports for name, value in report.user_properties if name == PROPERTY]


def is_cell(test: str) -> bool:
    return test.startswith(("tests/matrix/test_cells.py", "tests/matrix/test_java_cells.py"))
