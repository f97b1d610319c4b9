"""kill -9 in the middle of a join: the rows stay right, and recovery removes the files of the join [I6, I7]."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.table import Table

from tests.builders.control import leftovers, make_control
from tests.builders.delete_scenarios import several_key_sets
from tests.builders.engines import OneAtATime
from tests.builders.events_table import BY_REGION, REF, compact, delete_files, make_table, options
from tests.builders.interrupted_jobs import die, run_until_dead
from tidyberg.commit.publish import Publisher
from tidyberg.control.key_joins import KeyJoins
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.deletes.join.joining import KeyJoin
from tidyberg.execute.kernel.deletes.join.maps import KeyMap
from tidyberg.execute.kernel.deletes.join.survey import FilterMerge
from tidyberg.model.job import JobStatus
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.task import SCRATCH_NAME
from tidyberg.testing import Warehouse

JOINING = replace(options(), join_delete_size=1)
ONE_BY_ONE = replace(JOINING, commit_every=1)
MERGING = replace(JOINING, strategy=Strategy.DELETES_ONLY)

# The point, the options, whether the job has committed by then, and whether files of joins are left.
POINTS = [
    pytest.param("survey", JOINING, False, False, id="before the first filter is written"),
    pytest.param("filter", JOINING, False, True, id="after the first filter"),
    pytest.param("keys", JOINING, False, True, id="while keys are read"),
    pytest.param("positions", JOINING, False, True, id="after the first file of positions"),
    pytest.param("rewrite", JOINING, False, True, id="after the rewrite of the first group"),
    pytest.param("commit", JOINING, False, True, id="before the commit"),
    pytest.param("commit", MERGING, False, True, id="before the commit of merged deletes"),
    pytest.param("rewrite", ONE_BY_ONE, True, True, id="between two commits"),
    pytest.param("removal", JOINING, True, True, id="before the files of joins are removed"),
]


def die_at(directory: str, point: str, how: PlanOptions) -> None:
    """Compacts, and kills its process at the named point."""
    engine = InlineEngine()
    if point == "survey":
        patch.object(FilterMerge, "reduce", die).start()
    elif point == "filter":
        _die_after(FilterMerge, "reduce")
    elif point == "keys":
        patch.object(KeyMap, "chunks", die).start()
    elif point == "positions":
        _die_after(KeyJoin, "reduce", lambda report: bool(report.files))
    elif point == "rewrite":
        engine = OneAtATime(die)
    elif point == "commit":
        patch.object(Publisher, "send", die).start()
    elif point == "removal":
        patch.object(KeyJoins, "remove_scratch", die).start()
    with Warehouse(directory) as warehouse:
        compact(warehouse, how, engine=engine)


def _die_after(owner: type[Any], method: str, counts: Callable[[Any], bool] = lambda _: True) -> None:
    original = getattr(owner, method)

    def call_then_die(*args: Any) -> Any:
        result = original(*args)
        if counts(result):
            die()
        return result

    patch.object(owner, method, call_then_die).start()


def of_joins(warehouse: Warehouse, table: Table) -> set[str]:
    return {path for path in warehouse.files_on_disk(table) if SCRATCH_NAME.fullmatch(Path(path).name)}


@pytest.mark.parametrize(("point", "how", "has_committed", "leaves"), POINTS)
def test_recovery_removes_what_a_killed_join_left(
    warehouse: Warehouse, point: str, how: PlanOptions, has_committed: bool, leaves: bool
) -> None:
    table = make_table(warehouse, BY_REGION, format_version=3 if how is MERGING else 2)
    several_key_sets(warehouse, table)
    rows = warehouse.rows(table)

    run_until_dead(die_at, str(warehouse.directory), point, how)

    assert bool(of_joins(warehouse, table)) is leaves
    assert warehouse.rows(table) == rows, "the table must read right before anything is recovered"
    with make_control(warehouse) as control:
        control.recover()
        (job,) = control.history(REF)
    assert job.status is (JobStatus.SUCCEEDED if has_committed else JobStatus.FAILED)
    assert not job.unresolved
    check_clean(warehouse, table, rows)
    compact(warehouse, how)
    assert not [path for path in delete_files(warehouse, table) if not path.endswith(".puffin")]
    check_clean(warehouse, table, rows)


@pytest.mark.parametrize(("point", "how"), [("positions", JOINING), ("rewrite", JOINING), ("rewrite", ONE_BY_ONE)])
def test_the_next_run_goes_on_and_removes_what_a_killed_join_left(
    warehouse: Warehouse, point: str, how: PlanOptions
) -> None:
    """It takes over the groups that were finished, but not the files of joins."""
    table = make_table(warehouse, BY_REGION)
    several_key_sets(warehouse, table)
    rows = warehouse.rows(table)
    run_until_dead(die_at, str(warehouse.directory), point, how)
    assert compact(warehouse, how).outcome == "committed"
    assert delete_files(warehouse, table) == []
    check_clean(warehouse, table, rows)


@pytest.mark.spark
def test_a_driver_that_is_killed_during_a_join_on_spark_leaves_nothing(warehouse: Warehouse) -> None:
    """Workers live some seconds longer than the driver, and may still write. Recovery waits for them."""
    table = make_table(warehouse, BY_REGION)
    several_key_sets(warehouse, table)
    rows = warehouse.rows(table)
    command = [sys.executable, "-m", "tests.builders.victim", str(warehouse.directory), "spark", "1", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as victim:
        deadline = time.monotonic() + 120
        while not of_joins(warehouse, table) and victim.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        victim.kill()
    assert victim.returncode == -signal.SIGKILL
    with make_control(warehouse) as control:
        (said,) = control.recover()
    assert "removed" in said
    check_clean(warehouse, table, rows)
    assert compact(warehouse, JOINING).outcome == "committed"
    check_clean(warehouse, table, rows)


def check_clean(warehouse: Warehouse, table: Table, rows: list[str]) -> None:
    assert warehouse.rows(table) == rows
    assert not leftovers(warehouse, table)
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
