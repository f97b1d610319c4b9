"""Commands for access to a service: `key new`."""

from datetime import datetime
from typing import Annotated

import typer

from tidyberg.cli.flags import CommonFlags, takes
from tidyberg.model.principal import Role

key_app = typer.Typer(help="Create API keys for a service.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(key_app, name="key")


@key_app.command("new")
@takes(CommonFlags, without=("config", "catalog"))
def key_new(
    common: CommonFlags,
    name: Annotated[str, typer.Option("--name", help="The holder of the key.")],
    role: Annotated[Role, typer.Option("--role", help="What the holder may do.")] = Role.VIEWER,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The tenant of the key; * for all tenants.", show_default=False)
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option("--expires", help="When the key expires, in UTC.", formats=["%Y-%m-%d"], show_default=False),
    ] = None,
) -> None:
    """Print a new key once, with its entry for the settings, which contains only its hash."""
    from tidyberg.cli import keys

    keys.make_key(common, name, role, tenant, expires)
