"""Benchmark scenarios, small enough for a test."""

from dataclasses import replace

from benchmarks.scenarios import Scenario


def tiny(scenario: Scenario) -> Scenario:
    deletes = replace(scenario.deletes, positions=3) if scenario.deletes else None
    return replace(scenario, files=6, rows_per_file=40, deletes=deletes)
