"""The command that serves: imported when it runs."""

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
        str | None, typer.Option("--host", help="Where to listen; 127.0.0.1 by default.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="8080 by default.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=0, help="Jobs to run at once.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on any address, even if nobody has to say who they are.")
    ] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log in JSON, for machines.")] = False,
) -> None:
    """Serve the REST API and run jobs, until it is stopped by Ctrl-C or SIGTERM."""
    from tidyberg.cli import serve
    from tidyberg.cli.session import Session

    flags = serve.ServeFlags(host=host, port=port, workers=workers, insecure=insecure, log_json=log_json)
    serve.run(Session(common, engine), flags)
