"""Format v3: an audit checks that rows keep their ids and the numbers of their last updates."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from tests.builders.audits import audit_latest
from tests.builders.events_table import SCHEMA, append, compact, paths
from tidyberg.model.audit import Harm, Verdict
from tidyberg.model.options import VerifyMode
from tidyberg.model.task import TaskInput
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, commit_deletes, delete_rows


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    made = warehouse.create_table("db.events", SCHEMA, format_version=3)
    append(warehouse, made, [0, 1, 2], "eu")
    delete_rows(made, {paths(warehouse, made)[0]: [1, 2]})
    return commit_deletes(made, EqualTo({"id": [15]}))


@pytest.mark.usefixtures("table")
def test_our_compaction_keeps_every_id(warehouse: Warehouse) -> None:
    compact(warehouse)
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.lineage_compared) == (Verdict.INTACT, True)
    assert audited.rows_after == 27


@pytest.mark.usefixtures("table")
def test_lost_ids_are_distinguished_from_lost_rows(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(batches: Iterable[pa.RecordBatch], files: Sequence[TaskInput]) -> Iterable[pa.RecordBatch]:
        return batches

    monkeypatch.setattr("tidyberg.execute.kernel.deletes.surviving_rows.fill_joined_lineage", forget)
    compact(warehouse, verify=VerifyMode.OFF)
    audited = audit_latest(warehouse)
    assert dict(audited.harms) == {Harm.LINEAGE: 27}
    assert {example.harm for example in audited.examples} == {Harm.LINEAGE}


def test_rows_without_ids_have_none_to_lose(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, format_version=2)
    append(warehouse, table, [0, 1, 2], "eu")
    warehouse.upgrade(table, 3)
    compact(warehouse)
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.lineage_compared) == (Verdict.INTACT, False)


def test_files_left_in_place_that_get_their_first_ids_are_the_same(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, format_version=2)
    append(warehouse, table, [0, 1, 2], "eu")
    warehouse.upgrade(table, 3)
    commit_deletes(table, operation=Operation.REPLACE)
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.files_before) == (Verdict.INTACT, 0)
