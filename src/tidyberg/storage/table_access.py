"""What of a table's properties opens its storage."""

from pyiceberg.io import FileIO

from tidyberg.model.task import StorageAccess

_STORAGE_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")


def storage_access(io: FileIO) -> StorageAccess:
    """What opens a table's storage, credentials among it; nothing of the catalog's own secrets."""
    return StorageAccess(
        {
            name: str(value)
            for name, value in io.properties.items()
            if value is not None and name.startswith(_STORAGE_PREFIXES)
        }
    )
