"""Moves orphans to a directory below the table's location instead of deleting them, and brings them back.

Each run has its own directory, `_tidyberg/quarantine/<job>/`, with a record of where its files came from. The record is
written before the first file moves, so a run that dies leaves no file that cannot be brought back.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.table import Table

from tidyberg.control.orphan_sightings import own_directory
from tidyberg.errors import AccessDenied, DamagedFile, StorageError, TidybergError
from tidyberg.observe.locations import inside, table_roots
from tidyberg.storage import table_files as objects
from tidyberg.storage.file_io import Listed
from tidyberg.storage.moving import FileMove, move_many

MOVED = pa.schema([("path", pa.large_string()), ("moved_to", pa.large_string()), ("size", pa.int64())])
RECORD = "record.arrow"
_LOOKUPS = 16
_TABLE = b"tidyberg.table-uuid"
_RUN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Quarantine:
    table: Table

    @property
    def location(self) -> str:
        return f"{own_directory(self.table)}/quarantine"

    def of_run(self, job_id: str) -> "QuarantinedFiles":
        return QuarantinedFiles(self.table, f"{self.location}/{job_id}", job_id)

    def runs(self) -> "list[QuarantinedFiles]":
        """The runs that have moved files, oldest first."""
        found: dict[str, int] = {}
        for file in self._records():
            job_id = file.location.rpartition("/")[0].rpartition("/")[2]
            if _RUN.fullmatch(job_id):
                found[job_id] = file.modified_ms
        return [self.of_run(job_id) for job_id in sorted(found, key=lambda one: (found[one], one))]

    def _records(self) -> list[Listed]:
        depth = self.location.count("/") + 2
        try:
            files = list(objects.files_in(self.table.io, self.location, RECORD, recursive=True))
        except OSError as error:
            raise failed("list", self.location, error) from error
        return [file for file in files if file.location.count("/") == depth]


@dataclass(frozen=True)
class QuarantinedFiles:
    """The files that one run moved."""

    table: Table
    directory: str
    job_id: str

    @property
    def record(self) -> str:
        return f"{self.directory}/{RECORD}"

    def prepare(self, files: pa.Table) -> list[FileMove]:
        """Records where each file goes. Nothing has moved yet."""
        roots = table_roots(self.table.metadata)
        paths: list[str] = files["path"].to_pylist()
        targets = [f"{self.directory}/files/{_below(path, roots)}" for path in paths]
        moved = pa.table([paths, targets, files["size"].to_pylist()], schema=MOVED)
        labelled = moved.replace_schema_metadata({_TABLE: str(self.table.metadata.table_uuid).encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, labelled.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(labelled)
        content = sink.getvalue().to_pybytes()
        try:
            size = objects.write(self.table.io, self.record, content)
        except OSError as error:
            raise failed("write", self.record, error) from error
        if size != len(content):
            raise StorageError(f"{self.record} has {size} bytes after {len(content)} were written.", hint="Try again.")
        return [FileMove(*row) for row in zip(paths, targets, moved["size"].to_pylist(), strict=True)]

    def moves(self) -> list[FileMove]:
        """Reads the record. Raises DamagedFile if it is not one of this table, or names files elsewhere."""
        try:
            content = objects.fetch(self.table.io, self.record)
            with pa.ipc.open_file(pa.py_buffer(content)) as reader:
                moved = reader.read_all()
        except OSError as error:
            raise failed("read", self.record, error) from error
        except pa.ArrowException as error:
            raise DamagedFile(f"{self.record} is not a record of moved files: {error}.") from error
        labels = moved.schema.metadata or {}
        if labels.get(_TABLE) != str(self.table.metadata.table_uuid).encode() or not moved.schema.equals(MOVED):
            raise DamagedFile(f"{self.record} is not a record of this table.")
        roots = table_roots(self.table.metadata)
        if moved.num_rows and not (
            all(inside(moved["path"], roots).to_pylist())
            and all(inside(moved["moved_to"], [self.directory]).to_pylist())
        ):
            raise DamagedFile(
                f"{self.record} names files outside of the table's locations ({', '.join(roots)}).",
                hint="If a location such as write.data.path was changed since, set it back for the restore.",
            )
        columns = (moved[name].to_pylist() for name in ("path", "moved_to", "size"))
        return [FileMove(*row) for row in zip(*columns, strict=True)]

    def age_ms(self, now_ms: int) -> int:
        try:
            found = list(objects.files_in(self.table.io, self.directory, RECORD))
        except OSError as error:
            raise failed("list", self.directory, error) from error
        return now_ms - max((file.modified_ms for file in found), default=now_ms)

    def present(self) -> dict[str, int]:
        """The moved files that are there, with their sizes."""
        try:
            files = list(objects.files_in(self.table.io, f"{self.directory}/files", recursive=True))
        except OSError as error:
            raise failed("list", self.directory, error) from error
        return {file.location: file.size for file in files}

    def recorded(self) -> tuple[dict[str, int], list[str]]:
        """The moved files that are there, with their sizes, and others that the record does not name."""
        there = self.present()
        named = {move.target for move in self.moves()} if there else set()
        return {path: there[path] for path in there if path in named}, sorted(there.keys() - named)

    def remove_record(self) -> str | None:
        return objects.delete_many(self.table.io, [self.record]).get(self.record)


@dataclass(frozen=True)
class Restored:
    files: int
    bytes: int
    already_there: int
    refused: dict[str, str]


def restore(quarantined: QuarantinedFiles, check: Callable[[], None]) -> Restored:
    """Moves the files back to where they were. A file whose place is taken stays in quarantine."""
    io = quarantined.table.io
    there = quarantined.present()
    if not there:  # none was moved, or all were restored by a run that died; the record may be half written
        said = quarantined.remove_record()
        return Restored(0, 0, 0, {} if said is None else {quarantined.record: said})
    waiting = [move for move in quarantined.moves() if move.target in there]
    try:
        with ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="lookups") as pool:
            exist = list(pool.map(lambda move: objects.exists(io, move.source), waiting))
    except OSError as error:
        raise failed("look up the places of files of", quarantined.directory, error) from error
    taken = {move.source for move, is_there in zip(waiting, exist, strict=True) if is_there}
    back = [FileMove(move.target, move.source, move.size) for move in waiting if move.source not in taken]
    refused = move_many(io, back, check)
    if not refused and not taken and (said := quarantined.remove_record()) is not None:
        refused = {quarantined.record: said}
    done = [move for move in back if move.source not in refused]
    return Restored(len(done), sum(move.size for move in done), len(taken), refused)


def failed(verb: str, location: str, error: OSError) -> TidybergError:
    kind = AccessDenied if isinstance(error, PermissionError) else StorageError
    return kind(f"Cannot {verb} {location}: {error}.", hint="Check the permissions and the storage, then try again.")


def _below(path: str, roots: Sequence[str]) -> str:
    """Returns the number of the first root that holds the file, and the file's path below that root."""
    for number, root in enumerate(roots):
        if path.startswith(f"{root}/"):
            return f"{number}/{path[len(root) + 1 :]}"
    return f"other/{path.partition('://')[2] or path.lstrip('/')}"  # its root has another spelling
