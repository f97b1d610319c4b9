"""Metadata files as bytes, through the table's own file access unless told; what goes wrong is named after the file."""

import os
import re
from collections.abc import Callable

from pyiceberg.io import FileIO

from tidyberg.errors import AccessDenied, DamagedFile, StorageError
from tidyberg.storage.denied import is_denied

# Without a host, and with nothing that a URL would mean otherwise than a path.
_PLAIN_FILE = re.compile(r"file:///[^?#%;]*")

Fetch = Callable[[FileIO, str], bytes]  # all bytes of a file, or OSErrors


def through_pyiceberg(io: FileIO, location: str) -> bytes:
    if _is_plain(io, location):
        with open(location.removeprefix("file://"), "rb") as file:  # noqa: PTH123 - a Path takes as long as the file
            return file.read()
    with io.new_input(location).open() as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        content = bytes(stream.read())
    # I1: an Avro file that ends early may look whole, and what it no longer lists would be lost with the next commit.
    if len(content) != size:
        raise StorageError(f"Reading {location} gave {len(content)} of its {size} bytes.", hint="Try again.")
    return content


def _is_plain(io: FileIO, location: str) -> bool:
    """A file that Arrow would open no otherwise than Python does, but in twice the time: manifests may be thousands."""
    if not _PLAIN_FILE.fullmatch(location):
        return False
    from pyiceberg.io.pyarrow import PyArrowFileIO  # which takes a second to load; who has one has loaded it

    return type(io) is PyArrowFileIO


def read_bytes(io: FileIO, location: str, fetch: Fetch = through_pyiceberg) -> bytes:
    try:
        return fetch(io, location)
    except FileNotFoundError:
        raise DamagedFile(
            f"{location} does not exist, though the table refers to it.",
            hint="Snapshot expiry or an orphan cleaner may have removed it: reload the table, or roll back to a "
            "snapshot whose files are all there.",
        ) from None
    except PermissionError as error:
        raise _denied(location, error) from error
    except OSError as error:
        if is_denied(str(error)):
            raise _denied(location, error) from error
        raise StorageError(
            f"Cannot read {location}: {error}.", hint="Check the storage and the network, then try again."
        ) from error


def _denied(location: str, error: OSError) -> AccessDenied:
    return AccessDenied(
        f"No permission to read {location}: {error}.",
        hint="Give the catalog's storage credentials read access to the table's location.",
    )


def damaged(location: str, what: str) -> DamagedFile:
    return DamagedFile(
        f"{location} is damaged: {what}.",
        hint="Restore it from a copy, or roll the table back to a snapshot that does not use it.",
    )
