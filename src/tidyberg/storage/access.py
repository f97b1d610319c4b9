"""The properties that open a table's storage, including credentials. PyIceberg's `FileIO` supplies them."""

from typing import Any, Protocol

_STORAGE_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")


class StorageAccess:
    """Holds the properties that open storage, including secrets. Its `repr` and `str` show none of them [I12]."""

    __slots__ = ("_properties",)

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self._properties = dict(properties or {})

    def reveal(self) -> dict[str, str]:
        """Returns the properties with their secrets. Use it only to open a filesystem."""
        return dict(self._properties)

    def __repr__(self) -> str:
        return "StorageAccess(***)"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type["StorageAccess"], tuple[dict[str, str]]]:
        return (StorageAccess, (self._properties,))


class TableIO(Protocol):
    """The part of PyIceberg's `FileIO` that this package uses. The protocol saves it from importing PyIceberg."""

    properties: Any

    def new_input(self, location: str) -> Any: ...
    def new_output(self, location: str) -> Any: ...
    def delete(self, location: Any) -> None: ...


def storage_access(io: TableIO) -> StorageAccess:
    """Returns the properties that open the table's storage. Secrets of the catalog are left out."""
    return StorageAccess(
        {
            name: str(value)
            for name, value in io.properties.items()
            if value is not None and name.startswith(_STORAGE_PREFIXES)
        }
    )
