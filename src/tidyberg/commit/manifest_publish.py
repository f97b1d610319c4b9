"""Commits a manifest rewrite, and plans it again where a conflict requires that.

New manifests of other writers stay as they are. If one of the replaced manifests is no longer in the branch, because
another writer deleted a file that it lists or rewrote it, the rewrite is planned again from the new head. A commit has
succeeded if its snapshot or one of its manifests is in the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit.loop import CommitKind, CommitLoop, branch_head
from tidyberg.commit.manifest_snapshot import (
    ONLY_CHUNK,
    ManifestRewrite,
    ManifestStager,
    StagedManifests,
    listed_manifests,
)
from tidyberg.commit.new_snapshot import next_number, numbering, snapshot_of_job
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.commit.publish import Journal
from tidyberg.errors import Conflict, UnknownReference
from tidyberg.model.job import SentCommit
from tidyberg.observe.manifest_list import ListedManifest


@dataclass(frozen=True)
class PublishedManifests:
    snapshot_id: int
    created: int
    replaced: int
    kept: int
    entries: int
    bytes_written: int
    attempts: int
    sequence_number: int | None  # None: format version 1, or unknown


@dataclass(frozen=True)
class BranchManifests:
    table: Table
    head: Snapshot
    listed: Mapping[str, ListedManifest]


@dataclass
class ManifestPublisher(CommitKind[BranchManifests, StagedManifests, PublishedManifests]):
    loop: CommitLoop
    branch: str
    stager: ManifestStager
    journal: Journal
    plan_again: Callable[[Table], ManifestRewrite | None]  # None: there is nothing to rewrite any more
    refusal: Callable[[Table], str | None]  # why nothing may be committed to this state of the table
    replans: int
    _rewrite: ManifestRewrite = field(init=False)
    _staged: dict[str, StagedManifests] = field(default_factory=dict)  # by manifest list

    purpose = "commit its manifests"
    hint_if_unknown = "The new manifests were kept. Run `tidyberg recover` once the catalog answers again."

    def publish(self, rewrite: ManifestRewrite) -> PublishedManifests | None:
        """Returns None if other writers left nothing to rewrite."""
        self._rewrite = rewrite
        return self.loop.run(self)

    def observe(self, table: Table) -> BranchManifests:
        head = table.metadata.snapshot_by_id(branch_head(table, self.branch) or -1)
        if head is None:
            raise UnknownReference(
                f"{self.loop.table} has no branch {self.branch!r} any more.", hint="Choose another branch."
            )
        return BranchManifests(table, head, listed_manifests(table, head))

    def landed(self, state: BranchManifests, attempt: int) -> PublishedManifests | None:
        """I7: an earlier attempt may have committed."""
        metadata = state.table.metadata
        if snapshot := snapshot_of_job(metadata, self.stager.job_id, ONLY_CHUNK):
            number = (snapshot.sequence_number or None) if metadata.format_version > 1 else None
            staged = self._staged.get(snapshot.manifest_list) or list(self._staged.values())[-1]
            return self._published(staged, attempt, number)
        for staged in self._staged.values():
            if not state.listed.keys().isdisjoint(staged.created):  # the snapshot may have expired
                self.journal.check_ownership()
                return self._published(staged, attempt, None)
        return None

    def stage(self, state: BranchManifests, attempt: int) -> StagedManifests | None:
        if (text := self.refusal(state.table)) is not None:
            raise Conflict(f"Nothing was committed to {self.loop.table}: {text}.", hint="Try again afterwards.")
        if self._rewrite.is_stale(state.table, state.listed):
            again = self._plan_again(state.table)
            if again is None:
                return None
            self._rewrite = again
        staged = self.stager.stage(self.loop.catalog, state.table, state.head, state.listed, self._rewrite, attempt)
        self._staged[staged.manifest_list] = staged
        return staged

    def _plan_again(self, table: Table) -> ManifestRewrite | None:
        if self.replans <= 0:
            raise Conflict(
                f"Other writers keep changing the manifests of {self.loop.table}; nothing was committed.",
                hint="Try again when fewer writers delete or rewrite files, or raise commit.replans.",
            )
        self.replans -= 1
        self.loop.notice(f"another writer changed a manifest of {self.loop.table}; planning again")
        return self.plan_again(table)

    def send(self, state: BranchManifests, staged: StagedManifests, attempt: int) -> PublishedManifests:
        number = next_number(state.table)
        self.journal.about_to_commit(
            SentCommit(ONLY_CHUNK, state.head.snapshot_id, self.stager.snapshot_id, (), number)
        )
        send_commit(
            self.loop.catalog,
            state.table,
            staged.requirements,
            staged.updates,
            file_id=metadata_file_id(f"{self.stager.job_id}/{ONLY_CHUNK}/{attempt}"),
            about_to_write=self.journal.about_to_write,
        )
        return self._published(staged, attempt + 1, number)

    def parent(self, table: Table) -> object:
        return branch_head(table, self.branch)

    def assumptions(self, table: Table) -> object:
        return numbering(table)

    def _published(self, staged: StagedManifests, attempts: int, number: int | None) -> PublishedManifests:
        return PublishedManifests(
            self.stager.snapshot_id,
            len(staged.created),
            staged.replaced,
            staged.kept,
            staged.entries,
            staged.bytes_written,
            attempts,
            number,
        )
