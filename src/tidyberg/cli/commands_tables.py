"""Commands that only look: tables, health, plan, explain."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import health_json, table_json
from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes
from tidyberg.cli.plan_files import read_plan, write_plan
from tidyberg.cli.session import Session, engine_label, now_ms
from tidyberg.cli.show_health import show_health, show_tables
from tidyberg.cli.show_plan import show_groups, show_plan
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options

NOTHING_TO_DO = 3

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table", show_default=False)]
ShowAll = Annotated[bool, typer.Option("--all", help="Show every partition.")]
DetailedExitCode = Annotated[bool, typer.Option("--detailed-exitcode", help="End with 3 when there is nothing to do.")]


def register(app: typer.Typer) -> None:
    app.command()(tables)
    app.command()(health)
    app.command()(plan)
    app.command()(explain)


@takes(CommonFlags)
def tables(
    common: CommonFlags,
    namespace: Annotated[str | None, typer.Argument(help="Only of this namespace.", show_default=False)] = None,
) -> None:
    """List tables with their files, sizes and last commit."""
    from tidyberg.app import build_control

    session = Session(common)
    with build_control(session.settings) as control:
        found = control.tables(common.catalog, namespace)
    session.show(show_tables(found, now_ms=now_ms()), {"tables": [table_json(summary) for summary in found]})


@takes(CommonFlags, OptionFlags)
def health(table: TableName, common: CommonFlags, option: OptionFlags, show_all: ShowAll = False) -> None:
    """Score a table from 0 to 100, with the reasons."""
    from tidyberg.app import build_control

    session = Session(common)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table)
        report = control.health(ref, plan_options(session.settings, ref, option.overrides()))
    next_command = session.command("plan", str(ref))
    session.show(
        show_health(report, now_ms=now_ms(), next_command=next_command, show_all=show_all), health_json(report)
    )


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
    import json

    from tidyberg.app import build_control
    from tidyberg.plan.document import plan_to_json

    session = Session(common, engine)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table)
        made = control.plan(ref, plan_options(session.settings, ref, option.overrides()))
    if out is not None:
        write_plan(made, out)
    next_command = session.command("apply", str(out)) if out else session.command("compact", str(ref))
    shown = show_plan(
        made,
        now_ms=now_ms(),
        engine=engine_label(session.settings),
        next_command=next_command,
        show_all=show_all,
    )
    session.show(shown, json.loads(plan_to_json(made)))
    if detailed_exitcode and made.is_empty:
        raise typer.Exit(NOTHING_TO_DO)


@takes(CommonFlags)
def explain(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan written by `plan --out`.")],
    common: CommonFlags,
) -> None:
    """Print a plan file: every verdict, and the very groups that `apply` would run."""
    import json

    from tidyberg.plan.document import plan_to_json

    session = Session(common)
    read = read_plan(plan_file)
    shown = show_plan(
        read,
        now_ms=now_ms(),
        engine=engine_label(session.settings),
        next_command=session.command("apply", str(plan_file)),
        show_all=True,
    )
    session.show(Group(shown, Text(), show_groups(read)) if read.groups else shown, json.loads(plan_to_json(read)))
