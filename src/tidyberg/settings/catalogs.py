"""Opens the catalogs that tidyberg's settings or PyIceberg's configuration name, and finds tables in them."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from pyiceberg.utils.config import Config

from tidyberg.catalog.errors import catalog_errors
from tidyberg.errors import (
    BadInput,
    ConfigurationError,
    TidybergError,
    UnknownCatalog,
    UnknownNamespace,
    UnknownTable,
    Unsupported,
)
from tidyberg.model.table import TableRef
from tidyberg.redact import seal, secrets_of, unseal
from tidyberg.settings.settings import DEFAULT_CATALOG, Settings

_NEED_URI = (CatalogType.REST, CatalogType.HIVE, CatalogType.SQL)
_CANNOT_COMMIT = {CatalogType.DYNAMODB: "DynamoDB", CatalogType.BIGQUERY: "BigQuery"}


def open_catalog(settings: Settings, name: str | None = None) -> Catalog:
    """Open a catalog, by default the default one. Every request to it has a time limit."""
    name = named_catalog(settings, name or None)
    sealed = catalog_properties(settings, name)
    secrets = secrets_of(sealed)
    with catalog_errors(name, secrets=secrets):
        kind = _kind(name, unseal(sealed))
        if kind in _CANNOT_COMMIT:
            raise Unsupported(
                f"Catalog {name!r} is a {_CANNOT_COMMIT[kind]} catalog, through which no commit can be made.",
                hint="Reach its tables through a REST, SQL, Hive or Glue catalog.",
            )
        properties = {"s3.retry-strategy-impl": "tidyberg.catalog.retries.PatientRetries", **unseal(sealed)}
        if kind in _NEED_URI and not properties.get("uri"):
            raise ConfigurationError(f"Catalog {name!r} has no uri.", hint="Give it one in tidyberg.yaml.")
        if kind is CatalogType.SQL:
            _require_database_file(name, str(properties.get("uri", "")))
        if kind is CatalogType.REST:
            properties.pop("type", None)
            from tidyberg.catalog.rest import BoundedRestCatalog  # other catalogs do not need HTTP

            return BoundedRestCatalog(name, settings.http_timeout_seconds, **properties)
        return load_catalog(name, **properties)


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


def load_table(catalog: Catalog, ref: TableRef) -> Table:
    """Load a table. The error for an unknown table suggests similar names."""
    try:
        with catalog_errors(ref.catalog, what=str(ref), secrets=catalog_secrets(catalog)):
            return catalog.load_table(ref.identifier)
    except UnknownTable as error:
        raise _with_near_names(error, catalog, ref) from None


def list_tables(catalog: Catalog, namespace: str | None = None) -> list[TableRef]:
    """Return all tables of the catalog, or of one namespace and those below it, in order."""
    with catalog_errors(catalog.name, what=namespace or "", secrets=catalog_secrets(catalog)):
        start: Identifier = tuple(namespace.split(".")) if namespace else ()
        try:
            return sorted(_tables_below(catalog, start), key=str)
        except NoSuchNamespaceError:
            raise _unknown_namespace(catalog, start) from None


def catalog_secrets(catalog: Catalog) -> list[str]:
    """Return the secrets that no message about this catalog may contain [I12]."""
    return secrets_of(seal(dict(catalog.properties)))


def _tables_below(catalog: Catalog, namespace: Identifier) -> Iterator[TableRef]:
    if namespace:
        for identifier in catalog.list_tables(namespace):
            yield TableRef(catalog.name, tuple(identifier[:-1]), identifier[-1])
    for child in catalog.list_namespaces(namespace):
        # Some catalogs return the namespace itself, or names relative to it.
        full = tuple(child) if tuple(child)[: len(namespace)] == namespace else (*namespace, *child)
        if len(full) > len(namespace):
            yield from _tables_below(catalog, full)


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


def _kind(name: str, properties: Mapping[str, Any]) -> CatalogType | None:
    """Return the type of a catalog, or None if it names its own Python class."""
    if properties.get("py-catalog-impl"):
        return None
    given = properties.get("type")
    if given is None:
        return infer_catalog_type(name, dict(properties))
    kinds = [kind.value for kind in CatalogType]
    if str(given).lower() not in kinds:
        raise ConfigurationError(f"{given!r} is not a type of catalog.", hint=f"Choose one of {', '.join(kinds)}.")
    return CatalogType(str(given).lower())


def _require_database_file(name: str, uri: str) -> None:
    """Refuse a missing file, because a mistyped path must not create a new, empty catalog."""
    scheme, _, path = uri.partition(":///")
    if not scheme.startswith("sqlite") or not path or path.startswith((":memory:", "file:")):
        return
    if not Path(path.split("?")[0]).is_file():
        raise ConfigurationError(f"Catalog {name!r} is the SQLite file {path}, which does not exist.")


def _with_near_names(error: UnknownTable, catalog: Catalog, ref: TableRef) -> TidybergError:
    try:
        siblings = [other.name for other in list_tables(catalog, ".".join(ref.namespace))]
    except UnknownNamespace as unknown:
        return unknown
    except TidybergError:
        return error
    close = get_close_matches(ref.name, siblings, n=3, cutoff=0.5)
    names = ", ".join(".".join((*ref.namespace, name)) for name in close)
    hint = f"Did you mean {names}?" if close else "`tidyberg tables` lists all tables."
    return UnknownTable(error.message, hint=hint)


def _unknown_namespace(catalog: Catalog, namespace: Identifier) -> UnknownNamespace:
    known = [".".join(name) for name in catalog.list_namespaces()]
    close = get_close_matches(".".join(namespace), known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else (f"Known: {', '.join(known[:10])}." if known else None)
    return unknown_namespace(catalog.name, ".".join(namespace), hint)


def unknown_namespace(catalog: str, namespace: str, hint: str | None = None) -> UnknownNamespace:
    return UnknownNamespace(f"There is no namespace {namespace!r} in catalog {catalog!r}.", hint=hint)


def _pyiceberg_configuration() -> Config:
    """Read PyIceberg's configuration each time, because PyIceberg reads it only once, on import."""
    return Config()
