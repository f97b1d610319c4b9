"""Finds out what an expiry would remove: snapshots, refs, schemas and specs, and files that nothing else references."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from tidyberg.commit.expiry import MetadataRemoval, removable_refs
from tidyberg.control.complete_snapshots import require_all_snapshots
from tidyberg.control.held_table import load_same_table
from tidyberg.control.other_states import newer_states
from tidyberg.errors import AccessDenied, BadInput, DamagedFile
from tidyberg.model.expiry import ExpireOptions, ExpiryDecision, RefInfo
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.engine_reads import EngineReads
from tidyberg.observe.locations import inside, table_roots
from tidyberg.observe.pin import snapshots_of
from tidyberg.observe.reachable import FILES, FilesToDelete, ReachedManifests, expired_files
from tidyberg.planning.expiry import decide_expiry, missing_ids, unused_ids, within_bounds


@dataclass
class PreparedExpiry:
    decision: ExpiryDecision
    removal: MetadataRemoval
    retained: ReachedManifests  # grows when snapshots are added meanwhile
    to_delete: FilesToDelete  # inside the table's locations
    outside: pa.Table  # the others

    @property
    def first_outside(self) -> str | None:
        return self.outside["path"][0].as_py() if self.outside.num_rows else None


@dataclass(frozen=True)
class ExpiryPlanner:
    ref: TableRef
    options: ExpireOptions
    catalog: Catalog
    now_ms: int  # the same for all attempts
    check: Callable[[], None]
    warn: Callable[[str], None]
    sent_before: frozenset[int] = frozenset()  # snapshots that earlier attempts may have expired
    engine_reads: EngineReads | None = None

    def decide(self, table: Table) -> ExpiryDecision:
        metadata = table.metadata
        decision = decide_expiry(
            snapshots_of(metadata), refs_of(metadata), metadata.properties, self.options, self.now_ms
        )
        bounds = self.options.bounds
        return decision if bounds is None else within_bounds(decision, bounds)

    def prepare(self, table: Table) -> PreparedExpiry:
        """Reads metadata only. Raises BadInput if the table or the options do not allow it."""
        require_all_snapshots(self.catalog)
        metadata = table.metadata
        decision = self.decide(table)
        named = [number for number in self.options.snapshot_ids if number not in self.sent_before]
        if problem := missing_ids(snapshots_of(metadata), named):
            raise BadInput(problem, hint="`tidyberg expire` without --snapshot chooses snapshots by age.")
        expired = set(decision.snapshot_ids)
        retained, going = (ReachedManifests(table.io, self.check, self.engine_reads) for _ in range(2))
        if not expired:  # then no file is freed, and nothing has to be read
            nothing = FILES.empty_table()
            removal = self.removal(table, decision, retained)
            return PreparedExpiry(decision, removal, retained, FilesToDelete(nothing), nothing)
        retained.add(one for one in metadata.snapshots if one.snapshot_id not in expired)
        going.add((one for one in metadata.snapshots if one.snapshot_id in expired), self._skip)
        candidates = expired_files(metadata, going, retained, expired, self._skip)
        files = FilesToDelete(candidates)
        files.protect(_without_statistics(table, expired), retained)
        self._protect_newer_states(table, files, retained, expired)
        is_inside = inside(files.files["path"], table_roots(metadata))
        outside = files.files.filter(pc.invert(is_inside))
        files.files = files.files.filter(is_inside)
        return PreparedExpiry(decision, self.removal(table, decision, retained), retained, files, outside)

    def _protect_newer_states(
        self, table: Table, files: FilesToDelete, retained: ReachedManifests, expired: Collection[int]
    ) -> None:
        """Keeps what a newer state needs: another catalog may have committed it, and does not see this expiry [I6]."""
        kept = {one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in expired}
        try:
            for state in newer_states(table, self.ref, lambda: self._load(table), self.check):
                if number := files.keep(state.named_files(table.io, self.check, retained, kept)):
                    self.warn(
                        f"{plural(number, 'file')} of expired snapshots stay, because {state.path} names them. This "
                        "metadata file is newer than the catalog's state: its commit never landed, or it landed in "
                        "another catalog. `tidyberg orphans` removes the files once nothing needs them."
                    )
        except AccessDenied as error:  # an expiry needs no right to list
            self.warn(f"metadata files of other catalogs were not looked for: {error.message}")

    def _load(self, table: Table) -> Table:
        return load_same_table(self.catalog, self.ref, str(table.metadata.table_uuid))

    def removal(
        self, table: Table, decision: ExpiryDecision, retained: ReachedManifests, only: Collection[int] | None = None
    ) -> MetadataRemoval:
        """Returns what a commit to this state of the table removes. With `only`, it removes no other snapshots."""
        metadata = table.metadata
        ids = tuple(number for number in decision.snapshot_ids if only is None or number in only)
        gone = set(ids)
        schemas, specs = tuple[int, ...](), tuple[int, ...]()
        if self.options.clean_metadata:
            staying = [one for one in metadata.snapshots if one.snapshot_id not in gone]
            retained.add(staying)
            used = {one.schema_id for one in staying if one.schema_id is not None}
            schemas = unused_ids([one.schema_id for one in metadata.schemas], used, metadata.current_schema_id)
            known = [one.spec_id for one in metadata.partition_specs]
            specs = unused_ids(known, retained.spec_ids, metadata.default_spec_id)
        refs = removable_refs(self.catalog, metadata, [ref.name for ref in decision.refs])
        return MetadataRemoval(ids, refs, schemas, specs)

    def _skip(self, error: DamagedFile) -> None:
        self.warn(f"{error.message} Files that only it names are left in storage.")


def refs_of(metadata: TableMetadata) -> list[RefInfo]:
    return [
        RefInfo(
            name,
            ref.snapshot_id,
            ref.snapshot_ref_type == SnapshotRefType.BRANCH,
            ref.max_ref_age_ms,
            ref.max_snapshot_age_ms,
            ref.min_snapshots_to_keep,
        )
        for name, ref in sorted(metadata.refs.items())
    ]


def _without_statistics(table: Table, expired: Collection[int]) -> Table:
    """The table as it will be: without the statistics of expired snapshots, which the same commit removes."""
    metadata = table.metadata
    after = metadata.model_copy(
        update={
            "statistics": [one for one in metadata.statistics if one.snapshot_id not in expired],
            "partition_statistics": [one for one in metadata.partition_statistics if one.snapshot_id not in expired],
        }
    )
    return Table(table.name(), after, table.metadata_location, table.io, table.catalog)
