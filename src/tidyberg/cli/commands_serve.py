"""The `serve` command. It imports its code when it runs."""

from typing import Annotated

import typer

from tidyberg.cli.flags import CommonFlags, EngineFlags, takes


def register(app: typer.Typer) -> None:
    app.command()(serve)


@takes(CommonFlags, EngineFlags, without=("wait",))
def serve(
    common: CommonFlags,
    engine: EngineFlags,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; 127.0.0.1 by default.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 8080 by default.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=0, help="Number of jobs to run at once.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on any address even without authentication.")
    ] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs as JSON.")] = False,
) -> None:
    """Serve the REST API and run jobs until Ctrl-C or SIGTERM."""
    from tidyberg.cli import serve
    from tidyberg.cli.session import Session

    flags = serve.ServeFlags(host=host, port=port, workers=workers, insecure=insecure, log_json=log_json)
    serve.run(Session(common, engine), flags)
