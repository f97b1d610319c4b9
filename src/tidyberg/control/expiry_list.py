"""The list of files that a job is about to delete. It lies next to the table's metadata until all of them are gone.

The list is written before the commit, because afterwards no metadata shows which files the expired snapshots had. It
is not kept in the job store: a list can have millions of paths, and a path from the store proves nothing. Who can write
next to the table's metadata could delete the table's files anyway. The list is never trusted alone: what a fresh look
at the table finds referenced, or outside of the table's locations, stays [I6].
"""

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.commit.ownership import Ownership, expiry_list_name
from tidyberg.errors import DamagedFile, StorageError
from tidyberg.observe.reachable import FILES
from tidyberg.storage import table_files as objects

_JOB, _TABLE = b"tidyberg.job-id", b"tidyberg.table-uuid"


def list_location(table: Table, job_id: str) -> str:
    return str(table.location_provider().new_metadata_location(expiry_list_name(job_id)))


def is_list_of(table: Table, location: str, job_id: str) -> bool:
    """Returns True if the location, which comes from a job's record, can be the list of that job and table."""
    return Ownership.of(table, job_id).owns(location)


def write_list(io: FileIO, location: str, files: pa.Table, job_id: str, table_uuid: str) -> None:
    labelled = files.replace_schema_metadata({_JOB: job_id.encode(), _TABLE: table_uuid.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, labelled.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(labelled)
    content = sink.getvalue().to_pybytes()
    try:
        size = objects.write(io, location, content)
    except OSError as error:
        raise StorageError(f"Cannot write {location}: {error}.", hint="Nothing was expired. Try again.") from error
    if size != len(content):  # a truncated list would leave files behind that nothing references
        raise StorageError(f"{location} has {size} bytes after {len(content)} were written.", hint="Try again.")


def read_list(io: FileIO, location: str, job_id: str, table_uuid: str) -> pa.Table | None:
    """Returns None if there is no such list. Raises DamagedFile if it cannot be read or belongs to something else."""
    try:
        content = objects.fetch(io, location)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"Cannot read {location}: {error}.", hint="Try again.") from error
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            files = reader.read_all()
    except pa.ArrowException as error:
        raise DamagedFile(f"{location} is not a list of files: {error}") from error
    labels = files.schema.metadata or {}
    if labels.get(_JOB) != job_id.encode() or labels.get(_TABLE) != table_uuid.encode():
        raise DamagedFile(f"{location} is a list of another job or table")
    if not files.schema.equals(FILES):
        raise DamagedFile(f"{location} has other columns than a list of files")
    return files.replace_schema_metadata(None)


def remove_list(io: FileIO, location: str) -> str | None:
    """Returns what storage said if it did not delete the list."""
    return objects.delete_many(io, [location]).get(location)
