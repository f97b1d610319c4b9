"""Finds the catalogs that tidyberg's settings or PyIceberg's configuration name, and the tables that users mean."""

from difflib import get_close_matches
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.utils.config import Config

from tidyberg.catalog.open import catalog_from, list_tables
from tidyberg.errors import (
    BadInput,
    UnknownCatalog,
    UnknownTable,
)
from tidyberg.model.table import TableRef
from tidyberg.redact import seal
from tidyberg.settings.settings import DEFAULT_CATALOG, Settings


def open_catalog(settings: Settings, name: str | None = None) -> Catalog:
    """Open a catalog, by default the default one."""
    name = named_catalog(settings, name or None)
    return catalog_from(name, catalog_properties(settings, name), settings.http_timeout_seconds)


def known_catalogs(settings: Settings) -> list[str]:
    return sorted({*settings.known_catalogs, *_pyiceberg_configuration().get_known_catalogs()})


def named_catalog(settings: Settings, name: str | None) -> str:
    """Resolve a catalog name. None means the default, and so does `default` if the only catalog has another name."""
    if name is None or (name == DEFAULT_CATALOG and len(known := known_catalogs(settings)) == 1 and name not in known):
        return default_catalog_name(settings)
    return name


def default_catalog_name(settings: Settings) -> str:
    """Return the name of the default catalog."""
    if settings.default_catalog:
        return settings.default_catalog
    if settings.catalog is not None:
        return settings.catalog_name
    known = known_catalogs(settings)
    preferred = _pyiceberg_configuration().get_default_catalog_name()
    if preferred in known:
        return preferred
    if len(known) == 1:
        return known[0]
    if known:
        raise UnknownCatalog(
            f"Several catalogs are configured ({', '.join(known)}) and none is the default.",
            hint="Name one with --catalog, or set default_catalog.",
        )
    raise UnknownCatalog(
        "No catalog is configured.",
        hint="Set CATALOG_URI, or write a `catalog:` into tidyberg.yaml, or use ~/.pyiceberg.yaml.",
    )


def resolve_table(settings: Settings, catalog: Catalog, text: str) -> TableRef:
    """Resolve a table name. Without a namespace, use the default one or the only match in the catalog."""
    if "." in text:
        return TableRef.parse(text, catalog.name)
    if not text.strip():
        raise BadInput("The name of a table must not be empty.", hint="Write it as namespace.table.")
    if settings.default_namespace:
        return TableRef.parse(f"{settings.default_namespace}.{text}", catalog.name)
    found = [ref for ref in list_tables(catalog) if ref.name == text]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownTable(
            f"Several tables are called {text!r}: {', '.join(map(str, found))}.",
            hint="Write namespace.table, or set default_namespace.",
        )
    raise UnknownTable(
        f"There is no table {text!r} in any namespace of catalog {catalog.name!r}.",
        hint="`tidyberg tables` lists all tables.",
    )


def catalog_properties(settings: Settings, name: str) -> dict[str, Any]:
    """Return the PyIceberg properties of a catalog, with secrets wrapped. tidyberg's settings take precedence."""
    own = settings.known_catalogs.get(name)
    of_pyiceberg = _pyiceberg_configuration().get_catalog_config(name)
    if own is None and of_pyiceberg is None:
        known = known_catalogs(settings)
        close = get_close_matches(name, known, n=1)
        listed = f"Known: {', '.join(known)}." if known else "None is configured: set CATALOG_URI to start."
        raise UnknownCatalog(
            f"There is no catalog {name!r}.", hint=f"Did you mean {close[0]!r}? {listed}" if close else listed
        )
    storage = settings.storage.sealed() if own is not None and settings.storage else {}
    return {**seal(dict(of_pyiceberg or {})), **storage, **(own.sealed() if own else {})}


def _pyiceberg_configuration() -> Config:
    """Read PyIceberg's configuration each time, because PyIceberg reads it only once, on import."""
    return Config()
