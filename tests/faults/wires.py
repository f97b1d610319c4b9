"""Puts a fault layer under a job: its file access, the kernels' storage, the catalog's database, the job store."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal
from unittest.mock import patch

import pyarrow as pa
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.faults.layer import Kind, Layer, Wire, file_failure
from tidyberg.record.sqlite import SqliteStore
from tidyberg.storage import write_assembly as stream
from tidyberg.storage.file_io import Place, Storage

LOOKS = (Kind.ERROR, Kind.TIMEOUT)
READS = (Kind.ERROR, Kind.TIMEOUT, Kind.TRUNCATED)
CHANGES = (Kind.ERROR, Kind.TIMEOUT, Kind.LOST_ANSWER)
WRITES = (Kind.ERROR, Kind.TIMEOUT, Kind.HALF_WRITTEN, Kind.SHORT, Kind.CRASH_HALF_WRITTEN)

_current: list[Layer] = []  # file access is opened by the name of its class


@contextmanager
def wired(layer: Layer, catalog: SqlCatalog, store: SqliteStore, *, on_disk: bool = True) -> Iterator[None]:
    """Inside, every call of a job on this catalog and store goes through the layer; data may seem to be elsewhere."""
    place, dialect = Storage.place, catalog.engine.dialect
    do_execute, do_commit = dialect.do_execute, dialect.do_commit

    def faulty_place(storage: Storage, location: str) -> Place:
        found = place(storage, location)
        handler = _Handler(layer, found.filesystem)
        return Place(fs.PyFileSystem(handler), found.path, found.location, found.is_local and on_disk)

    def execute(cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        def effect() -> None:
            do_execute(cursor, statement, parameters, context)

        layer.run(Wire.CATALOG, "execute", _brief(statement), effect, kinds=LOOKS, fail=_database_failure)

    def commit(connection: Any) -> None:
        layer.run(Wire.CATALOG, "commit", "", lambda: do_commit(connection), kinds=CHANGES, fail=_database_failure)

    file = store._file
    writer, reader = file._writer, file._reader
    file._writer = _Connection(layer, writer)  # type: ignore[assignment]
    file._reader = _Connection(layer, reader)  # type: ignore[assignment]
    catalog.properties["py-io-impl"] = f"{__name__}.{FaultyFileIO.__name__}"
    _current.append(layer)
    try:
        with (
            patch.object(Storage, "place", faulty_place),
            patch.object(dialect, "do_execute", execute),
            patch.object(dialect, "do_commit", commit),
            patch.object(stream, "_in_kernel", _faulty_in_kernel(layer)),
            patch.object(stream, "_write_all", _faulty_write(layer)),
        ):
            yield
    finally:
        layer.end()
        _current.pop()
        del catalog.properties["py-io-impl"]
        file._writer, file._reader = writer, reader


def _faulty_in_kernel(layer: Layer) -> Callable[[int, int, int, int], int]:
    """Bytes that go from file to file without passing the task."""
    copy = stream._in_kernel

    def faulty(source: int, target: int, offset: int, length: int) -> int:
        def half() -> int:
            copy(source, target, offset, length // 2)
            return length

        def effect() -> int:
            return copy(source, target, offset, length)

        return layer.run(Wire.KERNEL, "copy", _name(target), effect, kinds=WRITES, fail=file_failure, partly=half)

    return faulty


def _faulty_write(layer: Layer) -> Callable[[int, bytes], None]:
    write = stream._write_all

    def faulty(target: int, content: bytes) -> None:
        def half() -> None:
            write(target, content[: len(content) // 2])

        def effect() -> None:
            write(target, content)

        layer.run(Wire.KERNEL, "write", _name(target), effect, kinds=WRITES, fail=file_failure, partly=half)

    return faulty


def _name(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _brief(statement: str) -> str:
    words = statement.split()
    return " ".join(words[:1] + [word for word in words if word in ("jobs", "leases", "written", "iceberg_tables")][:1])


def _database_failure(message: str, kind: Kind) -> Exception:
    return sqlite3.OperationalError(message)


class _Connection:
    """The job store's connection."""

    def __init__(self, layer: Layer, connection: sqlite3.Connection) -> None:
        self._layer = layer
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        kinds = CHANGES if statement == "COMMIT" else LOOKS
        return self._run(statement, kinds, lambda: self._connection.execute(statement, *values))

    def executemany(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._run(statement, LOOKS, lambda: self._connection.executemany(statement, *values))

    def _run(self, statement: str, kinds: tuple[Kind, ...], effect: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        return self._layer.run(Wire.STORE, "execute", _brief(statement), effect, kinds=kinds, fail=_database_failure)

    def close(self) -> None:
        self._connection.close()


class _Stream:
    """A local file whose reads, writes and close go through the layer."""

    def __init__(self, layer: Layer, wire: Wire, path: str, mode: Literal["rb", "wb"]) -> None:
        self._layer = layer
        self._wire = wire
        self._path = path
        self._mode = mode
        self._file: IO[bytes] = open(path, mode)  # noqa: SIM115  # closed with the stream, or with the layer
        layer.open_files.append(self._file)
        self.closed = False

    def _run(self, operation: str, kinds: tuple[Kind, ...], effect: Callable[[], Any], partly: Any = None) -> Any:
        return self._layer.run(self._wire, operation, self._path, effect, kinds=kinds, fail=file_failure, partly=partly)

    def read(self, size: int = -1) -> bytes:
        def truncated() -> bytes:
            return _cut(bytes(self._file.read(size)))

        return bytes(self._run("read", READS, lambda: self._file.read(size), truncated))

    def write(self, data: Any) -> int:
        content = bytes(data)

        def half() -> int:
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            return len(content)

        self._run("write", WRITES, lambda: self._file.write(content), half)
        return len(content)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def readable(self) -> bool:
        return self._mode == "rb"

    def writable(self) -> bool:
        return self._mode == "wb"

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            if self.writable():
                self._run("close", CHANGES, self._file.close)
        finally:
            self._file.close()

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cut(content: bytes) -> bytes:
    """Where it hurts most: an Avro file that ends after its header, or after a block, looks whole."""
    if content[:4] == b"Obj\x01":
        sync = content[-16:]
        return content[: content.index(sync) + 16]
    return content[: len(content) // 2]


class FaultyFileIO(PyArrowFileIO):
    """The driver's file access."""

    def new_input(self, location: str) -> "_File":  # type: ignore[override]
        return _File(_current[-1], location, super().new_input(location))

    def new_output(self, location: str) -> "_File":  # type: ignore[override]
        return _File(_current[-1], location, super().new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        where = location if isinstance(location, str) else location.location
        _current[-1].run(
            Wire.FILES, "delete", _local(where), lambda: super(FaultyFileIO, self).delete(where),
            kinds=CHANGES, fail=file_failure,
        )  # fmt: skip


class _File(InputFile, OutputFile):
    def __init__(self, layer: Layer, location: str, file: Any) -> None:
        super().__init__(location)
        self._layer = layer
        self._file = file

    def _run(self, operation: str, kinds: tuple[Kind, ...], effect: Callable[[], Any]) -> Any:
        return self._layer.run(Wire.FILES, operation, _local(self.location), effect, kinds=kinds, fail=file_failure)

    def __len__(self) -> int:
        return int(self._run("len", LOOKS, self._file.__len__))

    def exists(self) -> bool:
        return bool(self._run("exists", LOOKS, self._file.exists))

    def to_input_file(self) -> InputFile:
        return self

    def open(self, seekable: bool = True) -> InputStream:
        path = _local(self.location)
        stream: InputStream = self._run("open", LOOKS, lambda: _Stream(self._layer, Wire.FILES, path, "rb"))
        return stream

    def create(self, overwrite: bool = False) -> OutputStream:
        path = _local(self.location)

        def create() -> _Stream:
            if not overwrite and os.path.exists(path):
                raise FileExistsError(path)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return _Stream(self._layer, Wire.FILES, path, "wb")

        stream: OutputStream = self._run("create", CHANGES, create)
        return stream


def _local(location: str) -> str:
    return location.removeprefix("file://")


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The kernels' file system: what they use of it."""

    def __init__(self, layer: Layer, filesystem: fs.FileSystem) -> None:
        self._layer = layer
        self._filesystem = filesystem

    def _run(self, operation: str, path: str, kinds: tuple[Kind, ...], effect: Callable[[], Any]) -> Any:
        return self._layer.run(Wire.KERNEL, operation, path, effect, kinds=kinds, fail=file_failure)

    def get_type_name(self) -> str:
        return "faulty"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._run("info", path, LOOKS, lambda: self._filesystem.get_file_info(path)) for path in paths]  # noqa: B023

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._run(
            "list", selector.base_dir, LOOKS, lambda: self._filesystem.get_file_info(selector)
        )
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        self._run("mkdir", path, CHANGES, lambda: self._filesystem.create_dir(path, recursive=recursive))

    def delete_file(self, path: str) -> None:
        self._run("delete", path, CHANGES, lambda: self._filesystem.delete_file(path))

    def move(self, path: str, to: str) -> None:
        self._run("move", path, CHANGES, lambda: self._filesystem.move(path, to))

    def open_input_file(self, path: str) -> pa.NativeFile:
        def opened() -> pa.NativeFile:
            return pa.PythonFile(_Stream(self._layer, Wire.KERNEL, path, "rb"), mode="r")

        return self._run("open", path, LOOKS, opened)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        def created() -> pa.NativeFile:
            return pa.PythonFile(_Stream(self._layer, Wire.KERNEL, path, "wb"), mode="w")

        return self._run("create", path, CHANGES, created)

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError("no kernel needs this")

    delete_dir = delete_dir_contents = delete_root_dir_contents = _unused
    copy_file = open_input_stream = open_append_stream = normalize_path = _unused
