"""Several threads share one `Control`: each has its own catalog, all share the engine, one run per table."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, chunks, leftovers, make_control
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse

THREADS = 4


@pytest.fixture
def tables(warehouse: Warehouse) -> list[Table]:
    return [
        warehouse.append_files(warehouse.create_table(f"db.t{number}"), 6, 30, files_per_commit=2)
        for number in range(THREADS)
    ]


class Shared:
    """Counts what a control room opens, and who opened it."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.catalogs: list[int] = []
        self.engines = 0

    def open_catalog(self, _: str | None) -> Catalog:
        self.catalogs.append(threading.get_ident())
        properties = {key: value for key, value in self._warehouse.properties.items() if key != "type"}
        return SqlCatalog(self._warehouse.name, **properties)

    def open_engine(self) -> Engine:
        self.engines += 1
        return InlineEngine()

    def control(self) -> Control:
        return make_control(
            self._warehouse, open_catalog=self.open_catalog, open_engine=self.open_engine, wait_seconds=120.0
        )


def ref(number: int) -> TableRef:
    return TableRef("lab", ("db",), f"t{number}")


def at_once(work: Callable[[int], CompactionResult]) -> list[CompactionResult]:
    barrier = threading.Barrier(THREADS)

    def start(number: int) -> CompactionResult:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


@pytest.fixture
def shared(warehouse: Warehouse) -> Shared:
    return Shared(warehouse)


def test_threads_compact_different_tables_at_once(warehouse: Warehouse, tables: list[Table], shared: Shared) -> None:
    before = [warehouse.rows(table) for table in tables]
    with shared.control() as control:
        results = at_once(lambda number: control.compact(ref(number), AT_ONCE))
        assert {job.job_id for job in control.history(limit=100)} == {result.job.job_id for result in results}
    assert [result.outcome for result in results] == ["committed"] * THREADS
    assert [warehouse.rows(table) for table in tables] == before
    assert shared.engines == 1
    assert len(shared.catalogs) == len(set(shared.catalogs)) == THREADS, "no thread uses another's connection"
    for table in tables:
        assert len(chunks(table)) == 1
        assert not leftovers(warehouse, table)


def test_threads_that_want_one_table_run_one_after_the_other(
    warehouse: Warehouse, tables: list[Table], shared: Shared
) -> None:
    before = warehouse.rows(tables[0])
    with shared.control() as control:
        results = at_once(lambda _: control.compact(ref(0), AT_ONCE))
    assert sorted(result.outcome for result in results) == ["committed", "tidy", "tidy", "tidy"]
    assert len(chunks(tables[0])) == 1
    assert warehouse.rows(tables[0]) == before
    assert not leftovers(warehouse, tables[0])


def test_a_run_has_the_id_it_was_given_and_says_whose_attempt_it_is(warehouse: Warehouse, tables: list[Table]) -> None:
    run_id = str(uuid.uuid4())
    with make_control(warehouse) as control:
        result = control.compact(ref(0), AT_ONCE, job_id=run_id, submission_id="asked")
        assert chunks(tables[0]) == [(run_id, 0)]
        job = control.store.get(run_id)
        assert job == result.job
        assert job.submission_id == "asked"
        assert (job.predicted_seconds or 0) > 0

        plan = control.plan(ref(1), replace(AT_ONCE))
        applied = control.apply(plan, job_id="applied", submission_id="asked too")
        assert (applied.job.job_id, applied.job.submission_id) == ("applied", "asked too")


def test_an_id_that_a_run_had_is_refused(warehouse: Warehouse, tables: list[Table]) -> None:
    """Names of outputs contain it: two runs would write the same files."""
    with make_control(warehouse) as control:
        control.compact(ref(0), AT_ONCE, job_id="once")
        warehouse.append_files(tables[0], 4, 10)
        with pytest.raises(BadInput, match="once"):
            control.compact(ref(0), AT_ONCE, job_id="once")
        assert control.compact(ref(0), AT_ONCE).outcome == "committed", "the table is free"
