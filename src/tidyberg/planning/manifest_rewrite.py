"""Decides whether rewriting manifests pays: manifests that a scan reads before and after, and dollars.

- GET: a rewrite reads every manifest once, and the manifest list and the table's metadata in 13 requests.
- PUT: it writes the new manifests, the manifest list and the metadata.
- Compute: the time to read, cluster and encode the entries, on one core with 2 GB.
- Storage: the replaced manifests stay until their snapshots expire.
- Savings: a scan of one partition saves the GET and the time to open each manifest that it no longer reads.
- A rewrite must save a scan of one partition at least 2 manifests and 30 % of them, or the table at least 10 manifests
  and half of them. A reader plans a scan of the whole table by reading all manifests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tidyberg.errors import BadInput
from tidyberg.model.manifest_rewrite import ManifestPlan, ManifestVerdict
from tidyberg.model.merging import SIZE_PROPERTY
from tidyberg.model.options import Prices
from tidyberg.model.sizes import GB
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.planning.manifest_layout import (
    EntryColumns,
    EntryGroup,
    Ints,
    Layout,
    PlannedManifest,
    SourceManifest,
    divide,
    manifests_per_scan,
    order_of,
    ranges_after,
    ranges_before,
)
from tidyberg.planning.price import METADATA_READS, MONTH_MS, retention_ms

DEFAULT_TARGET_BYTES = 8 * 1024 * 1024  # Iceberg's default
LEAST_SAVED_PER_SCAN = 2
LEAST_SHARE_PER_SCAN = 0.3
LEAST_SAVED = 10
LEAST_SHARE = 0.5
_MEMORY_GB = 2.0
_SECONDS_PER_ENTRY = 25e-6  # to read, cluster and encode; measured on a laptop
_SECONDS_PER_MANIFEST = 0.01  # that a reader takes to open one


@dataclass(frozen=True)
class ManifestFacts:
    """The facts about those manifests of a snapshot that may be rewritten."""

    table: TableRef
    branch: str
    snapshot_id: int | None
    entries: EntryColumns
    manifests: Sequence[SourceManifest]
    groups: Sequence[EntryGroup]
    layouts: Sequence[Layout]
    left: int = 0  # manifests that may not
    waiting: str | None = None  # why a branch could not be published after a rewrite


@dataclass(frozen=True)
class PlannedManifests:
    plan: ManifestPlan
    order: Ints  # of the entries
    manifests: tuple[PlannedManifest, ...]


def target_bytes(properties: Mapping[str, str], given: int | None) -> int:
    if given is not None:
        return given
    text = properties.get(SIZE_PROPERTY, str(DEFAULT_TARGET_BYTES)).strip()
    if not text.isdigit() or int(text) < 1:
        raise BadInput(
            f"The table's property {SIZE_PROPERTY} is {text!r}, which is not a number of bytes.",
            hint="Correct it, or give --target-size.",
        )
    return int(text)


def plan_manifests(
    facts: ManifestFacts, properties: Mapping[str, str], prices: Prices, target: int, *, force: bool = False
) -> PlannedManifests:
    entries = facts.entries
    order = order_of(entries)
    planned = divide(entries, order, facts.manifests, facts.groups, target, keep=not force)
    created = [one for one in planned if one.keeps is None]
    stays = {one.keeps for one in planned}
    replaced = [number for number in range(len(facts.manifests)) if number not in stays]
    before, after = len(facts.manifests), len(planned)
    scan_before = manifests_per_scan(ranges_before(entries), facts.groups, facts.layouts)
    scan_after = manifests_per_scan(ranges_after(entries, order, planned), facts.groups, facts.layouts)
    written = sum(_bytes(entries, order, one, facts.groups) for one in created)
    bytes_before = sum(manifest.length for manifest in facts.manifests)
    bytes_replaced = sum(facts.manifests[number].length for number in replaced)
    gets, puts = before + METADATA_READS, len(created) + 2
    dollars = (gets * prices.get_per_1000 + puts * prices.put_per_1000) / 1000
    dollars += _SECONDS_PER_ENTRY * len(entries) * _MEMORY_GB * prices.compute_per_gb_second
    dollars += bytes_replaced / GB * prices.storage_per_gb_month * retention_ms(properties) / MONTH_MS
    a_read = prices.get_per_1000 / 1000 + _SECONDS_PER_MANIFEST * _MEMORY_GB * prices.compute_per_gb_second
    saved = (scan_before - scan_after) * a_read
    verdict, reason = _judge(before, after, len(created), len(replaced), scan_before, scan_after)
    if force and before:
        verdict, reason = "rewrite", "forced"
    if facts.waiting is not None:
        verdict, reason = "waiting", facts.waiting
    plan = ManifestPlan(
        table=facts.table,
        branch=facts.branch,
        snapshot_id=facts.snapshot_id,
        target_bytes=target,
        verdict=verdict,
        reason=reason,
        manifests_before=before,
        manifests_after=after,
        created=len(created),
        replaced=len(replaced),
        entries=sum(one.entries for one in created),
        deleted_entries=sum(manifest.deleted for manifest in facts.manifests),
        bytes_before=bytes_before,
        bytes_after=bytes_before - bytes_replaced + written,
        scan_before=scan_before,
        scan_after=scan_after,
        get_requests=gets,
        put_requests=puts,
        dollars=dollars,
        dollars_per_scan=max(0.0, saved),
        payback_scans=ceil(dollars / saved) if saved > 0 else None,
        left=facts.left,
    )
    return PlannedManifests(plan, order, planned)


def _bytes(entries: EntryColumns, order: Ints, one: PlannedManifest, groups: Sequence[EntryGroup]) -> int:
    return int(entries.size[order[one.start : one.stop]].sum() * groups[one.group].compression)


def _judge(
    before: int, after: int, created: int, replaced: int, scan_before: float, scan_after: float
) -> tuple[ManifestVerdict, str]:
    """Returns the verdict and the reason."""
    if not before:
        return "tidy", "there is no manifest to rewrite"
    if not created and not replaced:
        return "tidy", f"{plural(before, 'manifest')}, clustered and of the right size"
    saved_per_scan, saved = scan_before - scan_after, before - after
    if saved_per_scan >= LEAST_SAVED_PER_SCAN and saved_per_scan >= LEAST_SHARE_PER_SCAN * scan_before:
        return "rewrite", f"a scan of one partition reads {scan_after:.1f} manifests instead of {scan_before:.1f}"
    if saved >= LEAST_SAVED and saved >= LEAST_SHARE * before:
        return "rewrite", f"{plural(after, 'manifest')} instead of {before:,}"
    return "too_little", (
        f"{plural(before, 'manifest')} would become {after:,}, and a scan of one partition would read {scan_after:.1f} "
        f"instead of {scan_before:.1f}: too little to rewrite them. Use --force to rewrite them anyway."
    )
