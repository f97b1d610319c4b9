"""Commands that talk to a service: submit, jobs, watch, cancel, schedules. Imported when they run."""

from typing import Annotated

import typer

from tidyberg.cli.commands_tables import TableName
from tidyberg.cli.flags import OptionFlags, ServerFlags, takes
from tidyberg.model.job import JobStatus
from tidyberg.model.options import VerifyMode

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", show_default=False)]
CatalogName = Annotated[str | None, typer.Option("--catalog", help="Which of the service's catalogs.")]


def register(app: typer.Typer) -> None:
    for command in (submit, jobs, watch, cancel, schedules, pause, resume, paused):
        app.command(rich_help_panel="Service")(command)


@takes(ServerFlags, OptionFlags)
def submit(
    table: TableName,
    server: ServerFlags,
    option: OptionFlags,
    catalog: CatalogName = None,
    priority: Annotated[int, typer.Option("--priority", min=-100, max=100, help="Higher ones go first.")] = 0,
    verify: Annotated[VerifyMode | None, typer.Option("--verify", help="How to verify outputs.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Of submissions with the same key only the first makes a job.")
    ] = None,
    follow: Annotated[bool, typer.Option("--watch", "-w", help="Stay until it has ended.")] = False,
) -> None:
    """Give a job to a service."""
    from tidyberg.cli import remote

    remote.submit(server, table, option, catalog=catalog, priority=priority, verify=verify, key=key, follow=follow)


@takes(ServerFlags)
def jobs(
    server: ServerFlags,
    status: Annotated[list[JobStatus] | None, typer.Option("--status", help="Only these; repeatable.")] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only of this table.")] = None,
    catalog: CatalogName = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many jobs.")] = 20,
) -> None:
    """Show a service's jobs, newest first."""
    from tidyberg.cli import remote

    remote.jobs(server, status=status or [], table=table, catalog=catalog, limit=limit)


@takes(ServerFlags)
def watch(job_id: JobId, server: ServerFlags) -> None:
    """Follow a service's job until it has ended; fails when the job does."""
    from tidyberg.cli import remote

    remote.watch(server, job_id)


@takes(ServerFlags)
def cancel(job_id: JobId, server: ServerFlags) -> None:
    """Stop a service's job; the table stays as it is."""
    from tidyberg.cli import remote

    remote.cancel(server, job_id)


@takes(ServerFlags)
def schedules(server: ServerFlags) -> None:
    """Show a service's schedules: when each came last, and when it comes next."""
    from tidyberg.cli import remote

    remote.schedules(server)


@takes(ServerFlags)
def pause(
    table: TableName,
    server: ServerFlags,
    reason: Annotated[str, typer.Option("--reason", help="Why, for others to read.", show_default=False)],
    hours: Annotated[float | None, typer.Option("--hours", min=0.01, help="For so long; else until resumed.")] = None,
    catalog: CatalogName = None,
) -> None:
    """Let a service take and begin no jobs of a table; one that runs goes on."""
    from tidyberg.cli import remote_pauses

    remote_pauses.pause(server, table, catalog, reason, hours)


@takes(ServerFlags)
def resume(table: TableName, server: ServerFlags, catalog: CatalogName = None) -> None:
    """End a table's pause."""
    from tidyberg.cli import remote_pauses

    remote_pauses.resume(server, table, catalog)


@takes(ServerFlags)
def paused(server: ServerFlags) -> None:
    """Show which tables are paused: by whom, why and until when."""
    from tidyberg.cli import remote_pauses

    remote_pauses.paused(server)
