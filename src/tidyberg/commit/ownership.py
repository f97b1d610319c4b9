"""Decides which paths a run may delete: files below its table's locations whose names carry the run's id [I6].

Both are trusted: the locations come from the table's metadata, and this code puts the id into the names. The job's
record only says where to look. Otherwise anyone with access to the job store could delete any object.
"""

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from pyiceberg.table import Table

from tidyberg.model.task import OUTPUT_NAME, SCRATCH_NAME

METADATA_NAMES = uuid.UUID("7c9a5f0e-6f0f-4c55-9b52-0f3f7a0d7a11")
_MARK_DIGITS = 12
_METADATA_FILE = re.compile(
    r"\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.[a-z0-9]+)*\.metadata\.json(?:\.gz)?"
)
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
CUSTOM_PROVIDER = "write.py-location-provider.impl"


def manifest_name(run_id: str, chunk: int, number: int) -> str:
    return f"{run_id}-c{chunk}-m{number}.avro"


def is_manifest_of(path: str, run_id: str, chunk: int) -> bool:
    """Returns True if the run wrote the manifest for this chunk. Snapshots of others may list it too."""
    return re.fullmatch(rf"{re.escape(run_id)}-c{chunk}-m\d+\.avro", name_of(path)) is not None


def manifest_list_name(run_id: str, snapshot_id: int, attempt: int) -> str:
    return f"snap-{snapshot_id}-{attempt}-{run_id}.avro"


def expiry_list_name(run_id: str) -> str:
    return f"tidyberg-expire-{run_id}.arrow"


def metadata_file_id(attempt: str) -> uuid.UUID:
    """Returns an id for the name of a metadata.json: first digits of the run, then of the attempt (`<run>/…`)."""
    return uuid.UUID(hex=_mark(attempt.partition("/")[0]) + uuid.uuid5(METADATA_NAMES, attempt).hex[_MARK_DIGITS:])


def _mark(run_id: str) -> str:
    return uuid.uuid5(METADATA_NAMES, run_id).hex[:_MARK_DIGITS]


@dataclass(frozen=True)
class Ownership:
    run_id: str
    data_roots: tuple[str, ...]
    metadata_roots: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, run_id: str) -> "Ownership":
        provider = table.location_provider()
        location = table.metadata.location.rstrip("/")
        # Not everything below the location, because another table may be there too.
        data = {provider.data_path, f"{location}/data"}
        if CUSTOM_PROVIDER in table.metadata.properties:
            data.add(location)
        metadata = {provider.metadata_path, f"{location}/metadata"}
        return cls(run_id, tuple(sorted(data)), tuple(sorted(metadata)))

    def holds(self, directory: str) -> bool:
        """Returns True if the directory may hold outputs of the run."""
        return directory in self.data_roots or _is_below(directory, self.data_roots)

    def owns(self, path: str, adopted: Collection[str] = ()) -> bool:
        """Returns True if the run may delete the path. `adopted` are outputs with the id of a dead run of the table."""
        name = name_of(path)
        if output := OUTPUT_NAME.fullmatch(name) or SCRATCH_NAME.fullmatch(name):
            return _is_below(path, self.data_roots) and (output["run"] == self.run_id or path in adopted)
        return _is_below(path, self.metadata_roots) and self._is_metadata(name)

    def _is_metadata(self, name: str) -> bool:
        run = re.escape(self.run_id)
        if re.fullmatch(rf"{run}-c\d+-m\d+\.avro|snap-\d+-\d+-{run}\.avro", name) or name == expiry_list_name(
            self.run_id
        ):
            return True
        found = _METADATA_FILE.fullmatch(name)
        return found is not None and found[1].replace("-", "").startswith(_mark(self.run_id))


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_below(path: str, roots: Collection[str]) -> bool:
    """Refuses `..`, which leaves the directory, and empty parts, which no path of tidyberg has."""
    for root in roots:
        if path.startswith(f"{root}/"):
            return {"", ".", ".."}.isdisjoint(path[len(root) + 1 :].split("/"))
    return False
