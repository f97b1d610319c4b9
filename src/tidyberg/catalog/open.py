"""Opens catalogs, and loads and lists their tables."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from tidyberg.catalog.errors import catalog_errors
from tidyberg.errors import ConfigurationError, TidybergError, UnknownNamespace, UnknownTable, Unsupported
from tidyberg.model.table import TableRef
from tidyberg.redact import seal, secrets_of, unseal

_NEED_URI = (CatalogType.REST, CatalogType.HIVE, CatalogType.SQL)
_CANNOT_COMMIT = {CatalogType.DYNAMODB: "DynamoDB", CatalogType.BIGQUERY: "BigQuery"}


def catalog_from(name: str, sealed: Mapping[str, Any], http_timeout_seconds: float) -> Catalog:
    """Open a catalog by PyIceberg's properties, secrets still wrapped. Every request to it has a time limit."""
    with catalog_errors(name, secrets=secrets_of(sealed)):
        kind = _kind(name, unseal(sealed))
        if kind in _CANNOT_COMMIT:
            raise Unsupported(
                f"Catalog {name!r} is a {_CANNOT_COMMIT[kind]} catalog, through which no commit can be made.",
                hint="Reach its tables through a REST, SQL, Hive or Glue catalog.",
            )
        properties = {"s3.retry-strategy-impl": "tidyberg.catalog.s3_retries.PatientRetries", **unseal(sealed)}
        if kind in _NEED_URI and not properties.get("uri"):
            raise ConfigurationError(f"Catalog {name!r} has no uri.", hint="Give it one in tidyberg.yaml.")
        if kind is CatalogType.SQL:
            _require_database_file(name, str(properties.get("uri", "")))
        if kind is CatalogType.REST:
            properties.pop("type", None)
            from tidyberg.catalog.rest import BoundedRestCatalog  # other catalogs do not need HTTP

            return BoundedRestCatalog(name, http_timeout_seconds, **properties)
        return load_catalog(name, **properties)


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
        raise ConfigurationError(
            f"Catalog {name!r} is the SQLite file {path}, which does not exist.",
            hint="Check the path. An empty file at that path becomes a new, empty catalog.",
        )


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
