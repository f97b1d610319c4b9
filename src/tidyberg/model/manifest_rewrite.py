"""Rewriting manifests: what is asked for, what is planned, and what came of it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.model.job import Job
from tidyberg.model.table import TableRef

REWRITE_MANIFESTS = "rewrite_manifests"  # the strategy of such a job in the history

# tidy: nothing would change. too_little: it could be better, but the gain is below the minimum.
# waiting: a branch could not be published after the rewrite.
ManifestVerdict = Literal["rewrite", "tidy", "too_little", "waiting"]
ManifestOutcome = Literal["nothing", "planned", "rewritten"]


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    branch: str = "main"
    spec_id: int | None = None  # only manifests of this partition spec; None: of all specs
    sort_by: tuple[str, ...] = ()  # partition fields to cluster by first; () means in the order of the spec
    target_bytes: int | None = None  # None: commit.manifest.target-size-bytes of the table, or 8 MB
    force: bool = False  # rewrite every manifest, whatever the gain
    ignore_wap_branches: bool = False  # rewrite even if an unpublished branch builds on this one

    def as_options(self) -> dict[str, Any]:
        """For the record of the job."""
        named = {
            "branch": self.branch,
            "spec_id": self.spec_id,
            "sort_by": list(self.sort_by) or None,
            "target_bytes": self.target_bytes,
            "force": self.force or None,
            "ignore_wap_branches": self.ignore_wap_branches or None,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """Says what a rewrite would do and whether it pays. Only `left` counts manifests that no rewrite may touch."""

    table: TableRef
    branch: str
    snapshot_id: int | None  # None: the branch has no snapshot yet
    target_bytes: int
    verdict: ManifestVerdict
    reason: str
    manifests_before: int = 0
    manifests_after: int = 0
    created: int = 0  # manifests that are written
    replaced: int = 0  # manifests that are no longer in the table afterwards
    entries: int = 0  # live entries in replaced manifests
    deleted_entries: int = 0  # entries of deleted files, which a rewrite drops
    bytes_before: int = 0  # of all manifests
    bytes_after: int = 0  # an estimate
    scan_before: float = 0.0  # manifests that a scan of one partition reads
    scan_after: float = 0.0
    get_requests: int = 0
    put_requests: int = 0
    dollars: float = 0.0
    dollars_per_scan: float = 0.0  # that a scan of one partition costs less afterwards
    payback_scans: int | None = None  # None: it never pays back
    left: int = 0  # manifests that are left alone: of other specs, or with UUIDs in their partitions

    @property
    def pays(self) -> bool:
        return self.verdict == "rewrite"


@dataclass(frozen=True)
class ManifestRewriteResult:
    plan: ManifestPlan
    outcome: ManifestOutcome
    snapshot_id: int | None = None  # that was committed
    created: int = 0
    replaced: int = 0
    kept: int = 0  # of the snapshot's manifests, also those of other writers
    entries: int = 0
    bytes_written: int = 0
    attempts: int = 0  # to commit
    recovered: tuple[str, ...] = ()  # what was done about earlier runs that had not finished
    job: Job | None = field(default=None, repr=False)  # None: nothing was recorded

    @property
    def table(self) -> TableRef:
        return self.plan.table
