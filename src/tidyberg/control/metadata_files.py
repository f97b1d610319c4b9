"""Reports how many old metadata files a table keeps, and sets it. The commits of all writers then delete older ones."""

from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.open import load_table
from tidyberg.control.context import Services
from tidyberg.control.table_properties import set_properties
from tidyberg.errors import BadInput, TidybergError
from tidyberg.model.metadata_files import MetadataFiles
from tidyberg.model.table import TableRef
from tidyberg.planning.overhead import DELETE_OLD_METADATA
from tidyberg.storage.table_files import size_of

KEPT_VERSIONS = "write.metadata.previous-versions-max"
_DEFAULT_VERSIONS = 100
MOST_VERSIONS = 1_000_000


@dataclass(frozen=True)
class MetadataFileSettings:
    ref: TableRef
    catalog: Catalog
    services: Services

    def report(self) -> MetadataFiles:
        return self._describe(load_table(self.catalog, self.ref))

    def keep(self, number: int) -> MetadataFiles:
        """From now on, commits keep this many previous metadata files and delete older ones that they track."""
        if not 1 <= number <= MOST_VERSIONS:
            raise BadInput(f"A table cannot keep {number} metadata files.", hint=f"Choose 1 to {MOST_VERSIONS}.")
        return self._set({DELETE_OLD_METADATA: "true", KEPT_VERSIONS: str(number)})

    def keep_all(self) -> MetadataFiles:
        """From now on, commits delete no metadata files."""
        return self._set({DELETE_OLD_METADATA: "false"})

    def _set(self, properties: dict[str, str]) -> MetadataFiles:
        table = load_table(self.catalog, self.ref)
        before = dict(table.properties)
        published = set_properties(self.catalog, self.ref, table, self.services, properties)
        has_changed = any(before.get(name) != value for name, value in properties.items())
        return replace(self._describe(published), has_changed=has_changed)

    def _describe(self, table: Table) -> MetadataFiles:
        properties = table.properties
        given = properties.get(KEPT_VERSIONS, "")
        return MetadataFiles(
            table=self.ref,
            deletes_old=properties.get(DELETE_OLD_METADATA, "false").strip().lower() == "true",
            keep=max(1, int(given)) if given.strip().isdigit() else _DEFAULT_VERSIONS,
            tracked=len(table.metadata.metadata_log),
            metadata_bytes=_size(table),
        )


def _size(table: Table) -> int | None:
    try:
        return size_of(table.io, table.metadata_location)
    except (OSError, TidybergError):  # some REST catalogs keep the file to themselves
        return None
