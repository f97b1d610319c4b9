"""Read-only commands: tables, health, plan, explain, audit, bench. They import their code when they run."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes
from tidyberg.errors import BadInput

if TYPE_CHECKING:
    from tidyberg.cli.table_names import NamedTables


class Opponent(StrEnum):
    JAVA = "java"


TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table", show_default=False)]
TableNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLE...", help="namespace.table, or patterns such as 'sales.*'", show_default=False),
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan of `plan --out` or `maintain --plan-out`.")]
ShowAll = Annotated[bool, typer.Option("--all", help="Show every partition; without TABLE: use every table.")]
AllTables = Annotated[bool, typer.Option("--all-tables", help="Use every table of the catalog.")]
TablesFrom = Annotated[
    Path | None,
    typer.Option("--tables-from", help="File with one table per line, or dbt's run_results.json.", show_default=False),
]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first table that fails.")]
DetailedExitCode = Annotated[bool, typer.Option("--detailed-exitcode", help="Exit with 3 if there is nothing to do.")]


def register(app: typer.Typer) -> None:
    app.command()(tables)
    app.command()(health)
    app.command()(plan)
    app.command()(explain)
    app.command()(audit)
    app.command()(bench)


@takes(CommonFlags)
def tables(
    common: CommonFlags,
    namespace: Annotated[str | None, typer.Argument(help="Only tables of this namespace.", show_default=False)] = None,
) -> None:
    """List tables with their files, sizes and last commit."""
    from tidyberg.cli import tables as table_commands

    table_commands.list_tables(common, namespace)


@takes(CommonFlags, OptionFlags)
def health(
    common: CommonFlags,
    option: OptionFlags,
    tables: TableNames = None,
    show_all: ShowAll = False,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
) -> None:
    """Score the health of tables from 0 to 100, with reasons."""
    from tidyberg.cli import tables as table_commands
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_batch import TableBatch

    named = named_tables(tables, show_all, all_tables)
    if (table := named.single) is not None:
        table_commands.report_health(common, table, option, show_all=show_all)
        return
    batch = TableBatch(Session(common), named, option, fail_fast=fail_fast, show_all=shows_all(tables, show_all))
    end_as(batch.health(), detailed_exitcode=False)


@takes(CommonFlags, OptionFlags, EngineFlags)
def plan(
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan to this file, for `apply`.")] = None,
    show_all: ShowAll = False,
    all_tables: AllTables = False,
    from_file: TablesFrom = None,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Show what a compaction would do, why, and what it costs. Changes nothing."""
    from tidyberg.cli import tables as table_commands
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_batch import TableBatch

    named = named_tables(tables, show_all, all_tables, from_file)
    if (table := named.single) is None:
        if out is not None:
            raise BadInput("--out needs exactly one table.", hint="Plan each table separately, or use --json.")
        session, shown = Session(common, engine), shows_all(tables, show_all)
        batch = TableBatch(session, named, option, fail_fast=fail_fast, show_all=shown)
        end_as(batch.plan(), detailed_exitcode=detailed_exitcode)
        return
    nothing = table_commands.plan(common, engine, table, option, out=out, show_all=show_all)
    end(nothing, detailed_exitcode)


@takes(CommonFlags)
def explain(plan_file: PlanFile, common: CommonFlags) -> None:
    """Print a plan file: every verdict, and the groups that `apply` would run."""
    from tidyberg.cli import tables as table_commands

    table_commands.explain(common, plan_file)


@takes(CommonFlags, EngineFlags, without=("verify",))
def audit(
    table: TableName,
    common: CommonFlags,
    engine: EngineFlags,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", help="Only this snapshot; all of the branch by default.")
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="The branch to audit.")] = "main",
) -> None:
    """Check that the replace snapshots of any tool lost, changed or restored no rows. Changes nothing."""
    from tidyberg.cli import auditing
    from tidyberg.cli.session import Session

    status = auditing.audit(Session(common, engine), table, branch, snapshot)
    if status:
        raise typer.Exit(status)


@takes(CommonFlags, OptionFlags, EngineFlags, without=("mode", "branch", "force", "wait"))
def bench(
    table: TableName,
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    max_bytes: Annotated[str, typer.Option("--max-bytes", help="Maximum number of bytes to copy.")] = "1GB",
    scratch: Annotated[
        str | None,
        typer.Option(
            "--scratch", help="Place of the copy: a directory, or an address in the object store of the table."
        ),
    ] = None,
    against: Annotated[
        Opponent | None,
        typer.Option("--against", help="Also measure Iceberg's Java action, which needs its runtime in Spark."),
    ] = None,
) -> None:
    """Measure compaction in each mode on a copy of a table. The table itself is only read."""
    from tidyberg.cli import benchmark
    from tidyberg.cli.session import Session

    benchmark.run(Session(common, engine), table, option, max_bytes, scratch, against is not None)


def named_tables(
    tables: Sequence[str] | None, show_all: bool, all_tables: bool, from_file: Path | None = None
) -> "NamedTables":
    """`--all` shows every partition of the named tables. Without names it means every table."""
    from tidyberg.cli.table_names import NamedTables
    from tidyberg.cli.tables_from import tables_from

    listed = () if from_file is None else tables_from(from_file)
    every = all_tables or (show_all and not tables and from_file is None)
    return NamedTables((*(tables or ()), *listed), every=every, listed=from_file is not None)


def shows_all(tables: Sequence[str] | None, show_all: bool) -> bool:
    return show_all and bool(tables)


def end_as(status: int, *, detailed_exitcode: bool) -> None:
    """Exits with the status of several tables. 3 (nothing to do) counts only with --detailed-exitcode."""
    if status not in (0, 3) or (status == 3 and detailed_exitcode):
        raise typer.Exit(status)


def end(nothing: bool, detailed_exitcode: bool) -> None:
    """Exits with 3 if there was nothing to do, but only with --detailed-exitcode."""
    if nothing and detailed_exitcode:
        raise typer.Exit(3)
