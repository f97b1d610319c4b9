"""The commands about access to a service: what they are called and which flags they take."""

from datetime import datetime
from typing import Annotated

import typer

from tidyberg.cli.flags import CommonFlags, takes
from tidyberg.model.principal import Role

key_app = typer.Typer(help="Make API keys for a service.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(key_app, name="key")


@key_app.command("new")
@takes(CommonFlags, without=("config", "catalog"))
def key_new(
    common: CommonFlags,
    name: Annotated[str, typer.Option("--name", help="Who will have it.")],
    role: Annotated[Role, typer.Option("--role", help="What they may do.")] = Role.VIEWER,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="For which tenant; * for all.", show_default=False)
    ] = None,
    expires: Annotated[
        datetime | None, typer.Option("--expires", help="Until when, in UTC.", formats=["%Y-%m-%d"], show_default=False)
    ] = None,
) -> None:
    """Print a new key, once, and its entry for the settings, which holds only its hash."""
    from tidyberg.cli import keys

    keys.make_key(common, name, role, tenant, expires)
