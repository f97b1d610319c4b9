"""A temporary catalog and location for the copied table. Both are removed at the end."""

import contextlib
import shutil
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlparse

from pyarrow.fs import FileSelector, FileType
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table

from tidyberg.benchmarking.copy_table import write_metadata
from tidyberg.errors import BadInput
from tidyberg.model.table import TableRef

CATALOG = "scratch"
REF = TableRef.parse("bench.copy", CATALOG)
# Only the properties that open storage, not the address and the secrets of the catalog.
_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl")


class Scratch:
    """A context manager. `given` is a directory or an address such as s3://bucket/tmp, or None for a temporary one."""

    def __init__(self, given: str | None, source: Table) -> None:
        name = f"tidyberg-bench-{uuid.uuid4()}"
        remote = given is not None and urlparse(given).scheme not in ("", "file")
        if not remote and given is not None:
            parent = Path(urlparse(given).path).expanduser().absolute()
            parent.mkdir(parents=True, exist_ok=True)
        self.directory = Path(
            tempfile.mkdtemp(prefix="tidyberg-bench-", dir=None if remote or given is None else parent)
        )
        self.is_local = not remote
        self.warehouse = f"{str(given).rstrip('/')}/{name}" if remote else (self.directory / "warehouse").as_uri()
        self.location = f"{self.warehouse}/{REF.namespace[0]}/{REF.name}"
        self._properties = {key: value for key, value in source.io.properties.items() if key.startswith(_STORAGE)}
        self.io: FileIO = load_file_io(self._properties, self.location)
        self._catalogs: list[SqlCatalog] = []
        self._metadata_location = f"{self.location}/metadata/00000-{uuid.uuid4()}.metadata.json"

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for catalog in self._catalogs:
            catalog.engine.dispose()
        if not self.is_local:
            self._remove_objects()
        shutil.rmtree(self.directory, ignore_errors=True)

    def open_catalog(self) -> SqlCatalog:
        """Opens a new catalog, because each thread needs its own."""
        uri = f"sqlite:///{self.directory / 'catalog.db'}"
        catalog = SqlCatalog(CATALOG, **{**self._properties, "uri": uri, "warehouse": self.warehouse})
        self._catalogs.append(catalog)
        return catalog

    def put(self, document: dict[str, Any]) -> None:
        """Registers the copy as a table."""
        write_metadata(document, self.io, self._metadata_location)
        self.open_catalog().create_namespace_if_not_exists(REF.namespace)
        self.reset()

    def reset(self) -> None:
        """Sets the table back to the copied state."""
        catalog = self.open_catalog()
        if catalog.table_exists((*REF.namespace, REF.name)):
            catalog.drop_table((*REF.namespace, REF.name))
        catalog.register_table((*REF.namespace, REF.name), self._metadata_location)

    def _remove_objects(self) -> None:
        scheme, netloc, path = self.io.parse_location(self.warehouse)  # type: ignore[attr-defined]
        filesystem = self.io.fs_by_scheme(scheme, netloc)  # type: ignore[attr-defined]
        for found in filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
            if found.type == FileType.File:
                filesystem.delete_file(found.path)
        with contextlib.suppress(OSError):  # some stores keep empty folders
            filesystem.delete_dir(path)


def require_local(scratch: Scratch) -> Path:
    """Returns the directory of the warehouse. Raises BadInput if the copy is remote."""
    if not scratch.is_local:
        raise BadInput("Java's action can be measured only on a local copy.", hint="Leave out --scratch, or --against.")
    return scratch.directory / "warehouse"
