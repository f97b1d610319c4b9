"""How the engine helps to find the files of a huge table. `control/engine_reads.py` implements it."""

from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.observe.reading import RemoteReader
from tidyberg.storage.access import TableIO
from tidyberg.storage.listing import RemoteListing

REACHABLE_COLUMNS = ("status", "content", "path", "size")  # of the entries of manifests


@dataclass(frozen=True)
class EngineReads:
    """Manifests and directories above a size are read by tasks of the engine; smaller ones by this process."""

    manifests: Callable[[TableIO], RemoteReader]  # with the credentials of this moment
    files: RemoteListing
