"""Commits in doubt to the end: files are kept, and recovery settles the job once the table tells [I7]."""

import time

import pytest
from pyiceberg.table import Table

from tests.rest.faults import LANDED, LATE, LOST, assert_committed_once, assert_untouched, only_job, through
from tests.rest.lab import FULL, SCHEMA, RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.commit.publish import RetryPolicy
from tidyberg.control.recovery import COMMIT_GRACE_MS
from tidyberg.errors import CommitStateUnknown
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.report import StageStarted
from tidyberg.testing import sample_rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_when_every_answer_is_unknown_files_are_kept_until_the_head_moves(
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

        proxy.heal()
        (said,) = control.recover()
        assert "may still land" in said
        assert lab.leftovers(table) == kept
        assert only_job(control, lab).unresolved

        table.refresh().append(sample_rows(5, 99, SCHEMA))
        (said,) = control.recover()
        assert "had not committed" in said
        job = only_job(control, lab)
        assert (job.status, job.unresolved) == (JobStatus.FAILED, False)
        assert control.recover() == []
    assert not lab.leftovers(table)
    assert not lab.missing(table)


def test_a_lost_commit_is_given_up_after_the_grace(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(always=LOST["503 instead"])
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        proxy.heal()
        clock = control.now_ms
        control.now_ms = lambda: clock() + COMMIT_GRACE_MS + 1000
        (said,) = control.recover()
        assert "had not committed" in said
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


def test_the_grace_counts_from_the_last_commit_sent(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    """Writers and retries may keep a commit going long after the last group was rewritten."""
    proxy.spoil_commits(always=LOST["503 instead"])
    with through(lab, proxy, retries=0) as control:
        clock, passed = control.now_ms, [0]
        control.now_ms = lambda: clock() + passed[0]

        def hours_later(event: object) -> None:
            if isinstance(event, StageStarted) and event.stage is Stage.COMMIT:
                passed[0] = 2 * COMMIT_GRACE_MS

        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL, on_event=hours_later)
        proxy.heal()
        (said,) = control.recover()
    assert "may still land" in said
    assert any(path.endswith(".parquet") for path in lab.leftovers(table))


@pytest.mark.parametrize("load_status", [None, 500, 503, 429])
@pytest.mark.parametrize("fault", [Fault(True, 500), Fault(True, None), Fault(True, 409)], ids=["500", "drop", "409"])
def test_a_landed_commit_that_no_load_can_show_is_settled_by_recovery(
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


def test_asking_a_catalog_that_stays_away_ends_with_the_total_time(
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


def test_recovery_keeps_everything_while_the_catalog_is_away(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(LANDED["500 after it landed"])
    proxy.spoil_loads_after_commit(Fault(forward=False, status=500))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        (said,) = control.recover()
        assert "not settled" in said
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


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_commit_on_its_way_when_the_job_gives_up_is_awaited_by_recovery(
    lab: RestLab, proxy: FaultProxy, format_version: int
) -> None:
    table = lab.untidy_table(format_version=format_version)
    before = lab.rows(table)
    proxy.spoil_commits(Fault(forward=True, status=200, hold_seconds=2 * LATE))
    with through(lab, proxy, retries=0) as control:
        with pytest.raises(CommitStateUnknown):
            control.compact(lab.ref, FULL)
        (said,) = control.recover()
        assert "may still land" in said
        proxy.wait_until_idle()
        assert proxy.commit_answers == [200]
        assert not lab.missing(table)
        (said,) = control.recover()
        assert "had committed" in said
        assert only_job(control, lab).status is JobStatus.SUCCEEDED
    assert_committed_once(lab, table, before)


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


def test_an_interrupt_while_the_commit_is_on_its_way_deletes_nothing_that_may_land(
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


def test_the_next_job_works_while_an_earlier_one_is_in_doubt_and_then_settles_it(
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
