"""Guards files that another state of the table needs: one that its catalog does not know [I6].

A table can be registered in two catalogs, and a catalog can show an older state. Then files that were committed
elsewhere look as if nothing referenced them. The metadata files in storage show such states.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from tidyberg.errors import AccessDenied, BadInput, SharedFiles, StorageError
from tidyberg.model.table import TableRef
from tidyberg.observe.metadata_heads import METADATA_FILE, MetadataHead, read_heads
from tidyberg.observe.unlogged_metadata import KnownHistory, UnloggedState, keys_of, read_states
from tidyberg.storage.table_files import files_in

_CLOCKS_MS = 86_400_000  # how far the clocks of writers and of the storage may differ

Check = Callable[[], None]


def metadata_directories(table: Table) -> tuple[str, ...]:
    """The directories in which writers put the metadata files of the table."""
    metadata = table.metadata
    files = [table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    given = metadata.properties.get("write.metadata.path") or f"{metadata.location.rstrip('/')}/metadata"
    return tuple(dict.fromkeys([given.rstrip("/"), *(path.rpartition("/")[0] for path in files if "/" in path)]))


def list_metadata_files(table: Table, directories: Collection[str], since_ms: int = 0) -> list[str]:
    """The metadata files that were written since then. Raises AccessDenied or StorageError."""
    found: list[str] = []
    for directory in directories:
        try:
            files = files_in(table.io, directory)
            # A time of 0 means that the storage does not tell it.
            found += [
                file.location
                for file in files
                if METADATA_FILE in file.location.rpartition("/")[2]
                and (file.modified_ms >= since_ms or file.modified_ms <= 0)
            ]
        except OSError as error:
            kind = AccessDenied if isinstance(error, PermissionError) else StorageError
            raise kind(
                f"Cannot list {directory}: {error}.",
                hint="Give the catalog's storage credentials the right to list it, then try again.",
            ) from error
    return found


@dataclass
class OtherStates:
    """The states of a table that its catalog does not know."""

    ref: TableRef
    history: KnownHistory
    check: Check
    dead: Sequence[str] = ()  # names or locations of metadata files that nobody uses
    _dead: set[str] = field(default_factory=set)  # keys
    _ends: set[str] = field(default_factory=set)  # dead ones whose own logs reach further back

    def read(self, table: Table, heads: Sequence[MetadataHead]) -> Iterator[UnloggedState]:
        """Yields the states that may be in use. Raises SharedFiles if one certainly was committed elsewhere."""
        recent = [head for head in heads if self._is_own(head) and self.history.is_recent(head)]
        self._dead = self._named_dead([head.path for head in heads])
        self._ends = set(self._dead)
        for state in read_states(table.io, recent, self.check, self._is_wanted):
            if state.key in self._dead:
                older = [key for key in state.log if key not in self.history.keys]
                self._dead |= set(older)
                self._ends |= set(older[:1])
                continue
            if state.fell_out_of(self.history):
                continue
            if (base := state.unknown_base(self.history)) is not None:
                raise self._committed_elsewhere(state, base)
            yield state

    def _is_own(self, head: MetadataHead) -> bool:
        return head.table_uuid == self.history.table_uuid

    def _is_wanted(self, key: str) -> bool:
        return key not in self._dead or key in self._ends

    def _named_dead(self, unlogged: Sequence[str]) -> set[str]:
        named = {name.rpartition("/")[2] for name in self.dead}
        if used := sorted(key for key in self.history.keys if key.rpartition("/")[2] in named):
            raise BadInput(
                f"{used[0]} is not dead: it is the current metadata file of {self.ref}, or its log names it.",
                hint="Only metadata files that the table does not know can be declared dead.",
            )
        return {key for key in keys_of(unlogged) if key.rpartition("/")[2] in named}

    def _committed_elsewhere(self, state: UnloggedState, base: str) -> SharedFiles:
        return SharedFiles(
            f"Another catalog has committed to {self.ref}, or this one shows an old state: {state.path} builds on "
            f"{base}, which is neither the current metadata file nor in its log.",
            hint="No file is deleted, because only the other catalog knows which ones are needed. Run this from the "
            "catalog through which writers commit. If these commits were abandoned, for example because the catalog "
            f"was restored from a backup, `tidyberg orphans {self.ref} --dead-metadata "
            f"{state.path.rpartition('/')[2]}` removes what they left.",
        )


def newer_states(table: Table, ref: TableRef, load: Callable[[], Table], check: Check) -> Iterator[UnloggedState]:
    """Yields states that are newer than the catalog's, from a listing of the metadata directory.

    Files are listed first and the table is loaded afterwards, so a commit in between counts as known.
    """
    history = KnownHistory.of(table)
    listed = list_metadata_files(table, metadata_directories(table), history.oldest_ms - _CLOCKS_MS)
    heads = [head for head in read_heads(table.io, history.unlogged(listed), check) if history.is_recent(head)]
    if not any(head.table_uuid == history.table_uuid for head in heads):
        return
    fresh = load()
    known = KnownHistory.of(fresh)
    left = set(known.unlogged([head.path for head in heads]))
    states = OtherStates(ref, known, check).read(fresh, [head for head in heads if head.path in left])
    yield from (state for state in states if state.is_newer(known))
