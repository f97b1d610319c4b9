"""The commands about all maintenance of tables: maintain and policies. They import their code when they run."""

from pathlib import Path
from typing import Annotated

import typer

from tidyberg.cli.commands_tables import AllTables, DetailedExitCode, FailFast, TableNames, end_as
from tidyberg.cli.flags import CommonFlags, EngineFlags, pairs, takes
from tidyberg.errors import BadInput


def register(app: typer.Typer) -> None:
    app.command()(maintain)
    app.command()(policies)


@takes(CommonFlags, EngineFlags)
def maintain(
    common: CommonFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    policy_values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Overrides the policy, e.g. expire.older-than=7d; repeatable."),
    ] = None,
    policy: Annotated[bool, typer.Option("--policy", help="Only show the policy of TABLE and its origins.")] = False,
    plan_out: Annotated[
        Path | None, typer.Option("--plan-out", help="Only plan, and write the plan to this file, for `apply`.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only plan, change nothing.")] = False,
    all_tables: Annotated[bool, typer.Option("--all-tables", "--all", help="Use every table of the catalog.")] = False,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Do all that a table needs, in order: deletes, data, manifests, expire, orphans."""
    from tidyberg.cli.maintain import MaintainCommand
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_names import NamedTables

    command = MaintainCommand(Session(common, engine), pairs("--set", policy_values), plan_out)
    named = NamedTables(tuple(tables or ()), every=all_tables)
    if policy:
        if (table := named.single) is None:
            raise BadInput("--policy needs exactly one table.")
        command.policy(table)
        return
    end_as(command.maintain(named, dry_run=dry_run, fail_fast=fail_fast), detailed_exitcode=detailed_exitcode)


@takes(CommonFlags)
def policies(
    common: CommonFlags,
    tables: TableNames = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if something differs.")] = False,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
) -> None:
    """Show the policies that the catalog stores for a table (Apache Polaris), and what differs from them here."""
    from tidyberg.cli.policies import PoliciesCommand
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_names import NamedTables

    named = NamedTables(tuple(tables or ()), every=all_tables)
    status = PoliciesCommand(Session(common), check).show(named, fail_fast=fail_fast)
    if status:
        raise typer.Exit(status)
