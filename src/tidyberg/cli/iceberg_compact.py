"""The `iceberg-compact` command of the contract, for CronJobs: compacts one table and exits."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags, takes
from tidyberg.cli.main import main

if TYPE_CHECKING:
    from tidyberg.settings.settings import Settings

app = typer.Typer(
    pretty_exceptions_enable=False, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
)


@app.command()
@takes(CommonFlags, OptionFlags, EngineFlags)
def iceberg_compact(
    table: Annotated[str, typer.Option("--table", help="table or namespace.table", show_default=False)],
    common: CommonFlags,
    option: OptionFlags,
    engine: EngineFlags,
    catalog_uri: Annotated[
        str | None, typer.Option("--catalog-uri", help="Address of the catalog; $CATALOG_URI by default.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Namespace of the table.")] = None,
) -> None:
    """Compact one table and exit with 0 (done or nothing to do), 2 (bad input), 4 (conflict) or 5 (failed)."""
    from tidyberg.cli.jobs import compact
    from tidyberg.cli.session import Session

    def adjust(settings: "Settings") -> "Settings":
        return _with_catalog(settings, catalog_uri, namespace)

    compact(Session(common, engine, adjust), table, option)


def _with_catalog(settings: "Settings", catalog_uri: str | None, namespace: str | None) -> "Settings":
    from tidyberg.settings.load import catalog_of_environment
    from tidyberg.settings.sections import Catalog

    changed: dict[str, Any] = {"default_namespace": namespace} if namespace else {}
    if catalog_uri:
        found = catalog_of_environment({**os.environ, "CATALOG_URI": catalog_uri})
        changed |= {"catalog": Catalog.model_validate(found), "catalogs": {}, "default_catalog": None}
    return settings.model_copy(update=changed)


def run() -> None:
    sys.exit(main(app, sys.argv[1:]))
