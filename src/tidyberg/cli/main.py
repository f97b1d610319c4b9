"""The `tidyberg` command: registers all commands and turns failures into messages and exit codes.

This module imports only flags, so that help and completion are fast. Each command imports what it needs.
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
    commands_invoke,
    commands_jobs,
    commands_maintain,
    commands_maintenance,
    commands_serve,
    commands_service,
    commands_setup,
    commands_tables,
)
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.sort_flag import with_sort_order
from tidyberg.cli.unknown_commands import Commands
from tidyberg.errors import BadInput, TidybergError

_OBJECTS_BEFORE_COLLECTION = 200_000

app = typer.Typer(
    cls=Commands,
    help="Compacts Apache Iceberg tables: plans, rewrites on Spark, verifies and commits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    commands_setup,
    commands_tables,
    commands_jobs,
    commands_maintain,
    commands_maintenance,
    commands_serve,
    commands_service,
    commands_access,
    commands_invoke,
):
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
    # Imports create more than a hundred thousand permanent objects. With Python's default threshold, the garbage
    # collector would take a tenth of the time of a short command.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    status = main(app, sys.argv[1:])
    gc.freeze()  # skips the final collection, a fifth of the time of a short command
    sys.exit(status)


def main(command: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs a command line. Every failure becomes a message and an exit code, never a traceback."""
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ?
    try:
        ended = command(args=with_sort_order(arguments), standalone_mode=False)
    except TidybergError as error:
        return _fail(error, getattr(error, "status", error.exit_code), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # The reader of the output is gone. Redirect it, so that Python does not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001 - nothing above could handle it
        if _was_help(error):
            return 0
        return _fail(*_as_error(error), as_json=as_json)
    return ended if isinstance(ended, int) else 0


def _was_help(error: Exception) -> bool:
    """Prints the help if a group was called without a command, which Typer raises as a usage error."""
    if type(error).__name__ != "NoArgsIsHelpError":
        return False
    error.show(sys.stdout)  # type: ignore[attr-defined]
    return True


def _as_error(error: Exception) -> tuple[TidybergError, int]:
    """Converts an exception: a usage error of Typer is bad input, any other is a bug."""
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
