"""Commands for the installation: demo, doctor, config. They import their code when they run."""

from pathlib import Path
from typing import Annotated

import typer

from tidyberg.cli.flags import CommonFlags, takes

config_app = typer.Typer(help="Show the settings and where they come from.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command()(demo)
    app.command()(doctor)
    app.add_typer(config_app, name="config")


@takes(CommonFlags)
def demo(
    common: CommonFlags,
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", help="Directory for its catalog and files.", show_default=False)
    ] = None,
) -> None:
    """Create a table with many small files, compact it on local Spark and compare a query."""
    from tidyberg.cli.demo import run_demo

    run_demo(directory, as_json=common.json)


@takes(CommonFlags)
def doctor(common: CommonFlags) -> None:
    """Check Python, Java, Spark, the configuration, the catalog and the disk, and suggest fixes."""
    from tidyberg.cli import installation

    if not installation.consult_doctor(common):
        raise typer.Exit(5)


@config_app.command("show")
@takes(CommonFlags)
def config_show(common: CommonFlags) -> None:
    """Print the settings in effect, with secrets masked."""
    from tidyberg.cli import installation

    installation.show_settings(common)


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of tidyberg.yaml."""
    from tidyberg.settings.schema import settings_schema_json

    typer.echo(settings_schema_json(), nl=False)


@config_app.command("path")
@takes(CommonFlags)
def config_path(common: CommonFlags) -> None:
    """Print the path of the settings file."""
    from tidyberg.cli import installation

    installation.show_path(common)
