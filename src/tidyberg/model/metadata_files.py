"""Says how many old metadata files a table keeps, and whether commits delete the others."""

from dataclasses import dataclass

from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    table: TableRef
    deletes_old: bool  # otherwise every commit leaves a metadata.json behind forever
    keep: int  # how many previous metadata files the table tracks
    tracked: int  # how many it tracks now
    metadata_bytes: int | None  # the size of the current metadata.json; None: unknown
    has_changed: bool = False  # whether the settings were changed just now
