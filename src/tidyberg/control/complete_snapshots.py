"""Refuses tables whose files cannot all be known, or must not be deleted."""

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE, RestCatalog
from pyiceberg.table.metadata import TableMetadata

from tidyberg.errors import BadInput
from tidyberg.planning.expiry import GC_ENABLED


def require_all_snapshots(catalog: Catalog) -> None:
    """A catalog that hides snapshots hides what they reference."""
    mode = catalog.properties.get(SNAPSHOT_LOADING_MODE)
    if isinstance(catalog, RestCatalog) and mode not in (None, "all"):
        raise BadInput(
            f"The catalog {catalog.name} loads tables with {SNAPSHOT_LOADING_MODE}={mode}. It does not show "
            "all snapshots, so files that they need cannot be told from others.",
            hint=f"Remove {SNAPSHOT_LOADING_MODE} from the catalog's properties.",
        )


def require_own_files(metadata: TableMetadata) -> None:
    given = metadata.properties.get(GC_ENABLED, "true")
    if given.lower() != "true":
        raise BadInput(
            f"The table has {GC_ENABLED}={given}: other tables may use its files, so none of them is deleted.",
            hint=f"If no other table uses them, set {GC_ENABLED}=true.",
        )
