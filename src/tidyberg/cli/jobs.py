"""Implements compact, apply, history and recover."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Group
from rich.text import Text

from tidyberg.app import build_control
from tidyberg.cli.as_json import job_json, result_json
from tidyberg.cli.command_line import command_line
from tidyberg.cli.flags import CommonFlags, OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.plan_files import read_plan
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_jobs import show_jobs
from tidyberg.cli.show_result import show_result
from tidyberg.cli.show_scan import scan_json, show_scan
from tidyberg.cli.table_batch import NOTHING
from tidyberg.cli.tables import make_plan, present_plan, taking
from tidyberg.control.control import Control
from tidyberg.control.scan import Scan
from tidyberg.execute.engine import CancelToken
from tidyberg.model.maintenance import MaintenancePlan
from tidyberg.model.report import CompactionResult, EventSink, StageStarted
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import named_catalog, resolve_table
from tidyberg.settings.options import plan_options

_NOTHING_TO_RECOVER = (
    "nothing to recover: the job store has no job that died\n"
    "If the store was lost or emptied, `tidyberg recover --scan TABLE` lists files that dead jobs may have left."
)
Work = Callable[[Control, EventSink, CancelToken], CompactionResult]


def compact(
    session: Session, table: str, option: OptionFlags, *, dry_run: bool = False, show_all: bool = False
) -> bool:
    """Compacts a table. Returns True if there was nothing to do."""
    if dry_run:
        made = make_plan(session, table, option)
        next_command = command_line(session, "compact", str(made.table), option=option)
        present_plan(session, made, next_command, take_now=taking(session, made.table, option), show_all=show_all)
        return made.is_empty
    settings = session.settings

    def work(control: Control, on_event: EventSink, cancel: CancelToken) -> CompactionResult:
        ref = resolve_table(settings, control.catalog(session.common.catalog), table)
        options = plan_options(settings, ref, option.overrides())
        return control.compact(ref, options, verify=settings.verify, on_event=on_event, cancel=cancel)

    return _run(session, work, option)


def apply(session: Session, plan_file: Path, *, dry_run: bool) -> bool:
    """Runs a plan file. Returns True if there was nothing to do."""
    plan = read_plan(plan_file)
    if isinstance(plan, MaintenancePlan):
        return _apply_maintenance(session, plan, plan_file, dry_run=dry_run)
    if session.common.catalog:
        catalog = named_catalog(session.settings, session.common.catalog)
        plan = dataclasses.replace(plan, table=dataclasses.replace(plan.table, catalog=catalog))
    if dry_run:
        present_plan(session, plan, command_line(session, "apply", str(plan_file)))
        return plan.is_empty

    def work(control: Control, on_event: EventSink, cancel: CancelToken) -> CompactionResult:
        return control.apply(plan, verify=session.settings.verify, on_event=on_event, cancel=cancel)

    return _run(session, work)


def _apply_maintenance(session: Session, plan: MaintenancePlan, plan_file: Path, *, dry_run: bool) -> bool:
    from tidyberg.cli.maintain import MaintainCommand

    status = MaintainCommand(session, {}).apply(plan, plan_file, dry_run=dry_run)
    if status not in (0, NOTHING):
        raise typer.Exit(status)
    return status == NOTHING


def history(common: CommonFlags, table: str | None, limit: int) -> None:
    session = Session(common)
    with build_control(session.settings) as control:
        jobs = control.history(_table(session, control, table), limit)
    shown = show_jobs(jobs, timezone=session.settings.timezone)
    session.show(shown, {"jobs": [job_json(job) for job in jobs]})


def recover(common: CommonFlags, table: str | None) -> None:
    session = Session(common)
    console = standard_error()

    def work(cancel: CancelToken) -> list[str]:
        with build_control(session.settings) as control, watching(console, quiet=session.common.json) as show:
            progress = _only_stages(show)  # the results are shown at the end
            return control.recover(_table(session, control, table), progress, cancel)

    done = run_cancellable(work, console)
    shown = Group(*(Text(words) for words in done)) if done else Text(_NOTHING_TO_RECOVER)
    session.show(shown, {"recovered": done})


def scan(common: CommonFlags, table: str, *, remove: bool, min_age_hours: float) -> None:
    session = Session(common)

    def work(cancel: CancelToken) -> Scan:
        with build_control(session.settings) as control:
            ref = resolve_table(session.settings, control.catalog(common.catalog), table)
            return control.scan(ref, remove_after_hours=min_age_hours if remove else None, cancel=cancel)

    found = run_cancellable(work, standard_error())
    session.show(show_scan(found, table), scan_json(found))


def _only_stages(show: EventSink) -> EventSink:
    return lambda event: show(event) if isinstance(event, StageStarted) else None


def _table(session: Session, control: Control, table: str | None) -> TableRef | None:
    if table is None:
        return None
    if "." in table:
        # The full name needs no catalog, so the history also works while the catalog is down.
        return TableRef.parse(table, named_catalog(session.settings, session.common.catalog))
    return resolve_table(session.settings, control.catalog(session.common.catalog), table)


def _run(session: Session, work: Work, option: OptionFlags | None = None) -> bool:
    """Runs a job with progress on standard error and shows the result. Returns True if it committed nothing."""
    settings, console = session.settings, standard_error()

    def in_control(cancel: CancelToken) -> CompactionResult:
        with build_control(settings) as control, watching(console, quiet=session.common.json) as on_event:
            control.expect_work()
            return work(control, on_event, cancel)

    result = run_cancellable(in_control, console)
    take_now = taking(session, result.job.table, option)
    session.show(show_result(result, take_now), result_json(result, take_now))
    if result.failure is not None:
        raise typer.Exit(result.failure.exit_code)
    return not result.has_committed and not result.stats.snapshots_expired
