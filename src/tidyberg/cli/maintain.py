"""Implements maintain, and apply and explain for its plans."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group
from rich.text import Text

from tidyberg.app import build_control, maintainer_of
from tidyberg.catalog.open import load_table
from tidyberg.cli.command_line import command_line
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import dollars, size
from tidyberg.cli.plan_files import write_plan_text
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_maintenance import (
    maintenance_json,
    maintenance_plan_json,
    policy_json,
    show_maintenance_plan,
    show_maintenance_result,
    show_policy,
)
from tidyberg.cli.table_batch import NOTHING, TableBatch, TableOutcome
from tidyberg.cli.table_names import NamedTables
from tidyberg.control.control import Control
from tidyberg.control.maintenance.request import maintenance_request, request_of_plan
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.maintenance import MaintenancePlan, MaintenanceResult
from tidyberg.model.table import TableRef
from tidyberg.planning.maintenance_document import maintenance_plan_to_json
from tidyberg.settings.catalogs import named_catalog, resolve_table
from tidyberg.settings.maintenance import flag_layers


@dataclass(frozen=True)
class MaintainCommand:
    session: Session
    flags: Mapping[str, str]  # values of the policy, by key
    plan_out: Path | None = None

    def maintain(self, named: NamedTables, *, dry_run: bool, fail_fast: bool) -> int:
        """Returns the exit code."""
        dry_run = dry_run or self.plan_out is not None
        if (table := named.single) is not None:
            return self._plan_one(table) if dry_run else self._maintain_one(table)
        if self.plan_out is not None:
            raise BadInput("--plan-out needs exactly one table.", hint="Plan each table separately, or use --json.")
        batch = TableBatch(self.session, named, OptionFlags(), fail_fast=fail_fast)
        return self._plan_all(batch) if dry_run else self._maintain_all(batch)

    def policy(self, table: str) -> int:
        with build_control(self.session.settings) as control:
            ref = self._resolve(control, table)
            made = maintenance_request(
                self.session.settings, ref, load_table(control.catalog(ref.catalog), ref), flag_layers(self.flags)
            )
        shown = Group(Text(str(ref), style="bold"), Text(), show_policy(made.policy))
        notes = list(made.policy.notes)
        self.session.show(shown, {"table": str(ref), "policy": policy_json(made.policy), "policy_notes": notes})
        return 0

    def apply(self, plan: MaintenancePlan, plan_file: Path, *, dry_run: bool) -> int:
        session = self.session
        if session.common.catalog:
            plan = in_catalog(plan, named_catalog(session.settings, session.common.catalog))
        if dry_run:
            self.present(plan, command_line(session, "apply", str(plan_file)))
            return NOTHING if plan.is_empty else 0

        def work(cancel: CancelToken) -> MaintenanceResult:
            with (
                build_control(session.settings) as control,
                watching(standard_error(), quiet=session.common.json) as on_event,
            ):
                table = load_table(control.catalog(plan.table.catalog), plan.table)
                request = request_of_plan(session.settings, plan)
                return maintainer_of(control, on_event, cancel).apply(plan, request, table)

        return self._end(run_cancellable(work, standard_error()))

    def present(self, plan: MaintenancePlan, next_command: str | None) -> None:
        self.session.show(show_maintenance_plan(plan, next_command), maintenance_plan_json(plan))

    def _resolve(self, control: Control, table: str) -> TableRef:
        return resolve_table(self.session.settings, control.catalog(self.session.common.catalog), table)

    def _plan_one(self, table: str) -> int:
        def work(cancel: CancelToken) -> MaintenancePlan:
            with build_control(self.session.settings) as control:
                return self._plan(control, self._resolve(control, table), cancel)

        plan = run_cancellable(work, standard_error())
        next_command = command_line(self.session, "maintain", str(plan.table), *_words(self.flags))
        if self.plan_out is not None:
            write_plan_text(maintenance_plan_to_json(plan), self.plan_out)
            next_command = command_line(self.session, "apply", str(self.plan_out))
        self.present(plan, next_command)
        return NOTHING if plan.is_empty else 0

    def _plan(self, control: Control, ref: TableRef, cancel: CancelToken) -> MaintenancePlan:
        table = load_table(control.catalog(ref.catalog), ref)
        request = maintenance_request(self.session.settings, ref, table, flag_layers(self.flags))
        with watching(standard_error(), quiet=self.session.common.json) as on_event:
            return maintainer_of(control, on_event, cancel).plan(request, table)

    def _maintain_one(self, table: str) -> int:
        def work(cancel: CancelToken) -> MaintenanceResult:
            with build_control(self.session.settings) as control:
                return self._run(control, self._resolve(control, table), cancel)

        return self._end(run_cancellable(work, standard_error()))

    def _run(self, control: Control, ref: TableRef, cancel: CancelToken) -> MaintenanceResult:
        table = load_table(control.catalog(ref.catalog), ref)
        request = maintenance_request(self.session.settings, ref, table, flag_layers(self.flags))
        with watching(standard_error(), quiet=self.session.common.json) as on_event:
            return maintainer_of(control, on_event, cancel).run(request)

    def _end(self, result: MaintenanceResult) -> int:
        self.session.show(show_maintenance_result(result), maintenance_json(result))
        if result.failure is not None:
            return result.failure.exit_code
        return NOTHING if result.outcome == "nothing" else 0

    def _plan_all(self, batch: TableBatch) -> int:
        def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
            plan = self._plan(control, ref, cancel)
            batch.show(show_maintenance_plan(plan, None))
            steps = ", ".join(step.step for step in plan.steps if step.verdict == "run")
            cells = (steps or "nothing", dollars(plan.dollars), dollars(max(0.0, plan.dollars_saved_per_month)))
            left = "tidy" if plan.is_empty else ""
            return TableOutcome(str(ref), maintenance_plan_json(plan), cells, left=left)

        return batch.run(("steps", "price", "saves a month"), one)

    def _maintain_all(self, batch: TableBatch) -> int:
        def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
            result = self._run(control, ref, cancel)
            batch.show(show_maintenance_result(result))
            return _outcome(result)

        return batch.run(("outcome", "steps", "freed"), one)


def in_catalog(plan: MaintenancePlan, catalog: str) -> MaintenancePlan:
    """Returns the plan for a catalog that has another name here."""
    table = dataclasses.replace(plan.table, catalog=catalog)
    steps = tuple(
        dataclasses.replace(step, compaction=dataclasses.replace(step.compaction, table=table))
        if step.compaction is not None
        else step
        for step in plan.steps
    )
    return dataclasses.replace(plan, table=table, steps=steps)


def _words(flags: Mapping[str, str]) -> list[str]:
    return [word for key, value in flags.items() for word in ("--set", f"{key}={value}")]


def _outcome(result: MaintenanceResult) -> TableOutcome:
    failure = result.failure
    done = ", ".join(step.step for step in result.steps if step.status == "done")
    freed = sum(step.numbers.get("bytes_freed", 0) for step in result.steps)
    return TableOutcome(
        str(result.table),
        maintenance_json(result),
        (result.outcome, done or "–", size(freed) if freed else "–"),
        failure.exit_code if failure is not None else 0,
        reason=failure.message if failure is not None else "",
        left="tidy" if result.outcome == "nothing" else "",
    )
