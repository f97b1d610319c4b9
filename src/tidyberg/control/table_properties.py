"""Sets properties of a table, for callers that hold no lease on it."""

from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.commit.loop import CommitLoop
from tidyberg.commit.properties import PropertyPublisher
from tidyberg.control.context import Services
from tidyberg.model.table import TableRef


def set_properties(
    catalog: Catalog, ref: TableRef, table: Table, services: Services, properties: Mapping[str, str]
) -> Table:
    """Sets them in one commit. Returns the table with them; its other properties stay as they are."""
    uuid = str(table.metadata.table_uuid)
    loop = CommitLoop(catalog, ref, uuid, retry=services.retry, sleep=services.sleep)
    with catalog_errors(ref.catalog, what=str(ref)):
        return PropertyPublisher(loop, properties).publish()
