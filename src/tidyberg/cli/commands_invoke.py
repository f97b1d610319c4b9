"""The `invoke` command. It imports its code when it runs."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(invoke)


def invoke(
    event: Annotated[
        Path | None,
        typer.Argument(metavar="[EVENT]", help="A file with one event, or - for standard input.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on.")] = 8080,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, max=900, help="Time limit of an invocation in seconds.")
    ] = 900,
    memory: Annotated[
        int, typer.Option("--memory", min=128, max=10240, help="Memory of the function in MB. It decides the cores.")
    ] = 3008,
    at_once: Annotated[int, typer.Option("--at-once", min=1, max=1000, help="Invocations that run at once.")] = 10,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on any address. There is no access check.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Settings file; ./tidyberg.yaml by default.", show_default=False),
    ] = None,
) -> None:
    """Run the AWS Lambda function here: for one EVENT, or serve its endpoint until Ctrl-C."""
    from tidyberg.cli import invoke as invoking

    flags = invoking.InvokeFlags(host, port, timeout, memory, at_once, insecure=insecure)
    raise typer.Exit(invoking.run(event, flags, config))
