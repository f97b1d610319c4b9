"""Commits table properties, with retries. The table itself shows whether a commit landed: its properties are there."""

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchTableError, UnauthorizedError
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from tidyberg.catalog.metadata_file import send_commit, swaps_blindly
from tidyberg.commit.ownership import metadata_file_id, name_of
from tidyberg.commit.publish import end_open_transaction
from tidyberg.errors import AccessDenied, CatalogUnreachable, TableReplaced, Terminal, TidybergError
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.storage.table_files import delete_many


@dataclass
class PropertyPublisher:
    catalog: Catalog
    table: TableRef
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    _run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _written: list[tuple[str, str]] = field(default_factory=list)  # metadata files, and what each was based on

    def publish(self, table: Table, properties: Mapping[str, str]) -> Table:
        """Returns the table with these properties. Other properties stay as they are."""
        failure: BaseException | None = None
        for attempt in range(self.retry.retries + 2):  # the last round sends nothing: it asks how the one before ended
            if attempt:
                self.sleep(self.retry.wait_seconds(attempt - 1, self.rng))
                loaded = self._load(table)
                if loaded is None:
                    continue
                table = loaded
                self._remove_lost(table)
            if all(table.properties.get(name) == value for name, value in properties.items()):
                return table
            if attempt > self.retry.retries:
                break
            try:
                self._send(table, properties, attempt)
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, only the table knows whether it landed
                failure = error
                end_open_transaction(self.catalog)
        raise CatalogUnreachable(
            f"The properties of {self.table} could not be set ({failure or 'the catalog does not show them'}).",
            hint="Try again when the catalog answers, or when fewer writers commit.",
        )

    def _load(self, table: Table) -> Table | None:
        try:
            loaded = self.catalog.load_table(self.table.identifier)
        except NoSuchTableError as error:
            raise TableReplaced(f"{self.table} was dropped or renamed meanwhile.") from error
        except TidybergError:
            raise
        except Exception:  # noqa: BLE001  # a catalog that is away may come back
            return None
        if loaded.metadata.table_uuid != table.metadata.table_uuid:
            raise TableReplaced(f"{self.table} was dropped and created again meanwhile.", hint="Try again.")
        return loaded

    def _send(self, table: Table, properties: Mapping[str, str], attempt: int) -> None:
        base = table.metadata_location
        try:
            send_commit(
                self.catalog,
                table,
                (AssertTableUUID(uuid=table.metadata.table_uuid),),
                (SetPropertiesUpdate(updates=dict(properties)),),
                file_id=metadata_file_id(f"{self._run_id}/properties/{attempt}"),
                about_to_write=lambda paths: self._written.extend((path, base) for path in paths),
            )
        except (ForbiddenError, UnauthorizedError) as error:
            raise AccessDenied(f"The catalog refused to change {self.table}: {error}.") from error
        except BadRequestError as error:
            raise Terminal(f"The catalog rejected the change of {self.table}: {error}.") from error

    def _remove_lost(self, table: Table) -> None:
        """Removes metadata files of attempts that lost: a swap compares with its base, which is not current now."""
        used = {name_of(table.metadata_location), *(name_of(one.metadata_file) for one in table.metadata.metadata_log)}
        lost = [path for path, base in self._written if base != table.metadata_location and name_of(path) not in used]
        if lost and not swaps_blindly(self.catalog):
            delete_many(table.io, lost)
            self._written = [one for one in self._written if one[0] not in lost]
