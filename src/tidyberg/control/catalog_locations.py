"""Loads every table of a catalog, to find those that share a directory."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, Queue

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import list_tables
from tidyberg.errors import Cancelled, TidybergError, UnknownTable
from tidyberg.model.orphans import CatalogLocations, TableLocations
from tidyberg.model.table import TableRef
from tidyberg.observe.locations import table_roots

_CATALOGS = 8
_TABLES_PER_CATALOG = 4  # fewer do not pay for another connection
VALID_MS = 600_000


@dataclass
class LocationsCache:
    """Keeps the answer for some minutes, because a run over all tables needs it for each of them.

    A table that is created meanwhile has young files only. One that is registered over old files has its metadata
    below the location, which is looked at every time.
    """

    open_catalog: Callable[[str | None], Catalog]
    now_ms: Callable[[], int]
    _found: dict[str, tuple[int, CatalogLocations]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, catalog: Catalog, check: Callable[[], None]) -> CatalogLocations:
        with self._lock:
            since, found = self._found.get(catalog.name, (0, None))
            if found is None or self.now_ms() - since >= VALID_MS:
                since, found = self.now_ms(), find_locations(catalog, self.open_catalog, check)
                self._found[catalog.name] = since, found
            return found


def find_locations(
    catalog: Catalog, open_catalog: Callable[[str | None], Catalog], check: Callable[[], None]
) -> CatalogLocations:
    """Returns where the tables put their files. Names what could not be looked at, instead of failing."""
    try:
        refs = list_tables(catalog)
    except Cancelled:
        raise
    except TidybergError as error:
        return CatalogLocations((), (f"the catalog's tables cannot be listed: {error.message}",))
    if not isinstance(catalog, RestCatalog):  # others may use their connection in one thread only
        found = [_locations(catalog, ref, check) for ref in refs]
    else:
        found = _in_parallel(catalog, open_catalog, refs, check)
    tables = tuple(one for one in found if isinstance(one, TableLocations))
    return CatalogLocations(tables, tuple(one for one in found if isinstance(one, str)))


def _in_parallel(
    catalog: Catalog, open_catalog: Callable[[str | None], Catalog], refs: Sequence[TableRef], check: Callable[[], None]
) -> list[TableLocations | str | None]:
    """Each thread has its own catalog. A caller that has only one gets one thread."""
    number = min(_CATALOGS, len(refs) // _TABLES_PER_CATALOG)
    opened = [one for one in (open_catalog(catalog.name) for _ in range(number)) if one is not catalog]
    free: Queue[Catalog] = Queue()
    for one in opened or [catalog]:
        free.put(one)

    def load(ref: TableRef) -> TableLocations | str | None:
        try:
            mine = free.get(timeout=600)
        except Empty:
            return f"{ref}: no connection was free"
        try:
            return _locations(mine, ref, check)
        finally:
            free.put(mine)

    try:
        with ThreadPoolExecutor(max(1, len(opened)), thread_name_prefix="locations") as pool:
            return list(pool.map(load, refs))
    finally:
        for one in opened:
            if isinstance(one, RestCatalog):
                one.close()


def _locations(catalog: Catalog, ref: TableRef, check: Callable[[], None]) -> TableLocations | str | None:
    check()
    try:
        with catalog_errors(ref.catalog, what=str(ref)):
            metadata = catalog.load_table(ref.identifier).metadata
    except (NoSuchTableError, UnknownTable):
        return None  # dropped meanwhile
    except Cancelled:
        raise
    except TidybergError as error:
        return f"{ref}: {error.message}"
    return TableLocations(ref, str(metadata.table_uuid), table_roots(metadata))
