"""Finds the catalog and the table that a caller means. Those of other tenants are reported as unknown."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from tidyberg.errors import UnknownCatalog, UnknownNamespace
from tidyberg.model.principal import Principal
from tidyberg.model.table import TableRef
from tidyberg.service.access import Access
from tidyberg.service.catalog_lookup import CatalogLookup
from tidyberg.service.identifiers import table_ref
from tidyberg.settings.catalogs import default_catalog_name, known_catalogs
from tidyberg.settings.settings import DEFAULT_CATALOG, Settings


class TableResolver:
    def __init__(self, settings: Settings, access: Access, lookup: CatalogLookup) -> None:
        self.catalogs = frozenset(known_catalogs(settings))
        self._settings = settings
        self._access = access
        self._lookup = lookup

    def table(self, name: str, catalog: str | None, namespace: str | None, who: Principal) -> TableRef:
        """Returns the table that a name means, whether or not it exists."""
        catalog = self.catalog(catalog, who)
        return table_ref(catalog, namespace, name, lambda: self._namespace(catalog, name, who))

    def catalog(self, name: str | None, who: Principal) -> str:
        visible = [known for known in sorted(self.catalogs) if self._access.may_see_catalog(who, known)]
        if name == DEFAULT_CATALOG and name not in self.catalogs and len(self.catalogs) == 1:
            name = None  # a single catalog is the default, whatever its name
        name = name if name is not None else self._default_catalog
        if name not in visible:
            known = ", ".join(visible) or "none is configured"
            raise UnknownCatalog(f"There is no catalog {name[:100]!r}.", hint=f"Known: {known}.")
        return name

    def catalog_of_event(self, named: str) -> str | None:
        """Returns what the settings call the catalog of an event. If there is only one, it is that one."""
        known = self._settings.scheduler.events.catalogs.get(named, named)
        return None if known not in self.catalogs and len(self.catalogs) == 1 else known or None

    def _namespace(self, catalog: str, table: str, who: Principal) -> str:
        return self._settings.default_namespace or self._lookup.namespace_of(
            catalog, table, lambda ref: self._access.may_see(who, ref)
        )

    @cached_property
    def _default_catalog(self) -> str:
        return default_catalog_name(self._settings)  # also reads the configuration of PyIceberg


@contextmanager
def without_namespace_hints(who: Principal) -> Iterator[None]:
    """Removes the hint from UnknownNamespace, because it may name namespaces of other tenants."""
    try:
        yield
    except UnknownNamespace as error:
        if who.tenants is None:
            raise
        raise UnknownNamespace(error.message) from None
