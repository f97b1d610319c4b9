"""Commits whose outcome stays unknown: files are kept until the table shows the outcome to recovery [I7]."""

import time

import pytest
from pyiceberg.table import Table

from tests.builders.control import fences
from tests.rest.faults import LANDED, LATE, LOST, assert_committed_once, assert_untouched, only_job, through
from tests.rest.lab import FULL, SCHEMA, RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.commit.fence import fence_name
from tidyberg.errors import CommitStateUnknown
from tidyberg.model.job import JobStatus
from tidyberg.model.retry import RetryPolicy
from tidyberg.testing import sample_rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_when_every_answer_is_unknown_files_are_kept_until_the_fence_exists(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], fault: Fault
) -> None:
    proxy.spoil_commits(always=fault)
    with through(lab, proxy, retries=1) as control:
        with pytest.raises(CommitStateUnknown, match="tidyberg recover"):
            control.compact(lab.ref, FULL)
        job = only_job(control, lab)
        assert (job.status, job.unresolved, job.error_code) == (JobStatus.FAILED, True, "commit-state-unknown")
        assert_untouched(lab, table, before)
        kept = lab.leftovers(table)
        assert any(path.endswith(".parquet") for path in kept)

        control.sleep = lambda _: None
        (said,) = control.recover()  # the fence is lost as well
        assert "may still land" in said
        assert lab.leftovers(table) == kept
        assert only_job(control, lab).unresolved

        proxy.heal()
        (said,) = control.recover()
        assert "had not committed" in said
        job = only_job(control, lab)
        assert (job.status, job.unresolved) == (JobStatus.FAILED, False)
        assert control.recover() == []
        assert_untouched(lab, table, before)
        assert not lab.leftovers(table)
        assert fences(table) == [fence_name(job.job_id, 0)]

        assert control.compact(lab.ref, FULL).outcome == "committed"
    assert_committed_once(lab, table, before)
    assert fences(table) == []


def test_after_the_head_has_moved_no_fence_is_needed(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(always=LOST["503 instead"])
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        proxy.heal()
        table.refresh().append(sample_rows(5, 99, SCHEMA))
        (said,) = control.recover()
        assert "had not committed" in said
    assert not lab.leftovers(table)
    assert fences(table) == []


@pytest.mark.parametrize("fault", LANDED.values(), ids=LANDED)
def test_a_fence_whose_answer_is_lost_is_found(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], fault: Fault
) -> None:
    proxy.spoil_commits(LOST["503 instead"], fault)
    with through(lab, proxy, retries=0) as control:
        control.sleep = lambda _: None
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        (said,) = control.recover()
        assert "had not committed" in said
        assert fences(table) == [fence_name(only_job(control, lab).job_id, 0)]
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


@pytest.mark.parametrize("load_status", [None, 500, 503, 429])
@pytest.mark.parametrize("fault", [Fault(True, 500), Fault(True, None), Fault(True, 409)], ids=["500", "drop", "409"])
def test_a_successful_commit_that_no_load_can_show_is_found_by_recovery(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], fault: Fault, load_status: int | None
) -> None:
    proxy.spoil_commits(fault)
    proxy.spoil_loads_after_commit(Fault(forward=False, status=load_status))
    with through(lab, proxy, retries=1) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        assert only_job(control, lab).unresolved
        assert not lab.missing(table)

        proxy.heal()
        (said,) = control.recover()
        assert "had committed" in said
        job = only_job(control, lab)
    assert (job.status, job.unresolved) == (JobStatus.SUCCEEDED, False)
    assert job.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert_committed_once(lab, table, before)


def test_retries_on_a_catalog_that_stays_down_end_at_the_total_timeout(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(LOST["500 instead"])
    proxy.spoil_loads_after_commit(Fault(forward=False, status=500))
    with through(lab, proxy) as control:
        control.retry = RetryPolicy(retries=10_000, min_wait_ms=1, max_wait_ms=20, total_timeout_ms=300)
        started = time.monotonic()
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
    assert time.monotonic() - started < 10
    assert_untouched(lab, table, before)


def test_recovery_keeps_everything_while_the_catalog_is_down(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(LANDED["500 after it landed"])
    proxy.spoil_loads_after_commit(Fault(forward=False, status=500))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        (said,) = control.recover()
        assert "could not be recovered" in said
        assert only_job(control, lab).unresolved
        assert not lab.missing(table)
        proxy.heal()
        control.recover()
        assert only_job(control, lab).status is JobStatus.SUCCEEDED
    assert_committed_once(lab, table, before)


def test_a_table_renamed_after_a_commit_whose_answer_was_lost_keeps_its_files(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    """Under its old name the table is gone; under the new one it holds what the job published."""
    proxy.spoil_commits(LANDED["500 after it landed"])
    renamed = (lab.namespace, "archive")
    with through(lab, proxy) as control:
        control.sleep = lambda _: lab.catalog.rename_table(lab.ref.identifier, renamed)
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        moved = lab.catalog.load_table(renamed)
        assert not lab.missing(moved), "the table references files that were deleted"
        (said,) = control.recover()
        assert "kept" in said
        assert control.recover() == []
    assert_committed_once(lab, moved, before)


def test_a_table_renamed_before_recovery_keeps_its_files(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(LANDED["500 after it landed"])
    proxy.spoil_loads_after_commit(Fault(forward=False, status=500))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        proxy.heal()
        lab.catalog.rename_table(lab.ref.identifier, (lab.namespace, "archive"))
        control.recover()
    moved = lab.catalog.load_table((lab.namespace, "archive"))
    assert not lab.missing(moved), "the table references files that were deleted"
    assert_committed_once(lab, moved, before)


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_commit_under_way_when_the_job_gives_up_is_refused_once_the_fence_exists(
    lab: RestLab, proxy: FaultProxy, format_version: int
) -> None:
    table = lab.untidy_table(format_version=min(format_version, 2))
    if format_version == 3:
        lab.upgrade(table, 3)
    before = lab.rows(table)
    proxy.spoil_commits(Fault(forward=True, status=200, until_released=True))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        (said,) = control.recover()
        assert "had not committed" in said
        assert not lab.leftovers(table)
        proxy.release()
        proxy.wait_until_idle()
        assert proxy.commit_answers == [200, 409], "the fence, and then the stale commit"
        assert_untouched(lab, table, before)
        assert control.compact(lab.ref, FULL).outcome == "committed"
    assert_committed_once(lab, table, before)


def test_a_stale_commit_is_refused_even_after_a_later_commit_removed_the_fence(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    """The branch is set back to where it was, and the request comes at last: its sequence number is taken."""
    head = table.metadata.current_snapshot_id
    assert head is not None
    proxy.spoil_commits(Fault(forward=True, status=200, until_released=True))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        assert control.compact(lab.ref, FULL).outcome == "committed"
        assert fences(table) == []
        table.refresh().manage_snapshots().rollback_to_snapshot(head).commit()
        proxy.release()
        proxy.wait_until_idle()
        assert proxy.commit_answers[-1] in (400, 409)
    assert table.refresh().metadata.current_snapshot_id == head
    assert lab.rows(table) == before
    assert not lab.missing(table)


@pytest.mark.parametrize("second", [400, 401, 403, 409], ids=str)
def test_a_definite_refusal_after_a_lost_answer_says_nothing_about_the_first_commit(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], second: int
) -> None:
    """The first commit is still on its way while the second is refused; then it lands."""
    proxy.spoil_commits(
        Fault(forward=True, status=200, hold_seconds=2 * LATE), always=Fault(forward=False, status=second)
    )
    with through(lab, proxy, retries=1) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        assert only_job(control, lab).unresolved
        proxy.wait_until_idle()
        assert proxy.commit_answers == [200]
        assert not lab.missing(table), "the table references files that were deleted"
        proxy.heal()
        control.recover()
        assert only_job(control, lab).status is JobStatus.SUCCEEDED
    assert_committed_once(lab, table, before)


def test_an_interrupt_during_the_commit_deletes_no_file_that_may_be_committed(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a notebook: the request has left, nobody waits for its answer."""
    proxy.spoil_commits(Fault(forward=True, status=200, hold_seconds=2 * LATE))
    with through(lab, proxy) as control:
        catalog = control.catalog("rest")
        commit_table = catalog.commit_table

        def interrupted(*args: object) -> None:
            try:
                commit_table(*args)  # type: ignore[arg-type]
            except OSError as error:  # the client's time is up while the proxy holds the request
                raise KeyboardInterrupt from error

        monkeypatch.setattr(catalog, "commit_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            control.compact(lab.ref, FULL)
        assert only_job(control, lab).unresolved
        proxy.wait_until_idle()
        assert proxy.commit_answers == [200]
        assert not lab.missing(table), "the table references files that were deleted"
        control.recover()
        assert only_job(control, lab).status is JobStatus.SUCCEEDED
    assert_committed_once(lab, table, before)


def test_the_next_job_runs_while_an_earlier_one_is_in_doubt_and_then_recovers_it(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(always=LOST["503 instead"])
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        proxy.heal()
        assert control.compact(lab.ref, FULL).outcome == "committed"
        control.recover()
        second, first = control.history(lab.ref)
        assert (first.status, first.unresolved) == (JobStatus.FAILED, False)
        assert second.status is JobStatus.SUCCEEDED
    assert_committed_once(lab, table, before)
