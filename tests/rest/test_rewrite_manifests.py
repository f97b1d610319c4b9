"""Rewriting manifests through Iceberg's REST catalog: conflicts, and answers that are lost."""

import pytest
from pyiceberg.table import Table

from tests.builders.manifest_entries import listed, live_entries_of
from tests.rest.faults import LANDED, LOST, through
from tests.rest.lab import RestLab
from tests.rest.proxy import FaultProxy
from tidyberg.errors import CommitStateUnknown
from tidyberg.model.manifest_rewrite import ManifestOptions

pytestmark = pytest.mark.slow
FORCED = ManifestOptions(force=True)


@pytest.fixture
def table(lab: RestLab) -> Table:
    return lab.untidy_table()


def assert_rewritten(lab: RestLab, table: Table, before: list[str], rows: list[str]) -> None:
    assert live_entries_of(table) == before
    assert len(listed(table)) == 1
    assert lab.rows(table) == rows
    assert not lab.missing(table)
    assert not lab.leftovers(table)


def test_manifests_are_rewritten(lab: RestLab, table: Table) -> None:
    before, rows = live_entries_of(table), lab.rows(table)
    with lab.control() as control:
        assert control.rewrite_manifests(lab.ref, FORCED).outcome == "rewritten"
    assert_rewritten(lab, table, before, rows)


@pytest.mark.parametrize("name", ["503 after it landed", "409 after it landed", "dropped after it landed"])
def test_a_commit_whose_answer_is_lost_is_found_in_the_table(
    lab: RestLab, proxy: FaultProxy, table: Table, name: str
) -> None:
    before, rows = live_entries_of(table), lab.rows(table)
    proxy.spoil_commits(LANDED[name])
    with through(lab, proxy) as control:
        control.sleep = lambda _: None
        assert control.rewrite_manifests(lab.ref, FORCED).outcome == "rewritten"
        assert len(table.refresh().metadata.snapshots) == 3
    assert_rewritten(lab, table, before, rows)


def test_while_the_outcome_is_unknown_nothing_is_deleted(lab: RestLab, proxy: FaultProxy, table: Table) -> None:
    before, rows = live_entries_of(table), lab.rows(table)
    proxy.spoil_commits(always=LOST["503 instead"])
    with through(lab, proxy, retries=1) as control:
        control.sleep = lambda _: None
        with pytest.raises(CommitStateUnknown, match="The new manifests were kept"):
            control.rewrite_manifests(lab.ref, FORCED)
        written = lab.leftovers(table)
        assert any("-m0.avro" in path for path in written)
        (said,) = control.recover()
        assert "may still land" in said
        assert lab.leftovers(table) == written
        proxy.heal()
        (said,) = control.recover()
        assert "had not committed" in said
        assert not lab.leftovers(table)
        assert control.rewrite_manifests(lab.ref, FORCED).outcome == "rewritten"
    assert_rewritten(lab, table, before, rows)
