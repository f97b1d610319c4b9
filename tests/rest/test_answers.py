"""Answers are lost, late or wrong, but the table shows the outcome: a job commits once, or fails and leaves nothing.

Every fault is put between tidyberg and the real server by a proxy; the server itself is always right [I6, I7].
"""

import pytest
from pyiceberg.table import Table

from tests.rest.faults import LANDED, LATE, LOST, assert_committed_once, assert_untouched, only_job, through
from tests.rest.lab import FULL, SCHEMA, RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.errors import AccessDenied, CatalogUnreachable, Conflict, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.report import StageStarted
from tidyberg.testing import sample_rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("retries", [4, 0])
@pytest.mark.parametrize("fault", LANDED.values(), ids=LANDED)
def test_a_successful_commit_is_found_whatever_the_answer_was(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], fault: Fault, retries: int
) -> None:
    proxy.spoil_commits(fault)
    with through(lab, proxy, retries) as control:
        result = control.compact(lab.ref, FULL)
        job = only_job(control, lab)
    assert result.outcome == "committed"
    assert (job.status, job.unresolved, job.snapshot_id) == (JobStatus.SUCCEEDED, False, result.snapshot_id)
    proxy.wait_until_idle()
    assert proxy.commit_answers.count(200) == 1
    assert_committed_once(lab, table, before)


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("fault", [*LOST.values(), Fault(forward=False, status=409)], ids=[*LOST, "409 instead"])
def test_a_commit_that_was_lost_is_sent_again(
    lab: RestLab, proxy: FaultProxy, fault: Fault, format_version: int
) -> None:
    table = lab.untidy_table(format_version=format_version)
    before = lab.rows(table)
    proxy.spoil_commits(fault, fault)
    with through(lab, proxy) as control:
        assert control.compact(lab.ref, FULL).outcome == "committed"
    assert proxy.commits_asked == 3
    assert proxy.commit_answers == [200]
    assert_committed_once(lab, table, before)


@pytest.mark.parametrize("load_status", [None, 500, 503])
def test_a_job_that_committed_has_succeeded_even_if_the_catalog_fails_right_after(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], load_status: int | None
) -> None:
    proxy.spoil_loads_after_commit(Fault(forward=False, status=load_status))
    with through(lab, proxy) as control:
        assert control.compact(lab.ref, FULL).outcome == "committed"
        assert only_job(control, lab).status is JobStatus.SUCCEEDED
        proxy.heal()
        control.recover()
        assert not only_job(control, lab).unresolved
    assert_committed_once(lab, table, before)


def test_loads_that_fail_for_a_while_are_repeated(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    """500 is not retried by the client itself."""
    proxy.spoil_commits(LOST["500 instead"])
    proxy.spoil_loads_after_commit(Fault(forward=False, status=500))
    with through(lab, proxy, retries=4) as control:
        waits: list[float] = []

        def heal_after_three(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                proxy.heal()

        control.sleep = heal_after_three
        assert control.compact(lab.ref, FULL).outcome == "committed"
    assert len(waits) == 3
    assert_committed_once(lab, table, before)


def test_a_catalog_that_goes_down_before_the_commit_is_reported_and_no_files_remain(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    def go_away(event: object) -> None:
        if isinstance(event, StageStarted) and event.stage is Stage.COMMIT:
            proxy.spoil_loads(always=Fault(forward=False, status=500))

    with through(lab, proxy, retries=2) as control:
        with pytest.raises(CatalogUnreachable, match="nothing was committed"):
            control.compact(lab.ref, FULL, on_event=go_away)
        assert not only_job(control, lab).unresolved
    assert proxy.commits_asked == 0
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_table_that_is_always_busy_is_a_conflict_and_no_files_remain(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], retries: int
) -> None:
    proxy.spoil_commits(always=Fault(forward=False, status=409))
    with through(lab, proxy, retries) as control:
        with pytest.raises(Conflict, match="too busy"):
            control.compact(lab.ref, FULL)
        job = only_job(control, lab)
    assert (job.status, job.unresolved) == (JobStatus.FAILED, False)
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_commit_is_definite_and_no_files_remain(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str], status: int
) -> None:
    proxy.spoil_commits(always=Fault(forward=False, status=status))
    with through(lab, proxy) as control:
        with pytest.raises(AccessDenied):
            control.compact(lab.ref, FULL)
        assert not only_job(control, lab).unresolved
    assert proxy.commits_asked == (2 if status == 401 else 1)  # PyIceberg tries once more with a fresh token
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


def test_a_rejected_commit_is_definite_and_no_files_remain(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(always=Fault(forward=False, status=400))
    with through(lab, proxy) as control, pytest.raises(TidybergError, match="rejected"):
        control.compact(lab.ref, FULL)
    assert proxy.commits_asked == 1
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)


def test_a_commit_that_arrives_after_its_retry_changes_nothing(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    """The first request is still on its way when the second one lands: the server refuses the late one."""
    proxy.spoil_commits(Fault(forward=True, status=200, hold_seconds=LATE))
    with through(lab, proxy) as control:
        assert control.compact(lab.ref, FULL).outcome == "committed"
    proxy.wait_until_idle()
    assert sorted(proxy.commit_answers) == [200, 409]
    assert_committed_once(lab, table, before)


def test_another_writer_between_a_lost_answer_and_its_retry_loses_nothing(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    proxy.spoil_commits(LANDED["500 after it landed"])
    with through(lab, proxy) as control:

        def append(seconds: float) -> None:
            lab.catalog.load_table(lab.ref.identifier).append(sample_rows(5, 99, SCHEMA))

        control.sleep = append
        assert control.compact(lab.ref, FULL).outcome == "committed"
    assert lab.operations(table) == {"append": 3, "replace": 1}
    assert len(lab.rows(table)) == len(before) + 5
    assert not lab.leftovers(table)
    assert not lab.missing(table)


def test_a_cancel_before_the_commit_leaves_nothing(
    lab: RestLab, proxy: FaultProxy, table: Table, before: list[str]
) -> None:
    cancel = CancelToken()
    with through(lab, proxy) as control:
        with pytest.raises(TidybergError):
            control.compact(lab.ref, FULL, cancel=cancel, on_event=lambda event: cancel.cancel())
        assert only_job(control, lab).status is JobStatus.CANCELLED
    assert proxy.commits_asked == 0
    assert_untouched(lab, table, before)
    assert not lab.leftovers(table)
