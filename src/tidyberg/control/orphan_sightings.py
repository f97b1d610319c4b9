"""Remembers which orphans earlier runs have seen, in a file below the table's location.

A file is deleted only if a run some hours ago saw it as an orphan too. This catches what one look cannot: a catalog
that shows an old state, or a writer that commits late. The file lies with the table and not in the job store, so that
it also works for runs in short-lived containers and from several machines. It is in a hidden directory, which searches
for orphans leave alone. If it is lost or damaged, the next run only counts as the first one.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidyberg.errors import AccessDenied, StorageError
from tidyberg.observe.orphans import OWN_DIRECTORY
from tidyberg.storage import table_files as objects

SEEN = pa.schema(
    [("path", pa.large_string()), ("size", pa.int64()), ("modified_ms", pa.int64()), ("first_seen_ms", pa.int64())]
)
NAME = "orphans-seen.arrow"
_TABLE = b"tidyberg.table-uuid"


def own_directory(table: Table) -> str:
    return f"{table.metadata.location.rstrip('/')}/{OWN_DIRECTORY}"


@dataclass(frozen=True)
class Sightings:
    table: Table

    @property
    def location(self) -> str:
        return f"{own_directory(self.table)}/{NAME}"

    def read(self) -> pa.Table:
        """Returns what earlier runs have seen. A damaged file counts as none."""
        try:
            content = objects.fetch(self.table.io, self.location)
        except FileNotFoundError:
            return SEEN.empty_table()
        except OSError as error:
            raise _failed("read", self.location, error) from error
        try:
            with pa.ipc.open_file(pa.py_buffer(content)) as reader:
                seen = reader.read_all()
        except pa.ArrowException:
            return SEEN.empty_table()
        labels = seen.schema.metadata or {}
        if labels.get(_TABLE) != str(self.table.metadata.table_uuid).encode() or not seen.schema.equals(SEEN):
            return SEEN.empty_table()
        return seen.replace_schema_metadata(None)

    def write(self, seen: pa.Table) -> None:
        """Replaces what was seen before."""
        labelled = seen.replace_schema_metadata({_TABLE: str(self.table.metadata.table_uuid).encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, labelled.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(labelled)
        try:
            objects.write(self.table.io, self.location, sink.getvalue().to_pybytes())
        except OSError as error:
            raise _failed("write", self.location, error) from error

    def store_clock_ms(self) -> int | None:
        """Returns the time of the storage: when it says that the file was written. None if it does not say."""
        try:
            found = list(objects.files_in(self.table.io, own_directory(self.table), NAME))
        except OSError as error:
            raise _failed("list", own_directory(self.table), error) from error
        return next((file.modified_ms for file in found if file.modified_ms > 0), None)

    def touch(self) -> int | None:
        """Writes the file again, unchanged, and returns the time of the storage. None if it does not say."""
        seen = self.read()
        self.write(seen)
        found = self.store_clock_ms()
        if not seen.num_rows:
            self.remove()
        return found

    def remove(self) -> None:
        objects.delete_many(self.table.io, [self.location])


def first_seen(files: pa.Table, seen: pa.Table, now_ms: int) -> pa.Table:
    """Returns the files with the time at which a run first saw them: now, if none has, or if they changed since."""
    positions = pc.index_in(_identities(files), value_set=_identities(seen).combine_chunks())
    times = seen["first_seen_ms"].combine_chunks().take(positions.combine_chunks())
    columns = [files[name] for name in ("path", "size", "modified_ms")]
    return pa.Table.from_arrays([*columns, pc.fill_null(times, now_ms)], schema=SEEN)


def _identities(files: pa.Table) -> pa.ChunkedArray:
    text = pa.large_string()
    numbers = [files[name].cast(text) for name in ("size", "modified_ms")]
    return pc.binary_join_element_wise(files["path"], *numbers, pa.scalar("\n", text))


def _failed(verb: str, location: str, error: OSError) -> AccessDenied | StorageError:
    kind = AccessDenied if isinstance(error, PermissionError) else StorageError
    return kind(
        f"Cannot {verb} {location}: {error}.",
        hint="tidyberg keeps there what earlier runs have seen. Check the permissions, then try again.",
    )
