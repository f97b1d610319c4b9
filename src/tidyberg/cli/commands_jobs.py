"""Commands that run jobs, or tell of them: compact, apply, history, recover. Imported when they run."""

from typing import Annotated

import typer

from tidyberg.cli.commands_tables import DetailedExitCode, PlanFile, TableName, end
from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only plan; change nothing.")]
OneTable = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only of this table.")]


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
    from tidyberg.cli.session import Session, launch_spark

    session = Session(common, engine)
    if not dry_run:
        launch_spark(session.settings)
    from tidyberg.cli import jobs

    nothing = jobs.compact(session, table, option, dry_run=dry_run)
    end(nothing, detailed_exitcode)


@takes(CommonFlags, EngineFlags)
def apply(
    plan_file: PlanFile,
    common: CommonFlags,
    engine: EngineFlags,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Run that very plan; groups that went stale are left out and named."""
    from tidyberg.cli.session import Session, launch_spark

    session = Session(common, engine)
    if not dry_run:
        launch_spark(session.settings)
    from tidyberg.cli import jobs

    nothing = jobs.apply(session, plan_file, dry_run=dry_run)
    end(nothing, detailed_exitcode)


@takes(CommonFlags)
def history(
    common: CommonFlags,
    table: OneTable = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many jobs.")] = 20,
) -> None:
    """Show the latest jobs: when, why, and what came of them."""
    from tidyberg.cli import jobs

    jobs.history(common, table, limit)


@takes(CommonFlags)
def recover(common: CommonFlags, table: OneTable = None) -> None:
    """Settle jobs that died: find out what became of them and remove what they left."""
    from tidyberg.cli import jobs

    jobs.recover(common, table)
