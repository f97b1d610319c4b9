"""What the commands about jobs do: run one in the foreground, or tell of those that ran."""

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
from tidyberg.cli.looking import make_plan, present_plan, taking
from tidyberg.cli.plan_files import read_plan
from tidyberg.cli.running import run_cancellable, watching
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_jobs import show_jobs
from tidyberg.cli.show_result import show_result
from tidyberg.control.control import Control
from tidyberg.execute.engine import CancelToken
from tidyberg.model.report import CompactionResult, EventSink
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import default_catalog_name, resolve_table
from tidyberg.settings.options import plan_options

Work = Callable[[Control, EventSink, CancelToken], CompactionResult]


def compact(session: Session, table: str, option: OptionFlags, *, dry_run: bool = False) -> bool:
    """Compact a table; true when there was nothing to do."""
    if dry_run:
        made = make_plan(session, table, option)
        next_command = command_line(session, "compact", str(made.table), option=option)
        present_plan(session, made, next_command, take_now=taking(session, made.table, option))
        return made.is_empty
    settings = session.settings

    def work(control: Control, on_event: EventSink, cancel: CancelToken) -> CompactionResult:
        ref = resolve_table(settings, control.catalog(session.common.catalog), table)
        options = plan_options(settings, ref, option.overrides())
        return control.compact(ref, options, verify=settings.verify, on_event=on_event, cancel=cancel)

    return _run(session, work, option)


def apply(session: Session, plan_file: Path, *, dry_run: bool) -> bool:
    """Run a plan file; true when there was nothing to do."""
    plan = read_plan(plan_file)
    if session.common.catalog:
        plan = dataclasses.replace(plan, table=dataclasses.replace(plan.table, catalog=session.common.catalog))
    if dry_run:
        present_plan(session, plan, command_line(session, "apply", str(plan_file)))
        return plan.is_empty

    def work(control: Control, on_event: EventSink, cancel: CancelToken) -> CompactionResult:
        return control.apply(plan, verify=session.settings.verify, on_event=on_event, cancel=cancel)

    return _run(session, work)


def history(common: CommonFlags, table: str | None, limit: int) -> None:
    session = Session(common)
    with build_control(session.settings) as control:
        jobs = control.history(_table(session, control, table), limit)
    shown = show_jobs(jobs, timezone=session.settings.timezone)
    session.show(shown, {"jobs": [job_json(job) for job in jobs]})


def recover(common: CommonFlags, table: str | None) -> None:
    session = Session(common)
    with build_control(session.settings) as control:
        done = control.recover(_table(session, control, table))
    shown = Group(*(Text(words) for words in done)) if done else Text("nothing to recover")
    session.show(shown, {"recovered": done})


def _table(session: Session, control: Control, table: str | None) -> TableRef | None:
    if table is None:
        return None
    if "." in table:
        # The name says it all: the history of a table can be told while its catalog is away.
        return TableRef.parse(table, session.common.catalog or default_catalog_name(session.settings))
    return resolve_table(session.settings, control.catalog(session.common.catalog), table)


def _run(session: Session, work: Work, option: OptionFlags | None = None) -> bool:
    """Run a job with progress on standard error, and show what came of it; true when that is nothing."""
    settings, console = session.settings, standard_error()

    def in_control(cancel: CancelToken) -> CompactionResult:
        with build_control(settings) as control, watching(console, quiet=session.common.json) as on_event:
            return work(control, on_event, cancel)

    result = run_cancellable(in_control, console)
    take_now = taking(session, result.job.table, option)
    session.show(show_result(result, take_now), result_json(result, take_now))
    if result.failure is not None:
        raise typer.Exit(result.failure.exit_code)
    return not result.has_committed
