"""Commands that run jobs, or tell of them: compact, apply, history, recover."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import job_json, result_json
from tidyberg.cli.commands_tables import NOTHING_TO_DO, DetailedExitCode, TableName
from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes
from tidyberg.cli.plan_files import read_plan
from tidyberg.cli.running import run_cancellable, watching
from tidyberg.cli.session import Session, engine_label, now_ms, standard_error
from tidyberg.cli.show_jobs import show_jobs
from tidyberg.cli.show_plan import show_plan
from tidyberg.cli.show_result import show_result
from tidyberg.execute.engine import CancelToken
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only plan; change nothing.")]


def register(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(apply)
    app.command()(history)
    app.command()(recover)


@takes(CommonFlags, OptionFlags, EngineFlags)
def compact(
    table: TableName,
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Plan, rewrite, verify and commit."""
    session = Session(common, engine)
    if dry_run:
        made = plan_table(session, table, option)
        _show_dry_run(session, made, session.command("compact", str(made.table)))
        _end(made.is_empty, detailed_exitcode)
    else:
        result = compact_table(session, table, option)
        session.show(show_result(result), result_json(result))
        _end(result.outcome == "nothing", detailed_exitcode)


@takes(CommonFlags, EngineFlags)
def apply(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan written by `plan --out`.")],
    common: CommonFlags,
    engine: EngineFlags,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Run that very plan; groups that went stale are left out and named."""
    from tidyberg.app import build_control

    session = Session(common, engine)
    read = read_plan(plan_file)
    if common.catalog:
        read = dataclasses.replace(read, table=dataclasses.replace(read.table, catalog=common.catalog))
    if dry_run:
        _show_dry_run(session, read, session.command("apply", str(plan_file)))
        _end(read.is_empty, detailed_exitcode)
        return

    def work(cancel: CancelToken) -> CompactionResult:
        with build_control(session.settings) as control, watching(console, quiet=common.json) as on_event:
            return control.apply(read, verify=session.settings.verify, on_event=on_event, cancel=cancel)

    console = standard_error()
    result = run_cancellable(work, console)
    session.show(show_result(result), result_json(result))
    _end(result.outcome == "nothing", detailed_exitcode)


@takes(CommonFlags)
def history(
    common: CommonFlags,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only of this table.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many jobs.")] = 20,
) -> None:
    """Show the latest jobs: when, why, and what came of them."""
    from tidyberg.app import build_control

    session = Session(common)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table) if table else None
        jobs = control.history(ref, limit)
    shown = show_jobs(jobs, timezone=session.settings.timezone)
    session.show(shown, {"jobs": [job_json(job) for job in jobs]})


@takes(CommonFlags)
def recover(
    common: CommonFlags,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only of this table.")] = None,
) -> None:
    """Settle jobs that died: find out what became of them and remove what they left."""
    from tidyberg.app import build_control

    session = Session(common)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table) if table else None
        done = control.recover(ref)
    shown = Group(*(Text(words) for words in done)) if done else Text("nothing to recover")
    session.show(shown, {"recovered": done})


def plan_table(session: Session, table: str, option: OptionFlags) -> Plan:
    from tidyberg.app import build_control

    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        return control.plan(ref, plan_options(session.settings, ref, option.overrides()))


def compact_table(session: Session, table: str, option: OptionFlags) -> CompactionResult:
    """Compact in the foreground, with progress on standard error."""
    from tidyberg.app import build_control

    settings, console = session.settings, standard_error()

    def work(cancel: CancelToken) -> CompactionResult:
        with (
            build_control(settings) as control,
            watching(console, quiet=session.common.json) as on_event,
        ):
            ref = resolve_table(settings, control.catalog(session.common.catalog), table)
            options = plan_options(settings, ref, option.overrides())
            return control.compact(ref, options, verify=settings.verify, on_event=on_event, cancel=cancel)

    return run_cancellable(work, console)


def _show_dry_run(session: Session, plan: Plan, next_command: str) -> None:
    from tidyberg.plan.document import plan_to_json

    shown = show_plan(plan, now_ms=now_ms(), engine=engine_label(session.settings), next_command=next_command)
    session.show(shown, json.loads(plan_to_json(plan)))


def _end(nothing: bool, detailed_exitcode: bool) -> None:
    if nothing and detailed_exitcode:
        raise typer.Exit(NOTHING_TO_DO)
