"""Maintenance: the order of steps, what a failure stops, and that a saved plan does nothing beyond what it names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import DAY_MS, age, set_ref
from tests.builders.events_table import REF, SCHEMA, append, delete_files, make_table, options, paths
from tidyberg.control.control import Control
from tidyberg.control.maintenance.maintainer import STEPS, Maintainer
from tidyberg.control.maintenance.step import MaintenanceStep, StepContext, StepDone
from tidyberg.errors import (
    BadPlan,
    Cancelled,
    CommitStateUnknown,
    Conflict,
    DamagedFile,
    StorageError,
    TidybergError,
    VerificationFailed,
)
from tidyberg.execute.engine import CancelToken
from tidyberg.model.maintenance import (
    MaintenancePlan,
    MaintenanceRequest,
    MaintenanceResult,
    StepName,
    StepPlan,
    StepResult,
)
from tidyberg.model.maintenance_policy import PolicyLayer, PolicyScalar, merge_policy
from tidyberg.planning.maintenance_document import (
    is_maintenance_plan,
    maintenance_plan_from_json,
    maintenance_plan_hash,
    maintenance_plan_to_json,
)
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import delete_positions

NOW = 1_900_000_000_000


def asked(**policy: PolicyScalar) -> MaintenanceRequest:
    given = {key.replace("__", "."): value for key, value in policy.items()}
    return MaintenanceRequest(REF, merge_policy([PolicyLayer("test", given)]), options())


@dataclass
class FakeStep:
    """A step that fails, or commits, or has nothing to do."""

    name: StepName
    needs: frozenset[StepName] = frozenset()
    outdated_by: frozenset[StepName] = frozenset()
    failure: BaseException | None = None
    verdict: str = "run"
    changes: bool = True
    ran: list[str] = field(default_factory=list)

    def switched_off_by(self, request: MaintenanceRequest) -> str | None:
        return None if getattr(request.policy, self.name).enabled else f"{self.name}.enabled"

    def plan(self, context: StepContext) -> StepPlan:
        return StepPlan(self.name, self.verdict, "because")  # type: ignore[arg-type]

    def run(self, context: StepContext, planned: StepPlan, *, as_planned: bool) -> StepDone:
        self.ran.append("as planned" if as_planned else "now")
        if self.failure is not None and not isinstance(self.failure, StorageError):
            raise self.failure
        return StepDone("did it", self.changes, {"files": 1}, "job-1", self.failure)


def outcome(*steps: MaintenanceStep, **policy: PolicyScalar) -> MaintenanceResult:
    return Maintainer(Control(None, None, None), lambda: NOW, steps=steps).run(asked(**policy))  # type: ignore[arg-type]


def statuses(result: MaintenanceResult) -> list[str]:
    return [step.status for step in result.steps]


def test_steps_run_in_the_order_in_which_they_free_most() -> None:
    """Deletes before data, because data then reads fewer files. Orphans last, because all others leave some."""
    assert [step.name for step in STEPS] == ["deletes", "data", "manifests", "expire", "orphans"]
    assert {step.name: set(step.needs) for step in STEPS if step.needs} == {"manifests": {"deletes", "data"}}
    assert {step.name: set(step.outdated_by) for step in STEPS if step.outdated_by} == {"data": {"deletes"}}


def test_every_step_says_what_happened() -> None:
    result = outcome(FakeStep("data"), FakeStep("expire", changes=False))
    assert statuses(result) == ["done", "nothing"]
    assert (result.outcome, result.failure, result.plan_hash) == ("done", None, None)
    assert result.steps[0].numbers == {"files": 1}
    assert (result.steps[0].job_id, result.steps[0].changed) == ("job-1", True)


@pytest.mark.parametrize(("verdict", "status"), [("skip", "nothing"), ("wait", "skipped"), ("refused", "skipped")])
def test_a_step_whose_verdict_is_not_run_does_not_run(verdict: str, status: str) -> None:
    step = FakeStep("data", verdict=verdict)
    result = outcome(step)
    assert (statuses(result), step.ran, result.outcome) == ([status], [], "nothing")
    assert result.steps[0].reason == "because"


def test_the_policy_switches_steps_off_and_says_where_it_was_given() -> None:
    result = outcome(FakeStep("data"), FakeStep("expire"), data__enabled=False)
    assert statuses(result) == ["skipped", "done"]
    assert result.steps[0].reason == "switched off: data.enabled is false (test)"
    assert statuses(outcome(FakeStep("data"), FakeStep("expire"), enabled=False)) == ["skipped", "skipped"]


@pytest.mark.parametrize(
    "failure",
    [DamagedFile("broken"), VerificationFailed("rows differ"), CommitStateUnknown("who knows"), ZeroDivisionError()],
)
def test_a_failure_that_leaves_the_table_in_doubt_stops_every_later_step(failure: Exception) -> None:
    expire = FakeStep("expire")
    result = outcome(FakeStep("data", failure=failure), expire)
    assert (statuses(result), expire.ran) == (["failed", "stopped"], [])
    assert "data failed" in result.steps[1].reason
    assert result.outcome == "failed"
    assert result.failure is not None
    assert result.failure.exit_code == 5


@pytest.mark.parametrize("failure", [Conflict("others were first"), StorageError("disk full")])
def test_other_failures_stop_only_steps_that_need_the_failed_one(failure: TidybergError) -> None:
    result = outcome(FakeStep("data", failure=failure), FakeStep("expire"))
    assert statuses(result) == ["failed", "done"]
    assert result.failure is failure
    dependent = FakeStep("expire", needs=frozenset({"data"}))
    result = outcome(FakeStep("data", failure=failure), dependent)
    assert (statuses(result), dependent.ran) == (["failed", "stopped"], [])
    assert "it needs data, which failed" in result.steps[1].reason


@pytest.mark.parametrize(("changes", "expected"), [(True, "now"), (False, "as planned")])
def test_a_saved_step_is_planned_again_if_an_earlier_one_made_it_outdated(changes: bool, expected: str) -> None:
    deletes, data = FakeStep("deletes", changes=changes), FakeStep("data", outdated_by=frozenset({"deletes"}))
    loop = Maintainer(Control(None, None, None), lambda: NOW, steps=(deletes, data))  # type: ignore[arg-type]
    document = {step.name: StepPlan(step.name, "run", "because") for step in (deletes, data)}
    loop._run_all(loop._context(asked()), document)
    assert (deletes.ran, data.ran) == (["as planned"], [expected])


def test_a_failure_after_a_commit_says_both() -> None:
    result = outcome(FakeStep("data", failure=StorageError("3 files are left.")))
    assert result.steps[0].reason == "did it; then: 3 files are left."
    assert (result.steps[0].changed, result.outcome) == (True, "failed")


def test_a_cancelled_run_stops_at_once() -> None:
    later = FakeStep("expire")
    with pytest.raises(Cancelled):
        outcome(FakeStep("data", failure=Cancelled("stop")), later)
    assert later.ran == []
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        Maintainer(Control(None, None, None), lambda: NOW, cancel=token, steps=(later,)).run(asked())  # type: ignore[arg-type]


def test_a_crash_of_a_step_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome(FakeStep("data", failure=KeyboardInterrupt()))


# Real tables


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Six small files in six commits, of which the first four are older than five days."""
    return age(make_table(warehouse), [10, 9, 8, 7, 2, 1])


def maintainer(control: Control) -> Maintainer:
    return Maintainer(control, control.now_ms)


def plan_of(control: Control, table: Table, **policy: PolicyScalar) -> MaintenancePlan:
    return maintainer(control).plan(asked(**policy), table.refresh())


def apply(control: Control, plan: MaintenancePlan, table: Table) -> MaintenanceResult:
    saved = maintenance_plan_from_json(maintenance_plan_to_json(plan))
    request = replace(asked(), policy=saved.policy)
    return maintainer(control).apply(saved, request, table.refresh())


def size_on_disk(warehouse: Warehouse, table: Table) -> int:
    return sum(Path(path).stat().st_size for path in warehouse.files_on_disk(table))


def snapshot_ids(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots]


def test_the_plan_has_a_verdict_a_price_and_savings_for_every_step(control: Control, table: Table) -> None:
    before = snapshot_ids(table)
    plan = plan_of(control, table)
    assert [step.step for step in plan.steps] == [step.name for step in STEPS]
    by_name = {step.step: step for step in plan.steps}
    data, expire = by_name["data"], by_name["expire"]
    assert (data.verdict, data.numbers["files"], data.numbers["outputs"]) == ("run", 6, 1)
    assert min(data.dollars, data.dollars_saved_per_month, expire.dollars) > 0
    assert (expire.verdict, expire.numbers["snapshots"]) == ("run", 4)
    assert expire.bounds is not None
    assert list(expire.bounds.snapshot_ids) == before[:4]
    assert (plan.snapshot_id, snapshot_ids(table)) == (before[-1], before)  # nothing has changed
    assert plan.dollars == pytest.approx(sum(step.dollars for step in plan.steps))
    assert (by_name["manifests"].verdict, by_name["orphans"].verdict) == ("wait", "skip")
    assert "data will change the manifests" in by_name["manifests"].reason


def test_maintain_makes_a_table_smaller_and_the_second_run_does_nothing(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    rows = warehouse.rows(table)
    age(table, [10, 9, 8, 7, 6.5, 6])
    before = size_on_disk(warehouse, table)
    result = maintainer(control).run(asked())
    assert {step.step: step.status for step in result.steps}["data"] == "done"
    assert {step.step: step.status for step in result.steps}["expire"] == "done"
    assert (warehouse.rows(table), len(paths(warehouse, table)), len(snapshot_ids(table))) == (rows, 1, 1)
    assert size_on_disk(warehouse, table) < before
    again = maintainer(control).run(asked())
    assert (again.outcome, set(statuses(again)) - {"skipped"}) == ("nothing", {"nothing"})


def test_deletes_are_merged_where_no_compaction_applies_them(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    for path in paths(warehouse, table)[:2]:
        delete_positions(table, path, [1])
        delete_positions(table, path, [2])
    rows = warehouse.rows(table)
    by_name = {step.step: step for step in plan_of(control, table).steps}
    assert (by_name["deletes"].verdict, by_name["data"].verdict) == ("skip", "run")
    assert "data rewrites the 2 files that have deletes" in by_name["deletes"].reason
    planned = plan_of(control, table, data__enabled=False)
    assert planned.steps[0].verdict == "run"
    result = apply(control, planned, table)
    assert (result.steps[0].status, len(delete_files(warehouse, table))) == ("done", 2)
    assert (len(paths(warehouse, table)), warehouse.rows(table)) == (6, rows)


def test_manifests_are_rewritten_after_data(warehouse: Warehouse, control: Control) -> None:
    table = warehouse.create_table("db.events", SCHEMA)
    append(warehouse, table, list(range(12)), "eu")
    rows = warehouse.rows(table)
    result = maintainer(control).run(asked(data__enabled=False, expire__enabled=False))
    manifests = next(step for step in result.steps if step.step == "manifests")
    assert (manifests.status, manifests.numbers) == ("done", {"replaced": 12, "created": 1})
    assert warehouse.rows(table) == rows


@pytest.fixture
def orphan(table: Table) -> Path:
    path = Path(local_path(table.location())) / "data" / "stray.parquet"
    path.write_bytes(b"stray")
    written = (wall_clock_ms() - 10 * DAY_MS) / 1000
    os.utime(path, (written, written))
    return path


def orphans_step(result: MaintenanceResult) -> StepResult:
    return next(step for step in result.steps if step.step == "orphans")


def test_orphans_are_only_reported_by_default(control: Control, orphan: Path) -> None:
    for _ in range(2):
        step = orphans_step(maintainer(control).run(asked()))
        assert (step.planned.verdict, step.status, orphan.exists()) == ("skip", "nothing", True)
        assert "1 orphan (5 B) found; orphans.action is report" in step.reason
        control.now_ms = lambda: wall_clock_ms() + DAY_MS


def test_files_older_than_a_moment_of_the_policy_stay(control: Control, orphan: Path) -> None:
    """Glue's optimizer does the same with files that are older than itself."""
    only_orphans = {f"{name}__enabled": False for name in ("deletes", "data", "manifests", "expire")}
    request = asked(**only_orphans, orphans__action="delete", orphans__now=True)
    orphans = replace(request.policy.orphans, newer_than="2100-01-01")
    kept = replace(request, policy=replace(request.policy, orphans=orphans))
    assert orphans_step(maintainer(control).run(kept)).reason == "no orphans"
    assert orphan.exists()
    assert orphans_step(maintainer(control).run(request)).status == "done"
    assert not orphan.exists()


def test_orphans_go_when_two_runs_have_seen_them(control: Control, orphan: Path) -> None:
    only_orphans = {f"{name}__enabled": False for name in ("deletes", "data", "manifests", "expire")}
    request = asked(**only_orphans, orphans__action="delete")
    first = maintainer(control).run(request)
    assert (orphans_step(first).planned.verdict, orphans_step(first).status) == ("wait", "skipped")
    assert (first.outcome, orphan.exists()) == ("nothing", True)
    control.now_ms = lambda: wall_clock_ms() + DAY_MS
    second = maintainer(control).run(request)
    assert (orphans_step(second).status, orphan.exists()) == ("done", False)
    assert orphans_step(second).numbers == {"files": 1, "bytes_freed": 5}


def test_a_shared_location_is_refused_by_the_step_alone(
    warehouse: Warehouse, control: Control, table: Table, orphan: Path
) -> None:
    location = f"{table.location()}/inner"
    warehouse.catalog.create_table("db.inner", SCHEMA, location=location)
    result = maintainer(control).run(asked(orphans__action="delete", orphans__now=True))
    step = orphans_step(result)
    assert (step.planned.verdict, step.status, orphan.exists()) == ("refused", "skipped", True)
    assert "Another table has files in the location" in step.reason
    assert result.outcome == "done"


def test_a_compaction_of_the_policy_expires_nothing_by_itself(control: Control, table: Table) -> None:
    request = asked(expire__enabled=False)
    request = replace(request, compaction=replace(request.compaction, expire_snapshots=True))
    before = snapshot_ids(table)
    assert maintainer(control).run(request).outcome == "done"
    assert set(before) <= set(snapshot_ids(table))


def test_a_table_that_forbids_expiry_is_compacted_all_the_same(control: Control, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    result = {step.step: step for step in maintainer(control).run(asked()).steps}
    assert result["data"].status == "done"
    for name in ("expire", "orphans"):
        assert (result[name].planned.verdict, result[name].status) == ("refused", "skipped")
        assert "gc.enabled" in result[name].reason


def test_a_saved_plan_runs_as_it_is(warehouse: Warehouse, control: Control, table: Table) -> None:
    rows = warehouse.rows(table)
    plan = plan_of(control, table)
    result = apply(control, plan, table)
    assert {step.step: step.status for step in result.steps if step.planned.verdict == "run"} == {
        "data": "done",
        "expire": "done",
    }
    assert (result.plan_hash, warehouse.rows(table)) == (plan.hash, rows)
    assert len(snapshot_ids(table)) == 3  # the two young ones, and the compaction


def test_commits_after_the_plan_are_not_touched(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = plan_of(control, table)
    append(warehouse, table, [6, 7, 8], "us")
    rows, later = warehouse.rows(table), paths(warehouse, table)[-3:]
    control.now_ms = lambda: plan.created_ms + 100 * DAY_MS  # by now, all snapshots are old enough
    result = apply(control, plan, table)
    assert result.outcome == "done"
    assert set(later) < set(paths(warehouse, table))
    assert len(paths(warehouse, table)) == 4
    planned = next(step.bounds for step in plan.steps if step.bounds is not None)
    assert len(snapshot_ids(table)) == 6 + 3 + 1 - len(planned.snapshot_ids)
    assert warehouse.rows(table) == rows


def test_a_tag_set_after_the_plan_keeps_its_snapshot(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = plan_of(control, table, data__enabled=False, manifests__enabled=False)
    tagged = snapshot_ids(table)[1]
    rows = warehouse.rows(table, snapshot_id=tagged)
    set_ref(table, "audit", tagged)
    apply(control, plan, table)
    assert warehouse.rows(table, snapshot_id=tagged) == rows
    assert len(snapshot_ids(table)) == 3


def test_steps_that_the_plan_skips_do_not_run(control: Control, table: Table) -> None:
    plan = plan_of(control, table, data__enabled=False, manifests__enabled=False, expire__older_than="100d")
    assert plan.is_empty
    age(table, [200, 190, 180, 170, 160, 150])
    result = apply(control, plan, table)
    assert (result.outcome, len(snapshot_ids(table))) == ("nothing", 6)


def test_a_plan_for_a_dropped_table_is_refused(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = plan_of(control, table)
    warehouse.catalog.drop_table("db.events")
    again = make_table(warehouse)
    with pytest.raises(BadPlan, match="created again"):
        apply(control, plan, again)


def test_a_document_reads_back_as_it_was_and_shows_edits(warehouse: Warehouse, control: Control, table: Table) -> None:
    plan = plan_of(control, table)
    text = maintenance_plan_to_json(plan)
    assert is_maintenance_plan(text)
    assert maintenance_plan_from_json(text) == plan
    assert maintenance_plan_hash(replace(plan, created_ms=0)) == plan.hash
    edits: Sequence[tuple[str, str]] = (
        ('"verdict":"run"', '"verdict":"skip"'),
        ('"retain_last":null', '"retain_last":1'),
        (Path(paths(warehouse, table)[0]).name, "elsewhere"),
        ('"format":1', '"format":2'),
        ('"steps":', '"stairs":'),
        ("}", ""),
    )
    tight = text.replace("\n", "").replace('": ', '":')
    for before, after in edits:
        assert before
        assert before in tight
        with pytest.raises(BadPlan):
            maintenance_plan_from_json(tight.replace(before, after, 1))


def test_a_step_that_fails_in_the_middle_leaves_a_table_that_the_next_run_finishes(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    rows = warehouse.rows(table)
    age(table, [10, 9, 8, 7, 6.5, 6])

    def broken(*_: Any, **__: Any) -> Any:
        raise StorageError("no deletes today")

    with patch("tidyberg.control.expiry_work.delete_files", broken):
        result = {step.step: step for step in maintainer(control).run(asked()).steps}
    assert (result["data"].status, result["expire"].status) == ("done", "failed")
    assert warehouse.rows(table) == rows
    again = maintainer(control).run(asked())
    assert again.failure is None
    assert warehouse.rows(table) == rows
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)


def test_a_compaction_whose_rows_differ_leaves_older_snapshots_alone(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    before, rows = snapshot_ids(table), warehouse.rows(table)

    def differs(*_: Any, **__: Any) -> Any:
        raise VerificationFailed("rows differ")

    with patch("tidyberg.control.round.verify_group", differs):
        result = maintainer(control).run(asked())
    by_name = {step.step: step.status for step in result.steps}
    assert (by_name["data"], by_name["expire"]) == ("failed", "stopped")
    assert (snapshot_ids(table), warehouse.rows(table)) == (before, rows)
