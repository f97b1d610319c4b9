"""Compactions that expire snapshots afterwards: the numbers are true, and a failed expiry undoes nothing."""

from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import age
from tests.builders.control import AT_ONCE, leftovers
from tests.builders.events_table import REF, make_table
from tidyberg.control.control import Control
from tidyberg.control.then_expire import expiry_after
from tidyberg.errors import BadInput, Cancelled, CatalogUnreachable, StorageError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.options import PlanOptions
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

THEN_EXPIRE = replace(AT_ONCE, expire_snapshots=True, snapshot_retention_hours=24 * 7.5)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return age(make_table(warehouse), [10, 9, 8, 7, 6, 1])


def ids_of(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots]


def test_snapshots_expire_after_the_compaction_and_the_stats_count_them(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    rows, before = warehouse.rows(table), ids_of(table)
    result = control.compact(REF, THEN_EXPIRE)
    assert (result.outcome, result.failure, result.stats.snapshots_expired) == ("committed", None, 3)
    assert ids_of(table) == [*before[3:], result.snapshot_id]
    assert warehouse.rows(table) == rows
    assert not {path for path in leftovers(warehouse, table) if ".metadata.json" not in path}
    record = control.store.get(result.job.job_id)
    assert record == result.job
    assert record.expired is not None
    assert record.stats is not None
    assert (record.expired.snapshots_expired, record.stats.snapshots_expired) == (3, 3)


def test_a_tidy_table_is_not_rewritten_but_its_snapshots_expire(control: Control, table: Table) -> None:
    control.compact(REF, AT_ONCE)
    head = ids_of(table)[-1]
    result = control.compact(REF, THEN_EXPIRE)
    assert (result.outcome, result.has_committed, result.stats.snapshots_expired) == ("tidy", False, 3)
    assert ids_of(table)[-1] == head


def test_without_the_option_nothing_expires(control: Control, table: Table) -> None:
    result = control.compact(REF, AT_ONCE)
    assert (result.stats.snapshots_expired, result.job.expired, result.expiry) == (0, None, None)
    assert len(ids_of(table)) == 7


def test_an_applied_plan_keeps_the_option(control: Control, table: Table) -> None:
    assert control.apply(control.plan(REF, THEN_EXPIRE)).stats.snapshots_expired == 3
    assert len(ids_of(table)) == 4


def test_a_failed_expiry_leaves_the_compaction_committed(
    warehouse: Warehouse, control: Control, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise CatalogUnreachable("The catalog is away.")

    rows = warehouse.rows(table)
    monkeypatch.setattr(control, "expire", fail)
    result = control.compact(REF, THEN_EXPIRE)
    assert isinstance(result.failure, CatalogUnreachable)
    assert (result.outcome, result.has_committed, result.stats.snapshots_expired) == ("partly", True, 0)
    assert (len(ids_of(table)), ids_of(table)[-1]) == (7, result.snapshot_id)
    assert warehouse.rows(table) == rows
    record = control.store.get(result.job.job_id)
    assert record is not None
    assert "The catalog is away." in record.notes[-1]
    assert record.expired is None
    with pytest.raises(CatalogUnreachable):  # now there is nothing to rewrite, so nothing at all was done
        control.compact(REF, THEN_EXPIRE)


def test_files_that_storage_keeps_are_reported(control: Control, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tidyberg.control.expired_files.delete_many", lambda _io, paths, **_: {paths[0]: "access denied"}
    )
    result = control.compact(REF, THEN_EXPIRE)
    assert isinstance(result.failure, StorageError)
    assert (result.outcome, result.stats.snapshots_expired) == ("partly", 3)
    assert result.job.expired is not None
    assert result.job.expired.files_refused == 1
    assert len(ids_of(table)) == 4


def test_a_cancelled_job_expires_nothing(control: Control, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    expire = control.expire

    def cancelled(*args: Any, cancel: CancelToken, **kwargs: Any) -> Any:
        cancel.cancel()
        return expire(*args, cancel=cancel, **kwargs)

    monkeypatch.setattr(control, "expire", cancelled)
    with pytest.raises(Cancelled):
        control.compact(REF, THEN_EXPIRE, cancel=CancelToken())
    assert len(ids_of(table)) == 7, "the compaction stays, and no snapshot expired"


def test_retention_is_in_hours_and_needs_the_switch() -> None:
    assert expiry_after(PlanOptions()) is None
    by_table = expiry_after(PlanOptions(expire_snapshots=True))
    assert by_table is not None
    assert by_table.older_than_ms is None
    asked = plan_options(Settings(), REF, {"expire_snapshots": True, "snapshot_retention_hours": 1.5})
    found = expiry_after(asked)
    assert found is not None
    assert found.older_than_ms == 5_400_000
    for wrong in ({"snapshot_retention_hours": 168}, {"expire_snapshots": True, "snapshot_retention_hours": 0}):
        with pytest.raises(BadInput):
            plan_options(Settings(), REF, wrong)
    own = Settings.model_validate({"compaction": {"snapshot_retention_hours": 168}})
    assert not plan_options(own, REF, {}).expire_snapshots
    assert plan_options(own, REF, {"expire_snapshots": True}).snapshot_retention_hours == 168
