"""Reports who holds the bytes of a table, and what each command would free. It changes nothing."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.complete_snapshots import require_all_snapshots
from tidyberg.control.expiry_plan import refs_of
from tidyberg.errors import DamagedFile, TidybergError
from tidyberg.model.expiry import RefInfo
from tidyberg.model.merging import merged_manifest_bytes
from tidyberg.model.options import Prices
from tidyberg.model.plan import Plan
from tidyberg.model.sizes import MB
from tidyberg.model.storage_report import Holder, StorageAction, StorageReport, StoredBytes, StoredKind
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.held_files import HeldFiles, StoredFiles, kinds_by_name
from tidyberg.observe.pin import snapshots_of
from tidyberg.planning.expiry import GC_ENABLED
from tidyberg.planning.holders import (
    OF_THE_TABLE,
    UNREFERENCED,
    Attribution,
    ExpiryLevels,
    FilesOnDisk,
    attribute,
    expiry_levels,
)

YOUNG_DAYS = 3  # orphans that are younger may belong to writers at work; Java's default age too
_MANIFEST_BYTES = 8 * MB


@dataclass(frozen=True)
class StorageReporter:
    ref: TableRef
    catalog: Catalog
    prices: Prices
    now_ms: int
    check: Callable[[], None]
    stage: Callable[[str], None]  # says what is going on
    plan: Callable[[], Plan] | None = None  # of a compaction

    def report(self) -> StorageReport:
        require_all_snapshots(self.catalog)
        table = load_table(self.catalog, self.ref)
        self.stage(f"listing the files of {self.ref}")
        listed = StoredFiles.of(table, self.check)
        table = load_table(self.catalog, self.ref)  # as it is after the listing
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            return self._report(table, listed)

    def _report(self, table: Table, listed: StoredFiles) -> StorageReport:
        metadata = table.metadata
        snapshots = snapshots_of(metadata)
        refs = [ref for ref in refs_of(metadata) if ref.snapshot_id in snapshots]
        levels = expiry_levels(snapshots, refs_of(metadata), metadata.properties, self.now_ms)
        self.stage(f"reading the manifests of {plural(len(snapshots), 'snapshot')}")
        unreadable: list[str] = []
        held = self._held(table, refs, levels, unreadable)
        numbers = held.find(listed)
        outside, gone = held.unlisted(table, numbers)
        files = _on_disk(held, listed, numbers, len(refs))
        found = attribute(files, refs, levels, is_complete=not unreadable)
        is_young = listed.modified_ms > self.now_ms - YOUNG_DAYS * 86_400_000
        young = files.total((numbers < 0) & (is_young | (listed.modified_ms <= 0)))
        return StorageReport(
            table=self.ref,
            total=files.total(),
            holdings=found.holdings,
            refs=found.refs,
            ages=found.ages,
            actions=self._actions(table, found, young, is_complete=not unreadable),
            young_orphans=young if not unreadable else StoredBytes(),
            outside=StoredBytes(len(outside), pc.sum(outside["size"]).as_py() or 0),
            missing=len(gone),
            first_missing=gone[0] if gone else None,
            unreadable=tuple(unreadable),
            dollars_per_gb_month=self.prices.storage_per_gb_month,
        )

    def _held(self, table: Table, refs: list[RefInfo], levels: ExpiryLevels, unreadable: list[str]) -> HeldFiles:
        heads: dict[int, list[int]] = defaultdict(list)
        for number, ref in enumerate(refs):
            heads[ref.snapshot_id].append(number)

        def skip(error: DamagedFile) -> None:
            unreadable.append(error.message)

        held = HeldFiles(table.io, levels.levels, heads, UNREFERENCED, self.check, skip)
        held.add_metadata_files(table, OF_THE_TABLE)
        held.add_statistics(table)
        held.add_snapshots(table.metadata.snapshots)
        return held

    def _actions(
        self, table: Table, found: Attribution, young: StoredBytes, *, is_complete: bool
    ) -> tuple[StorageAction, ...]:
        return (
            *self._compaction(),
            *self._manifests(table, found),
            self._expiry(table, found, is_complete=is_complete),
            self._orphans(found, young, is_complete=is_complete),
        )

    def _compaction(self) -> list[StorageAction]:
        if self.plan is None:
            return []
        command = f"tidyberg compact {self.ref}"
        try:
            estimate = self.plan().estimate
        except TidybergError as error:
            return [StorageAction(command, None, 0, "unknown", error.message)]
        why = f"{plural(estimate.input_files, 'file')} become {estimate.output_files:,}; frees once the replaced expire"
        if not estimate.input_files:
            return [StorageAction(command, 0, 0, "exact", "no files are worth rewriting")]
        return [StorageAction(command, estimate.bytes_saved, estimate.bytes_written, "estimate", why)]

    def _manifests(self, table: Table, found: Attribution) -> list[StorageAction]:
        chosen = [one.stored for one in found.holdings if _is_current_manifest(one.holder, one.kind)]
        stored = sum(chosen, StoredBytes())
        target = merged_manifest_bytes(table.metadata.properties) or _MANIFEST_BYTES
        after = min(stored.files, ceil(stored.bytes / target))
        command = f"tidyberg rewrite-manifests {self.ref}"
        if after >= stored.files:
            return [StorageAction(command, 0, 0, "estimate", f"{plural(stored.files, 'manifest')} are few enough")]
        why = f"{plural(stored.files, 'manifest')} of main become about {after:,}, with the same entries"
        return [StorageAction(command, 0, stored.bytes, "estimate", why)]

    def _expiry(self, table: Table, found: Attribution, *, is_complete: bool) -> StorageAction:
        command = f"tidyberg expire {self.ref}"
        own = next(one for one in found.ages if one.is_own)
        given = table.metadata.properties.get(GC_ENABLED, "true")
        if given.lower() != "true":
            return StorageAction(command, 0, 0, "exact", f"{GC_ENABLED}={given} forbids it")
        if not is_complete:
            return StorageAction(command, None, 0, "unknown", "some manifests cannot be read")
        why = f"{plural(own.snapshots, 'snapshot')} and {plural(own.freed.files, 'file')} would go"
        return StorageAction(command, own.freed.bytes, 0, "exact", why)

    def _orphans(self, found: Attribution, young: StoredBytes, *, is_complete: bool) -> StorageAction:
        command = f"tidyberg orphans {self.ref}"
        if not is_complete:
            return StorageAction(command, None, 0, "unknown", "some manifests cannot be read")
        every = sum((one.stored for one in found.holdings if one.holder is Holder.ORPHAN), StoredBytes())
        why = f"{plural(every.files - young.files, 'file')} that nothing references"
        if young.files:
            why += f"; {plural(young.files, 'other')} younger than {YOUNG_DAYS} days may belong to writers at work"
        return StorageAction(command, every.bytes - young.bytes, 0, "estimate", why)


def _is_current_manifest(holder: Holder, kind: StoredKind) -> bool:
    return holder is Holder.CURRENT and kind is StoredKind.MANIFEST


def _on_disk(held: HeldFiles, listed: StoredFiles, numbers: np.ndarray, refs: int) -> FilesOnDisk:
    """The listed files, each with what is known of the file that its location names."""
    is_referenced = numbers >= 0
    known = np.maximum(numbers, 0)
    levels = np.where(is_referenced, held.file_levels[known], UNREFERENCED).astype(np.int8)
    kinds = np.where(is_referenced, held.files["kind"].to_numpy()[known], kinds_by_name(listed.paths))
    needed = []
    for ref in range(refs):
        is_needed = np.zeros(len(held.files), np.bool_)
        for ids in held.needed.get(ref, ()):
            is_needed[ids] = True
        needed.append(np.flatnonzero(is_referenced & is_needed[known]))
    return FilesOnDisk(listed.sizes, kinds.astype(np.int8), levels, needed)
