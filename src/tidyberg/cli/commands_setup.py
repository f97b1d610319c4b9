"""Commands about the installation: demo, doctor, config."""

import os
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.text import Text

from tidyberg.cli.as_json import plain, print_json
from tidyberg.cli.flags import CommonFlags, takes
from tidyberg.cli.session import Session, standard_output
from tidyberg.cli.show_doctor import show_checks
from tidyberg.errors import ConfigurationError, TidybergError
from tidyberg.settings.load import find_config, usual_places
from tidyberg.settings.redact import redact
from tidyberg.settings.schema import settings_schema_json

config_app = typer.Typer(help="Show the settings and where they come from.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command()(demo)
    app.command()(doctor)
    app.add_typer(config_app, name="config")


@takes(CommonFlags)
def demo(
    common: CommonFlags,
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", help="Where its catalog and files go.", show_default=False)
    ] = None,
) -> None:
    """See it work: a messy table is made, planned, compacted on local Spark, verified and queried."""
    from tidyberg.cli.demo import run_demo

    run_demo(directory, as_json=common.json)


@takes(CommonFlags)
def doctor(common: CommonFlags) -> None:
    """Check Python, Java, Spark, the configuration, the catalog and the disk; say what to do."""
    from tidyberg.cli.doctor import examine

    checks = examine(common)
    failed = any(check.state == "fail" for check in checks)
    if common.json:
        print_json({"ok": not failed, "checks": plain(checks)})
    else:
        standard_output().print(show_checks(checks))
    if failed:
        raise typer.Exit(TidybergError.exit_code)


@config_app.command("show")
@takes(CommonFlags)
def config_show(common: CommonFlags) -> None:
    """Print the settings in effect, with secrets masked."""
    session = Session(common)
    shown = redact(session.settings.model_dump(mode="json", exclude_none=True))  # I12
    session.show(Text(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip()), shown)


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of tidyberg.yaml."""
    typer.echo(settings_schema_json(), nl=False)


@config_app.command("path")
@takes(CommonFlags)
def config_path(common: CommonFlags) -> None:
    """Print which file the settings come from."""
    found = find_config(common.config, os.environ)
    if found is None:
        places = ", ".join(str(place) for place in usual_places(os.environ))
        raise ConfigurationError("There is no settings file.", hint=f"Looked for $TIDYBERG_CONFIG, {places}.")
    Session(common).show(Text(str(found), no_wrap=True, overflow="ignore"), {"path": str(found)})
