"""The `tidyberg` command: what it can do, and how every failure ends.

Only flags are imported here, so that help and completion answer at once; a command imports what it needs.
"""

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tidyberg._version import __version__
from tidyberg.cli import (
    commands_access,
    commands_jobs,
    commands_serve,
    commands_service,
    commands_setup,
    commands_tables,
)
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.unknown_commands import Commands
from tidyberg.errors import BadInput, TidybergError

_OBJECTS_BEFORE_COLLECTION = 200_000

app = typer.Typer(
    cls=Commands,
    help="Keeps Apache Iceberg tables tidy: sees, plans, rewrites on Spark, verifies and commits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (commands_setup, commands_tables, commands_jobs, commands_serve, commands_service, commands_access):
    module.register(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidyberg {__version__}")
        raise typer.Exit


@app.callback()
def _before_any_command(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option(hidden=True)] = None,
    catalog: Annotated[str | None, typer.Option(hidden=True)] = None,
    json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    version: Annotated[  # noqa: ARG001 - acts in its callback
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = CommonFlags(config=config, catalog=catalog, json=json)


def run() -> None:
    # Importing makes more than a hundred thousand objects that stay: looking through them for garbage as often as
    # Python does by itself takes a tenth of a short command.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    status = main(app, sys.argv[1:])
    gc.freeze()  # else Python looks through all of them once more before it ends: a fifth of a short command
    sys.exit(status)


def main(command: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command line; every failure becomes one message and an exit code, never a traceback."""
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 gets ? and no crash
    try:
        ended = command(args=list(arguments), standalone_mode=False)
    except TidybergError as error:
        return _fail(error, getattr(error, "status", error.exit_code), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone: say nothing, and keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001 - the edge of the process: nobody above could handle it
        if _was_help(error):
            return 0
        return _fail(*_as_error(error), as_json=as_json)
    return ended if isinstance(ended, int) else 0


def _was_help(error: Exception) -> bool:
    """Without arguments, a group of commands raises its help as a usage error: that is an answer, not a failure."""
    if type(error).__name__ != "NoArgsIsHelpError":
        return False
    error.show(sys.stdout)  # type: ignore[attr-defined]
    return True


def _as_error(error: Exception) -> tuple[TidybergError, int]:
    """Usage errors of the command-line library are bad input; all else is a defect."""
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", "tidyberg")
        return BadInput(str(error.format_message()), hint=f"See {path} --help."), BadInput.exit_code
    from tidyberg.cli.failures import unexpected_error

    return unexpected_error(error), TidybergError.exit_code


def _fail(error: TidybergError, status: int, as_json: bool) -> int:
    from tidyberg.cli.as_json import error_json, print_json
    from tidyberg.cli.failures import print_error
    from tidyberg.redact import redact_text

    if os.environ.get("TIDYBERG_DEBUG") == "1":
        sys.stderr.write(redact_text(traceback.format_exc()))
    if as_json:
        print_json(error_json(error))
    print_error(error)
    return status
