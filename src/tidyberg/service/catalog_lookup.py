"""Looks up tables in catalogs, with a cache and a short timeout."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import catalog_secrets, list_tables, load_table
from tidyberg.errors import CatalogUnreachable, TidybergError, Transient, UnknownTable
from tidyberg.model.table import TableRef
from tidyberg.planning.partition_fields import PartitionFields, partition_fields

FRESH_SECONDS = 60.0
READY_SECONDS = 10.0  # how long a successful check of a catalog is cached
PATIENCE_SECONDS = 3.0
REST_SECONDS = 5.0  # how long a catalog that did not answer is not called again
MOST_TABLES = 10_000
THREADS = 4  # each thread opens its own catalogs
MOST_QUESTIONS = 16  # open calls; a catalog that hangs must not pile them up

T = TypeVar("T")


@dataclass(frozen=True)
class KnownTable:
    uuid: str
    schema: Schema
    properties: Mapping[str, str]
    fields: PartitionFields  # names that a filter may use besides columns
    files: int | None = None  # from the summary of the newest snapshot, if it contains them
    bytes: int | None = None


@dataclass
class CatalogLookup:
    open_catalog: Callable[[str | None], Catalog]
    patience_seconds: float = PATIENCE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _fresh: "OrderedDict[object, tuple[float, Any]]" = field(default_factory=OrderedDict)
    _asked: dict[object, "Future[Any]"] = field(default_factory=dict)
    _paused_until: dict[str, float] = field(default_factory=dict)  # not called until this time
    _work: "SimpleQueue[Callable[[], None]]" = field(default_factory=SimpleQueue)
    _threads: int = 0

    def table(self, ref: TableRef, *, refresh: bool = False) -> KnownTable | None:
        """Returns None if the catalog does not answer now. Raises UnknownTable if it has no such table."""
        if not refresh and (known := self._remembered(ref)) is not None:
            assert isinstance(known, KnownTable)
            return known
        try:
            return self._ask(ref.catalog, ref, lambda: self._load(ref))
        except Transient:
            return None

    def remembered(self, ref: TableRef) -> KnownTable | None:
        """Returns the table from the cache, if it is there."""
        known = self._remembered(ref)
        return known if isinstance(known, KnownTable) else None

    def namespace_of(self, catalog: str, name: str, is_visible: Callable[[TableRef], bool]) -> str:
        """Returns the only namespace with a visible table of that name. Raises if there is none, several, or no answer.

        `is_visible` excludes tables of other tenants, so that no error reveals them.
        """
        key = (catalog, name)
        known = self._remembered(key)
        called_so = known if known is not None else self._ask(catalog, key, lambda: self._find(catalog, name))
        found = [ref for ref in called_so if is_visible(ref)]
        if len(found) == 1:
            return ".".join(found[0].namespace)
        if found:
            names = ", ".join(map(str, found[:5]))
            raise UnknownTable(f"Several tables are called {name!r}: {names}.", hint="Write namespace.table.")
        raise UnknownTable(f"There is no table {name!r} in any namespace of catalog {catalog!r}.")

    def tables(self, catalog: str) -> list[TableRef]:
        """Returns all tables of a catalog. Raises if it does not answer in time. A later call may succeed."""
        key = ("tables", catalog)
        if (known := self._remembered(key)) is None:
            known = self._ask(catalog, key, lambda: list_tables(self.open_catalog(catalog)))
        return list(known)

    def answers(self, catalog: str) -> None:
        """Raises if the catalog does not answer now."""
        key = ("catalog", catalog)
        if self._remembered(key, READY_SECONDS) is None:
            self._ask(catalog, key, lambda: self._greet(catalog))

    def _greet(self, catalog: str) -> bool:
        opened = self.open_catalog(catalog)
        with catalog_errors(catalog, secrets=catalog_secrets(opened)):
            opened.list_namespaces()
        return True

    def _load(self, ref: TableRef) -> KnownTable:
        metadata = load_table(self.open_catalog(ref.catalog), ref).metadata
        schema, schemas = metadata.schema(), {one.schema_id: one for one in metadata.schemas}
        fields = partition_fields(metadata.specs(), metadata.default_spec_id, schema, schemas)
        snapshot = metadata.current_snapshot()
        summary = snapshot.summary.additional_properties if snapshot is not None and snapshot.summary else {}
        files, size = (
            int(text) if (text := summary.get(name, "")).isdigit() else None
            for name in ("total-data-files", "total-files-size")
        )
        return KnownTable(str(metadata.table_uuid), schema, dict(metadata.properties), fields, files, size)

    def _find(self, catalog: str, name: str) -> tuple[TableRef, ...]:
        return tuple(ref for ref in list_tables(self.open_catalog(catalog)) if ref.name == name)

    def _remembered(self, key: object, seconds: float = FRESH_SECONDS) -> Any:
        with self._lock:
            found = self._fresh.get(key)
            if found is None or self.clock() - found[0] >= seconds:
                return None
            return found[1]

    def _ask(self, catalog: str, key: object, question: Callable[[], T]) -> T:
        """Shares one call among callers with the same key. A slow answer is cached when it arrives."""
        with self._lock:
            asked: Future[T] | None = self._asked.get(key)
            if asked is None:
                if self.clock() < self._paused_until.get(catalog, 0.0) or len(self._asked) >= MOST_QUESTIONS:
                    raise _no_answer(catalog)
                asked = self._asked[key] = Future()
                self._work.put(partial(self._answer, catalog, key, question, asked))
                self._start_thread()
        try:
            return asked.result(self.patience_seconds)
        except FutureTimeout:
            self._rest(catalog)
            raise _no_answer(catalog) from None

    def _start_thread(self) -> None:
        """Starts a thread if there are more calls than threads. Daemon threads, so a hanging catalog blocks no exit."""
        if self._threads < min(THREADS, len(self._asked)):
            self._threads += 1
            threading.Thread(target=self._serve, name=f"tidyberg-lookup-{self._threads}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()

    def _answer(self, catalog: str, key: object, question: Callable[[], T], asked: "Future[T]") -> None:
        try:
            answer = question()
        except Exception as error:  # noqa: BLE001  # raised in the calling thread
            if isinstance(error, Transient):
                self._rest(catalog)
            with self._lock:
                self._fresh.pop(key, None)
                self._asked.pop(key)
            asked.set_exception(error)
            return
        with self._lock:
            self._fresh[key] = (self.clock(), answer)
            self._fresh.move_to_end(key)
            while len(self._fresh) > MOST_TABLES:
                self._fresh.popitem(last=False)
            self._asked.pop(key)
            self._paused_until.pop(catalog, None)
        asked.set_result(answer)

    def _rest(self, catalog: str) -> None:
        with self._lock:
            self._paused_until[catalog] = self.clock() + REST_SECONDS


def _no_answer(catalog: str) -> TidybergError:
    return CatalogUnreachable(f"Catalog {catalog!r} did not answer in time.", hint="Try again later.")
