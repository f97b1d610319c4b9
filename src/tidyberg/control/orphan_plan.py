"""Finds the orphans of a table and decides which of them a run may delete. Changes nothing.

The order matters: list files, then load the table and read its metadata. A commit in between then counts as
referenced [I6].
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.control.complete_snapshots import require_all_snapshots, require_own_files
from tidyberg.control.held_table import load_same_table
from tidyberg.control.orphan_sightings import Sightings, first_seen
from tidyberg.control.other_states import OtherStates, list_metadata_files, metadata_directories
from tidyberg.errors import AccessDenied, BadInput, Conflict, SharedFiles, StorageError
from tidyberg.model.orphans import (
    LEAST_AGE_MS,
    SIGHTING_GAP_MS,
    CatalogLocations,
    OrphanCounts,
    OrphanOptions,
    OrphanPlan,
    OrphanVerdict,
    TableLocations,
)
from tidyberg.model.sizes import GB, format_size
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.engine_reads import EngineReads
from tidyberg.observe.locations import inside, table_roots
from tidyberg.observe.metadata_heads import MetadataHead, read_heads
from tidyberg.observe.orphans import ALIAS, MISMATCH, UNCLEAR, ListedFiles, OrphanSearch, Spellings, count_orphans
from tidyberg.observe.reachable import ReachedManifests
from tidyberg.observe.shared_locations import shared_locations
from tidyberg.observe.unlogged_metadata import KnownHistory
from tidyberg.record.store import JobStore
from tidyberg.storage.listing import files_below

_MOST_OPEN_RUNS = 10_000
_SHOWN = 5


@dataclass
class FoundOrphans:
    """Orphans of a table, and what is needed to look again before they are deleted."""

    table: Table  # as of a moment after the listing
    search: OrphanSearch
    reached: ReachedManifests
    seen: pa.Table  # SEEN: all orphans, with the time of their first sighting
    elsewhere: pa.Table  # SEEN: orphans that earlier runs saw where this one did not look
    listed: int
    cutoff_ms: int
    now_ms: int
    not_checked: tuple[str, ...]
    other_states: tuple[str, ...]  # metadata files that the table does not know and that keep files

    def due(self, options: OrphanOptions) -> pa.Table:
        """The orphans that may be deleted now. The others wait for another run."""
        if options.now:
            return self.seen
        return self.seen.filter(pc.less_equal(self.seen["first_seen_ms"], self.now_ms - SIGHTING_GAP_MS))


def check_options(options: OrphanOptions) -> None:
    if options.older_than_ms >= LEAST_AGE_MS:
        return
    if not (options.force or "").strip():
        raise BadInput(
            "Files younger than 24 hours are not deleted: a writer may not have committed them yet.",
            hint='Use an age of at least 24h. If no writer is active, add --force "the reason".',
        )


@dataclass(frozen=True)
class OrphanFinder:
    ref: TableRef
    options: OrphanOptions
    catalog: Catalog
    store: JobStore
    locations: Callable[[Catalog, Callable[[], None]], CatalogLocations]
    now_ms: int  # one moment for the whole run
    check: Callable[[], None]
    notify: Callable[[str], None]  # called with the progress
    engine_reads: EngineReads | None = None
    own_run: str | None = None  # the run that looks; its own record protects nothing

    def find(self, table: Table) -> FoundOrphans:
        """`table` may be older than the listing. Raises BadInput if the table or the options forbid it."""
        check_options(self.options)
        require_all_snapshots(self.catalog)
        require_own_files(table.metadata)
        roots = self._roots(table)
        listed = self._list(table, roots)
        fresh = self.load(str(table.metadata.table_uuid))
        if not set(roots) <= set(self._roots(fresh)):
            raise Conflict(f"The location of {self.ref} changed while it was listed.", hint="Try again.")
        search = OrphanSearch(listed.candidates(), listed.spellings, listed.kept)
        reached = ReachedManifests(fresh.io, self.check, self.engine_reads)
        self.leave_out(fresh, search, reached)
        heads: list[MetadataHead] = []
        other_states: tuple[str, ...] = ()
        not_checked: tuple[str, ...] = ()
        if search.files.num_rows:
            self.notify("reading metadata files that the table does not know")
            heads = self._unlogged(fresh, listed.metadata_files)
            other_states = self._keep_other_states(fresh, heads, search, reached)
        self._decide_mismatches(search)
        if search.files.num_rows:
            not_checked = self._require_unshared(fresh, heads, roots)
        earlier = Sightings(fresh).read()
        seen = first_seen(search.files, earlier, self.now_ms)
        elsewhere = earlier.filter(pc.invert(inside(earlier["path"], roots)))
        return FoundOrphans(
            fresh,
            search,
            reached,
            seen,
            elsewhere,
            listed.listed,
            listed.cutoff_ms,
            self.now_ms,
            not_checked,
            other_states,
        )

    def load(self, table_uuid: str) -> Table:
        return load_same_table(self.catalog, self.ref, table_uuid)

    def leave_out(self, fresh: Table, search: OrphanSearch, reached: ReachedManifests) -> None:
        """Leaves out all that is referenced, or claimed by a run, now."""
        require_own_files(fresh.metadata)
        runs = self.store.find(unfinished=True, limit=_MOST_OPEN_RUNS)
        if len(runs) >= _MOST_OPEN_RUNS:
            raise StorageError(
                f"The job store has {_MOST_OPEN_RUNS:,} unfinished runs or more, so their files are not all known.",
                hint="Run `tidyberg recover` first.",
            )
        others = [run for run in runs if run.job_id != self.own_run]
        noted = [
            path for run in others for key in (run.job_id, f"{run.job_id}/fence") for path in self.store.paths(key)
        ]
        adopted = [
            path for run in others if run.intent is not None for paths in run.intent.adopted.values() for path in paths
        ]
        search.leave_out_ours({run.job_id for run in others}, [*noted, *adopted])
        reached.io = fresh.io  # credentials may have been renewed
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            reached.add(fresh.metadata.snapshots)
            search.leave_out(fresh, reached)

    def plan(self, found: FoundOrphans, dollars_per_gb_month: float) -> OrphanPlan:
        due = count_orphans(found.due(self.options))
        everything = count_orphans(found.seen)
        waiting = _minus(everything, due)
        verdict: OrphanVerdict = "delete" if due.files else "wait" if waiting.files else "nothing"
        return OrphanPlan(
            table=self.ref,
            verdict=verdict,
            reason=_reason(due, waiting, sum(found.search.kept[why] for why in (UNCLEAR, ALIAS, MISMATCH))),
            files=due,
            dollars_per_month=due.bytes / GB * dollars_per_gb_month,
            waiting=waiting,
            listed=found.listed,
            kept={why: number for why, number in found.search.kept.items() if number},
            cutoff_ms=found.cutoff_ms,
            not_checked=found.not_checked,
            other_states=found.other_states,
            first=tuple(found.seen["path"].slice(0, _SHOWN).to_pylist()),
        )

    def _roots(self, table: Table) -> tuple[str, ...]:
        metadata = table.metadata
        own = table_roots(metadata)
        if not self.options.locations:
            return own[:1]  # others may be shared by design, so they have to be named
        wanted = tuple(root.rstrip("/") for root in self.options.locations)
        clear = inside(pa.chunked_array([[f"{root}/file" for root in wanted]], pa.large_string()), own).to_pylist()
        for root, is_clear in zip(self.options.locations, clear, strict=True):
            if not is_clear:  # `..` would lead elsewhere
                raise BadInput(
                    f"{root!r} is not a location of {self.ref}.", hint=f"Its locations are {', '.join(own)}."
                )
        return tuple(dict.fromkeys(wanted))

    def _list(self, table: Table, roots: tuple[str, ...]) -> ListedFiles:
        spellings = Spellings(self.options.equal_schemes, self.options.equal_authorities)
        cutoff = self.now_ms - self.options.older_than_ms
        listed = ListedFiles(table.metadata, spellings, cutoff, self.options.newer_than_ms)
        remote = self.engine_reads.files if self.engine_reads is not None else None
        for root in roots:
            try:
                for piece in files_below(table.io, root, self.check, remote):
                    listed.add(piece, root)
                    self.notify(f"listed {plural(listed.listed, 'file')}")
            except OSError as error:
                kind = AccessDenied if isinstance(error, PermissionError) else StorageError
                raise kind(
                    f"Cannot list {root}: {error}.",
                    hint="Give the catalog's storage credentials the right to list it, then try again.",
                ) from error
        elsewhere = [one for one in metadata_directories(table) if not _is_below(one, roots)]
        listed.metadata_files += list_metadata_files(table, elsewhere)
        return listed

    def _unlogged(self, table: Table, metadata_files: list[str]) -> list[MetadataHead]:
        unlogged = KnownHistory.of(table).unlogged(metadata_files)
        return list(read_heads(table.io, unlogged, self.check))

    def _keep_other_states(
        self, table: Table, heads: list[MetadataHead], search: OrphanSearch, reached: ReachedManifests
    ) -> tuple[str, ...]:
        """Leaves out what states need that the catalog does not know. Returns their metadata files."""
        states = OtherStates(self.ref, KnownHistory.of(table), self.check, self.options.dead_metadata)
        ids = {one.snapshot_id for one in table.metadata.snapshots}
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            return tuple(
                state.path
                for state in states.read(table, heads)
                if search.keep_other_state(state.named_files(table.io, self.check, reached, ids))
            )

    def _decide_mismatches(self, search: OrphanSearch) -> None:
        odd = search.mismatched()
        if odd.num_rows and self.options.prefix_mismatch == "error":
            raise BadInput(
                f"{plural(odd.num_rows, 'file')} of {self.ref} have the path of a referenced file, but another scheme "
                f"or authority, first {odd['path'][0].as_py()}.",
                hint="If both mean the same, use --equal-schemes or --equal-authorities. If not, --prefix-mismatch "
                "ignore keeps these files, and --prefix-mismatch delete treats them as orphans.",
            )
        self.keep_doubtful(search)

    def keep_doubtful(self, search: OrphanSearch) -> None:
        if self.options.prefix_mismatch != "delete":
            search.keep_mismatched()
        search.keep_aliases()

    def _require_unshared(self, table: Table, heads: list[MetadataHead], roots: tuple[str, ...]) -> tuple[str, ...]:
        """Refuses if another table has files there. Returns what could not be checked."""
        metadata = table.metadata
        self.notify("looking for other tables in the same location")
        found = self.locations(self.catalog, self.check)
        uuids = {one.table_uuid.lower() for one in found.tables if one.table != self.ref}
        dropped = {one.lower() for one in self.options.dropped_tables}
        if alive := dropped & (uuids | {str(metadata.table_uuid).lower()}):
            raise BadInput(f"Table {min(alive)} was not dropped: it is in the catalog.")
        self._require_own_metadata(table, heads, dropped)
        mine = TableLocations(self.ref, str(metadata.table_uuid), roots)
        others = [one for one in found.tables if one.table != self.ref]
        shared = [one for one in shared_locations([mine, *others]) if self.ref in (one.table, one.other)]
        if shared:
            named = [
                f"{one.other} in {one.other_location}" if one.table == self.ref else f"{one.table} in {one.location}"
                for one in shared
            ]
            raise SharedFiles(
                f"{self.ref} shares its location with {plural(len(shared), 'other table')}: {_some(named)}.",
                hint="The files of one look like orphans of the other. Give each table its own location. "
                "`tidyberg orphans --catalog-wide --check-locations` lists all such tables.",
            )
        return found.not_checked

    def _require_own_metadata(self, table: Table, heads: list[MetadataHead], dropped: set[str]) -> None:
        own = str(table.metadata.table_uuid).lower()
        by_table: defaultdict[str | None, list[str]] = defaultdict(list)
        for one in heads:
            if one.table_uuid is None or one.table_uuid not in (own, *dropped):
                by_table[one.table_uuid].append(one.path)
        if not by_table:
            return
        named = [
            f"{plural(len(paths), 'metadata file')} of table {uuid}, first {paths[0]}"
            if uuid is not None
            else f"{plural(len(paths), 'metadata file')} that cannot be read, first {paths[0]}"
            for uuid, paths in sorted(by_table.items(), key=lambda item: item[0] or "")
        ]
        raise SharedFiles(
            f"Another table has files in the location of {self.ref}: {_some(named)}.",
            hint="If that table was dropped, name its id with --dropped-table. Otherwise move one of the two tables.",
        )


def _is_below(directory: str, roots: tuple[str, ...]) -> bool:
    return bool(inside(pa.chunked_array([[f"{directory}/file"]], pa.large_string()), roots)[0].as_py())


def _minus(one: OrphanCounts, other: OrphanCounts) -> OrphanCounts:
    names = OrphanCounts.__slots__
    return replace(one, **{name: getattr(one, name) - getattr(other, name) for name in names})


def _reason(due: OrphanCounts, waiting: OrphanCounts, doubtful: int) -> str:
    if due.files:
        return f"{plural(due.files, 'file')} that no snapshot needs use {format_size(due.bytes)}"
    if waiting.files:
        hours = SIGHTING_GAP_MS // 3_600_000
        return (
            f"{plural(waiting.files, 'orphan')} seen for the first time less than {hours} hours ago: "
            f"a run after that deletes them, or one with --now"
        )
    if doubtful:
        return f"no file is an orphan for certain; {plural(doubtful, 'file')} may be referenced by another name"
    return "every file that is old enough is referenced"


def _some(named: list[str]) -> str:
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    return f"{'; '.join(named[:_SHOWN])}{more}"
