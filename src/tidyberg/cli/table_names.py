"""Resolves the tables of a command line: names, patterns, or all tables of the catalog."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pyiceberg.catalog import Catalog

from tidyberg.catalog.open import list_tables
from tidyberg.errors import BadInput, TidybergError, UnknownTable
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.settings import Settings

_WILDCARDS = frozenset("*?[")
_LISTED = 10


@dataclass(frozen=True)
class NamedTables:
    """The names and patterns of a command line, or every table of the catalog."""

    names: tuple[str, ...]
    every: bool = False
    listed: bool = False  # names of a file, which may be none

    @property
    def single(self) -> str | None:
        """The table, if exactly one is named without a pattern. Otherwise None, and results are a list."""
        if self.is_empty and not self.listed:
            raise BadInput(
                "No table is named.", hint="Name tables or patterns such as 'sales.*', or use all tables with --all."
            )
        several = self.every or self.listed or len(self.names) > 1 or is_pattern(self.names[0])
        return None if several else self.names[0]

    @property
    def is_empty(self) -> bool:
        return not self.names and not self.every

    def find(self, settings: Settings, catalog: Catalog) -> "list[TableRef | UnresolvedTable]":
        """Returns each table once, in the order of the command line. Raises if a pattern matches nothing."""
        needs_list = self.every or any(map(is_pattern, self.names))
        there = list_tables(catalog) if needs_list else []
        if self.every and not there:
            raise UnknownTable(f"There are no tables in catalog {catalog.name!r}.")
        found: dict[TableRef | UnresolvedTable, None] = {}
        for name in self.names:
            if is_pattern(name):
                found |= dict.fromkeys(_matching(name, there, catalog.name))
            else:
                found[_named(settings, catalog, name)] = None
        return list(found | dict.fromkeys(there)) if self.every else list(found)


@dataclass(frozen=True)
class UnresolvedTable:
    """A name without a table, and the error. The other tables are still processed."""

    name: str
    error: TidybergError

    def __str__(self) -> str:
        return self.name


def is_pattern(name: str) -> bool:
    return bool(_WILDCARDS & set(name))


def _named(settings: Settings, catalog: Catalog, name: str) -> TableRef | UnresolvedTable:
    try:
        return resolve_table(settings, catalog, name)
    except (BadInput, UnknownTable) as error:
        return UnresolvedTable(name, error)


def _matching(pattern: str, there: Sequence[TableRef], catalog: str) -> list[TableRef]:
    """Matches as `tables:` in the settings does: a pattern without a dot matches in any namespace."""
    found = [ref for ref in there if fnmatchcase(str(ref) if "." in pattern else ref.name, pattern)]
    if not found:
        shown = ", ".join(map(str, there[:_LISTED]))
        more = f" and {len(there) - _LISTED:,} more" if len(there) > _LISTED else ""
        raise UnknownTable(
            f"No table of catalog {catalog!r} matches {pattern!r}.",
            hint=f"There are {shown}{more}." if there else "The catalog has no tables.",
        )
    return found
