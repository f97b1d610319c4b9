"""Expiry through Iceberg's REST catalog: conflicts, answers that are lost, and refs that move meanwhile."""

from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.builders.aged_tables import DAY_MS
from tests.rest.faults import LANDED, LOST, through
from tests.rest.lab import FULL, RestLab
from tests.rest.proxy import FaultProxy
from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit import expiry as expiry_commit
from tidyberg.control.control import Control
from tidyberg.control.expiry_list import write_list
from tidyberg.errors import BadInput, CommitStateUnknown
from tidyberg.model.expiry import ExpireOptions
from tidyberg.record.clock import wall_clock_ms

pytestmark = pytest.mark.slow
NOW = wall_clock_ms() + 10 * DAY_MS


@pytest.fixture
def table(lab: RestLab) -> Table:
    made = lab.untidy_table()
    with lab.control() as control:
        control.compact(lab.ref, FULL)
    return made.refresh()


def later(control: Control) -> Control:
    control.now_ms = lambda: NOW
    control.sleep = lambda _: None
    return control


def set_main(lab: RestLab, number: int) -> None:
    update = SetSnapshotRefUpdate(
        ref_name="main",
        type=SnapshotRefType.BRANCH,
        snapshot_id=number,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    lab.catalog.commit_table(lab.catalog.load_table(str(lab.ref)), (), (update,))


def assert_expired(lab: RestLab, table: Table, rows: list[str], snapshots: int = 1) -> None:
    assert len(table.refresh().metadata.snapshots) == snapshots
    assert lab.rows(table) == rows
    assert not lab.missing(table)
    assert not lab.leftovers(table)


def test_snapshots_expire_with_their_files(lab: RestLab, table: Table) -> None:
    rows = lab.rows(table)
    with later(lab.control()) as control:
        result = control.expire(lab.ref, ExpireOptions())
    assert (result.snapshots_expired, result.files.data_files) == (2, 6)
    assert_expired(lab, table, rows)


def test_a_rollback_between_decision_and_commit_keeps_its_snapshot(
    lab: RestLab, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, send, calls = table.metadata.snapshots[0].snapshot_id, send_commit, []

    def meddled(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            set_main(lab, oldest)
        return send(*arguments, **named)

    monkeypatch.setattr(expiry_commit, "send_commit", meddled)
    with later(lab.control()) as control:
        control.expire(lab.ref, ExpireOptions())
    metadata = table.refresh().metadata
    assert metadata.current_snapshot_id == oldest
    assert len(calls) == 2
    assert len(lab.rows(table)) == 60
    assert not lab.missing(table)


def test_a_tag_that_is_created_while_files_are_looked_for_keeps_its_snapshot(
    lab: RestLab, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would drop it with its snapshot, and no requirement can prevent that: the table is loaded again."""
    oldest = table.metadata.snapshots[0].snapshot_id

    def tag_then_write(*arguments: Any) -> None:
        lab.catalog.load_table(str(lab.ref)).manage_snapshots().create_tag(oldest, "new").commit()
        write_list(*arguments)

    monkeypatch.setattr("tidyberg.control.expiry_work.write_list", tag_then_write)
    with later(lab.control()) as control:
        assert control.expire(lab.ref, ExpireOptions()).snapshots_expired == 1
    assert table.refresh().metadata.refs["new"].snapshot_id == oldest
    assert not lab.missing(table)


@pytest.mark.parametrize("name", ["503 after it landed", "409 after it landed", "dropped after it landed"])
def test_a_commit_whose_answer_is_lost_is_found_in_the_table(
    lab: RestLab, proxy: FaultProxy, table: Table, name: str
) -> None:
    rows = lab.rows(table)
    proxy.spoil_commits(LANDED[name])
    with later(through(lab, proxy)) as control:
        assert control.expire(lab.ref, ExpireOptions()).outcome == "expired"
    assert_expired(lab, table, rows)


def test_while_the_outcome_is_unknown_nothing_is_deleted(lab: RestLab, proxy: FaultProxy, table: Table) -> None:
    rows, files = lab.rows(table), lab.files_on_disk(table)
    proxy.spoil_commits(always=LOST["503 instead"])
    with later(through(lab, proxy, retries=1)) as control:
        with pytest.raises(CommitStateUnknown, match="No file was deleted"):
            control.expire(lab.ref, ExpireOptions())
        assert files <= lab.files_on_disk(table)
        (said,) = control.recover()
        assert "may still land" in said
        assert files <= lab.files_on_disk(table)
        control.now_ms = lambda: NOW + 3_600_000
        (said,) = control.recover()
        assert "had not committed" in said
        assert files == lab.files_on_disk(table)
        proxy.heal()
        assert control.expire(lab.ref, ExpireOptions()).outcome == "expired"
    assert_expired(lab, table, rows)


def test_a_catalog_that_hides_snapshots_is_refused(lab: RestLab, table: Table) -> None:
    with later(lab.control()) as control:
        control.catalog("rest").properties["snapshot-loading-mode"] = "refs"
        with pytest.raises(BadInput, match="does not show all snapshots"):
            control.expire(lab.ref, ExpireOptions())
    assert len(table.refresh().metadata.snapshots) == 3
