"""Commits table properties. The table itself shows whether a commit landed: its properties are there."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from tidyberg.catalog.metadata_file import send_commit, swaps_blindly
from tidyberg.commit.loop import CommitKind, CommitLoop
from tidyberg.commit.ownership import metadata_file_id, name_of
from tidyberg.storage.table_files import delete_many


@dataclass
class PropertyPublisher(CommitKind[Table, Mapping[str, str], Table]):
    """Sets properties of a table. Its other properties stay as they are."""

    loop: CommitLoop
    properties: Mapping[str, str]
    _run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _written: list[tuple[str, str]] = field(default_factory=list)  # metadata files, and what each was based on

    purpose = "set its properties"
    hint_if_unknown = "Set them again once the catalog answers. To set them twice does no harm."

    def publish(self) -> Table:
        """Returns the table with these properties."""
        table = self.loop.run(self)
        assert table is not None, "`stage` always returns properties"
        return table

    def observe(self, table: Table) -> Table:
        """Removes metadata files of attempts that lost: a swap compares with its base, which is not current now."""
        used = {name_of(table.metadata_location), *(name_of(one.metadata_file) for one in table.metadata.metadata_log)}
        lost = [path for path, base in self._written if base != table.metadata_location and name_of(path) not in used]
        if lost and not swaps_blindly(self.loop.catalog):
            delete_many(table.io, lost)
            self._written = [one for one in self._written if one[0] not in lost]
        return table

    def landed(self, table: Table, _attempt: int) -> Table | None:
        is_set = all(table.properties.get(name) == value for name, value in self.properties.items())
        return table if is_set else None

    def stage(self, _table: Table, _attempt: int) -> Mapping[str, str]:
        return self.properties

    def send(self, table: Table, properties: Mapping[str, str], attempt: int) -> None:
        base = table.metadata_location
        send_commit(
            self.loop.catalog,
            table,
            (AssertTableUUID(uuid=table.metadata.table_uuid),),
            (SetPropertiesUpdate(updates=dict(properties)),),
            file_id=metadata_file_id(f"{self._run_id}/properties/{attempt}"),
            about_to_write=lambda paths: self._written.extend((path, base) for path in paths),
        )
