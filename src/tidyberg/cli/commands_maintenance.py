"""Commands that maintain tables beyond compaction: expire, maintain. They import their code when they run."""

from pathlib import Path
from typing import Annotated

import typer

from tidyberg.cli.commands_tables import AllTables, DetailedExitCode, FailFast, TableNames, end_as
from tidyberg.cli.flags import CommonFlags, EngineFlags, pairs, takes
from tidyberg.errors import BadInput

OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", help="Age of snapshots to expire, e.g. 5d; the table's setting, or 5 days."),
]
RetainLast = Annotated[
    int | None, typer.Option("--retain-last", min=1, help="Snapshots to keep per branch; the table's setting, or 1.")
]
Snapshots = Annotated[
    list[int] | None, typer.Option("--snapshot", metavar="ID", help="Also expire this snapshot; may be repeated.")
]
CleanMetadata = Annotated[bool, typer.Option("--clean-metadata", help="Also remove unused schemas and specs.")]
Verify = Annotated[
    bool | None,
    typer.Option(
        "--verify/--no-verify",
        help="Look for every file of the retained snapshots afterwards; by default below 64 MB of manifests.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(expire)
    app.command()(maintain)


@takes(CommonFlags, EngineFlags, without=("engine", "master", "connect", "spark_conf", "verify"))
def expire(
    common: CommonFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    older_than: OlderThan = None,
    retain_last: RetainLast = None,
    snapshot: Snapshots = None,
    clean_metadata: CleanMetadata = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go, change nothing.")] = False,
    verify: Verify = None,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Expire old snapshots, and delete the files that no other snapshot needs."""
    from tidyberg.cli import expire as expiry
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_names import NamedTables
    from tidyberg.model.durations import parse_age
    from tidyberg.model.expiry import ExpireOptions

    options = ExpireOptions(
        older_than_ms=parse_age(older_than) if older_than is not None else None,
        retain_last=retain_last,
        snapshot_ids=tuple(dict.fromkeys(snapshot or ())),
        clean_metadata=clean_metadata,
        verify=verify,
    )
    named = NamedTables(tuple(tables or ()), every=all_tables)
    status = expiry.expire(Session(common, engine), named, options, dry_run=dry_run, fail_fast=fail_fast)
    end_as(status, detailed_exitcode=detailed_exitcode)


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
    """Do everything that a table needs, in the right order: compact, then expire snapshots."""
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
