"""Commands that call a service, such as submit, jobs and watch. They import their code when they run."""

from typing import Annotated

import typer

from tidyberg.cli.commands_tables import TableName
from tidyberg.cli.flags import OptionFlags, ServerFlags, takes
from tidyberg.model.job import JobStatus
from tidyberg.model.options import VerifyMode

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.", show_default=False)]
CatalogName = Annotated[str | None, typer.Option("--catalog", help="A catalog of the service.")]


def register(app: typer.Typer) -> None:
    for command in (submit, jobs, watch, cancel, schedules, pause, resume, paused):
        app.command(rich_help_panel="Service")(command)


@takes(ServerFlags, OptionFlags)
def submit(
    table: TableName,
    server: ServerFlags,
    option: OptionFlags,
    catalog: CatalogName = None,
    priority: Annotated[
        int, typer.Option("--priority", min=-100, max=100, help="Jobs with a higher priority run first.")
    ] = 0,
    verify: Annotated[VerifyMode | None, typer.Option("--verify", help="How to verify outputs.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: only the first submission with it makes a job.")
    ] = None,
    follow: Annotated[bool, typer.Option("--watch", "-w", help="Wait until the job has ended.")] = False,
) -> None:
    """Submit a job to a service."""
    from tidyberg.cli import remote

    remote.submit(server, table, option, catalog=catalog, priority=priority, verify=verify, key=key, follow=follow)


@takes(ServerFlags)
def jobs(
    server: ServerFlags,
    status: Annotated[
        list[JobStatus] | None, typer.Option("--status", help="Only jobs with this status; repeatable.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only jobs of this table.")] = None,
    catalog: CatalogName = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs.")] = 20,
) -> None:
    """List the jobs of a service, the newest first."""
    from tidyberg.cli import remote

    remote.jobs(server, status=status or [], table=table, catalog=catalog, limit=limit)


@takes(ServerFlags)
def watch(job_id: JobId, server: ServerFlags) -> None:
    """Follow a job of a service until it has ended. Fails if the job fails."""
    from tidyberg.cli import remote

    remote.watch(server, job_id)


@takes(ServerFlags)
def cancel(job_id: JobId, server: ServerFlags) -> None:
    """Cancel a job of a service. The table stays unchanged."""
    from tidyberg.cli import remote

    remote.cancel(server, job_id)


@takes(ServerFlags)
def schedules(server: ServerFlags) -> None:
    """List the schedules of a service, with their last and next time."""
    from tidyberg.cli import remote

    remote.schedules(server)


@takes(ServerFlags)
def pause(
    table: TableName,
    server: ServerFlags,
    reason: Annotated[str, typer.Option("--reason", help="Why the table is paused.", show_default=False)],
    hours: Annotated[
        float | None, typer.Option("--hours", min=0.01, help="Length of the pause; until resumed by default.")
    ] = None,
    catalog: CatalogName = None,
) -> None:
    """Pause a table: a service accepts and starts no jobs for it. A running job continues."""
    from tidyberg.cli import remote_pauses

    remote_pauses.pause(server, table, catalog, reason, hours)


@takes(ServerFlags)
def resume(table: TableName, server: ServerFlags, catalog: CatalogName = None) -> None:
    """End the pause of a table."""
    from tidyberg.cli import remote_pauses

    remote_pauses.resume(server, table, catalog)


@takes(ServerFlags)
def paused(server: ServerFlags) -> None:
    """List paused tables: by whom, why and until when."""
    from tidyberg.cli import remote_pauses

    remote_pauses.paused(server)
