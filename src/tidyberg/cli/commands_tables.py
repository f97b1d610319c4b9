"""Commands that only look: tables, health, plan, explain, audit, bench. What they do is imported when they run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes


class Opponent(StrEnum):
    JAVA = "java"


TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table", show_default=False)]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan written by `plan --out`.")]
ShowAll = Annotated[bool, typer.Option("--all", help="Show every partition.")]
DetailedExitCode = Annotated[bool, typer.Option("--detailed-exitcode", help="End with 3 when there is nothing to do.")]


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
    namespace: Annotated[str | None, typer.Argument(help="Only of this namespace.", show_default=False)] = None,
) -> None:
    """List tables with their files, sizes and last commit."""
    from tidyberg.cli import looking

    looking.list_tables(common, namespace)


@takes(CommonFlags, OptionFlags)
def health(table: TableName, common: CommonFlags, option: OptionFlags, show_all: ShowAll = False) -> None:
    """Score a table from 0 to 100, with the reasons."""
    from tidyberg.cli import looking

    looking.report_health(common, table, option, show_all=show_all)


@takes(CommonFlags, OptionFlags, EngineFlags)
def plan(
    table: TableName,
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan here, for `apply`.")] = None,
    show_all: ShowAll = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Say what a compaction would do, why, and for how much. Changes nothing."""
    from tidyberg.cli import looking

    nothing = looking.plan(common, engine, table, option, out=out, show_all=show_all)
    end(nothing, detailed_exitcode)


@takes(CommonFlags)
def explain(plan_file: PlanFile, common: CommonFlags) -> None:
    """Print a plan file: every verdict, and the very groups that `apply` would run."""
    from tidyberg.cli import looking

    looking.explain(common, plan_file)


@takes(CommonFlags, EngineFlags, without=("verify",))
def audit(
    table: TableName,
    common: CommonFlags,
    engine: EngineFlags,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", help="Only this one; all in the branch's history by default.")
    ] = None,
    branch: Annotated[str, typer.Option("--branch", help="Whose history.")] = "main",
) -> None:
    """Check that replace snapshots, whoever made them, lost, changed and brought back no row. Changes nothing."""
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
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", help="How much of what a plan would rewrite is copied.")
    ] = "1GB",
    scratch: Annotated[
        str | None,
        typer.Option("--scratch", help="Where the copy goes: a directory, or an address in the table's own store."),
    ] = None,
    against: Annotated[
        Opponent | None, typer.Option("--against", help="Also by Iceberg's Java action; its runtime must be in Spark.")
    ] = None,
) -> None:
    """Measure compaction on a copy of a table, in each mode. The table itself is only read."""
    from tidyberg.cli import bench as benching
    from tidyberg.cli.session import Session

    benching.bench(Session(common, engine), table, option, max_bytes, scratch, against is not None)


def end(nothing: bool, detailed_exitcode: bool) -> None:
    """Nothing to do is a success, and told apart from one only when asked."""
    if nothing and detailed_exitcode:
        raise typer.Exit(3)
