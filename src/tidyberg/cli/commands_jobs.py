"""Commands that run or show jobs: compact, apply, history, recover. They import their code when they run."""

from typing import Annotated

import typer

from tidyberg.cli.commands_tables import (
    AllTables,
    DetailedExitCode,
    FailFast,
    PlanFile,
    ShowAll,
    TableNames,
    TablesFrom,
    end,
    end_as,
    named_tables,
    shows_all,
)
from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes
from tidyberg.errors import BadInput

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only plan, change nothing.")]
OneTable = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only jobs of this table.")]


def register(app: typer.Typer) -> None:
    app.command()(compact)
    app.command()(apply)
    app.command()(history)
    app.command()(recover)


@takes(CommonFlags, OptionFlags, EngineFlags)
def compact(
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    show_all: ShowAll = False,
    all_tables: AllTables = False,
    from_file: TablesFrom = None,
    fail_fast: FailFast = False,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Plan, rewrite, verify and commit. Several tables run one after the other in one Spark session."""
    from tidyberg.cli.session import Session, launch_spark

    if tables and show_all and not (all_tables or dry_run or common.json):
        note = "--all shows every partition of the named tables; --all-tables compacts every table."
        typer.echo(f"note: {note}", err=True)
    session = Session(common, engine)
    if not dry_run:
        launch_spark(session.settings)
    from tidyberg.cli import jobs
    from tidyberg.cli.table_batch import TableBatch

    named = named_tables(tables, show_all, all_tables, from_file)
    if (table := named.single) is None:
        batch = TableBatch(session, named, option, fail_fast=fail_fast, show_all=shows_all(tables, show_all))
        end_as(batch.plan() if dry_run else batch.compact(), detailed_exitcode=detailed_exitcode)
        return
    nothing = jobs.compact(session, table, option, dry_run=dry_run, show_all=show_all)
    end(nothing, detailed_exitcode)


@takes(CommonFlags, EngineFlags)
def apply(
    plan_file: PlanFile,
    common: CommonFlags,
    engine: EngineFlags,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Run a plan file. Groups that are out of date are skipped and reported."""
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
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs.")] = 20,
) -> None:
    """Show the latest jobs and their results."""
    from tidyberg.cli import jobs

    jobs.history(common, table, limit)


@takes(CommonFlags)
def recover(
    common: CommonFlags,
    table: OneTable = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="List output files of TABLE that belong to no snapshot and no job.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="With --scan: remove files that are old enough.")] = False,
    min_age_hours: Annotated[
        float, typer.Option("--min-age-hours", min=24, help="With --remove: minimum age of the files.")
    ] = 24.0,
) -> None:
    """Recover jobs that died: find out how they ended and remove their leftover files."""
    from tidyberg.cli import jobs

    if not scan:
        if remove:
            raise BadInput("--remove needs --scan.", hint="tidyberg recover --scan TABLE --remove")
        jobs.recover(common, table)
    elif table is None:
        raise BadInput("--scan needs a table.", hint="tidyberg recover --scan TABLE")
    else:
        jobs.scan(common, table, remove=remove, min_age_hours=min_age_hours)
