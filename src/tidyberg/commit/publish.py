"""Commits the groups of a compaction. Groups that other writers changed are left out.

A commit has succeeded if its snapshot or one of its outputs is in the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit.conflicts import refusal_to_commit, validate_groups
from tidyberg.commit.loop import CommitKind, CommitLoop, branch_head
from tidyberg.commit.new_snapshot import next_number, numbering, snapshot_of_job
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.commit.snapshot import Staged, Stager
from tidyberg.errors import GroupsConflict
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import SentCommit
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.task import TaskResult
from tidyberg.model.words import plural
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.record.clock import wall_clock_ms


class Journal(Protocol):
    """Records what a commit is about to do, so that recovery knows which files may exist."""

    def about_to_write(self, paths: Sequence[str]) -> None: ...

    def about_to_commit(self, sent: SentCommit) -> None:
        """Raises if the job no longer holds the table."""
        ...

    def check_ownership(self) -> None:
        """Raises if the job no longer holds the table. Records nothing."""
        ...


@dataclass(frozen=True)
class FinishedGroup:
    group: FileGroup
    result: TaskResult


@dataclass(frozen=True)
class Committed:
    snapshot_id: int
    groups: tuple[int, ...]
    conflicts: Mapping[int, str]
    attempts: int
    sequence_number: int | None = None  # unique to this commit; None: format version 1, or unknown
    removed_deletes: int | None = None  # delete files; None: unknown


@dataclass(frozen=True)
class BranchState:
    table: Table
    files: Inventory


@dataclass
class Publisher(CommitKind[BranchState, Staged, Committed]):
    loop: CommitLoop
    plan: Plan
    job_id: str
    snapshot_id: int
    journal: Journal
    cache: ManifestCache
    name_mapping: str | None = None  # the table's when the groups were read
    chunk: int = 0
    now_ms: Callable[[], int] = wall_clock_ms
    _finished: Sequence[FinishedGroup] = field(init=False)
    _stager: Stager = field(init=False)
    _attempts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # manifest list -> groups it commits
    _conflicts: dict[int, str] = field(default_factory=dict)

    hint_if_unknown = "The new files were kept. Run `tidyberg recover` once the catalog answers again."

    def publish(self, finished: Sequence[FinishedGroup]) -> Committed:
        self._finished = finished
        self._stager = Stager(
            job_id=self.job_id,
            chunk=self.chunk,
            plan_hash=self.plan.hash,
            full_target=self.plan.full_target,
            boundaries=self.plan.asked_boundaries,
            snapshot_id=self.snapshot_id,
            sequence_number=self.plan.sequence_number,
            outputs={done.group.group_id: done.result.outputs for done in finished},
            deletes=self.plan.deletes,
            about_to_write=self.journal.about_to_write,
            now_ms=self.now_ms,
        )
        committed = self.loop.run(self)
        assert committed is not None, "without groups that can be committed, `stage` raises"
        return committed

    @property
    def purpose(self) -> str:
        return f"commit {plural(len(self._finished), 'group')}"

    def observe(self, table: Table) -> BranchState:
        pinned = pin(table, self.plan.table, self.plan.branch)
        return BranchState(table, take_inventory(table, pinned, self.cache))

    def landed(self, state: BranchState, attempt: int) -> Committed | None:
        """I7: an earlier attempt, of this process or another, may have committed this chunk."""
        metadata = state.table.metadata
        if snapshot := snapshot_of_job(metadata, self.job_id, self.chunk):
            groups = self._attempts.get(snapshot.manifest_list, self._live_groups(state))
            number = (snapshot.sequence_number or None) if metadata.format_version > 1 else None
            removed = int((snapshot.summary["removed-delete-files"] if snapshot.summary else None) or 0)
            return Committed(snapshot.snapshot_id, groups, dict(self._conflicts), attempt, number, removed)
        # Our snapshot may have expired while its files are still live.
        if self._attempts and (groups := self._live_groups(state)):
            self.journal.check_ownership()  # otherwise a job that took over may have committed them
            return Committed(self.snapshot_id, groups, dict(self._conflicts), attempt)
        return None

    def _live_groups(self, state: BranchState) -> tuple[int, ...]:
        outputs = {file.path: done.group.group_id for done in self._finished for file in done.result.outputs}
        wanted = pa.array(list(outputs), pa.string())
        live = [
            path
            for paths in (state.files.data_files["path"], state.files.delete_files["path"])
            for path in paths.filter(pc.is_in(paths, value_set=wanted)).to_pylist()
        ]
        return tuple(sorted({outputs[path] for path in live}))

    def stage(self, state: BranchState, attempt: int) -> Staged:
        parent = state.files
        text = refusal_to_commit(self.plan, parent.pinned)
        if text is None and parent.pinned.name_mapping != self.name_mapping:
            text = "the name mapping changed, by which files without field ids are read"
        if text is not None:
            raise GroupsConflict(
                f"Nothing was committed to {self.plan.table}: {text}.",
                hint="Plan again.",
                reasons={done.group.group_id: text for done in self._finished},
            )
        groups = [done.group for done in self._finished if done.group.group_id not in self._conflicts]
        validation = validate_groups(groups, parent, self.plan, self._stager.outputs)
        for group_id, reason in validation.conflicts.items():
            self._conflicts[group_id] = reason
            self.loop.notice(f"group {group_id} is left out: {reason}")
        if not validation.replaceable:
            first = next(iter(self._conflicts.values()))
            raise GroupsConflict(
                f"Other writers changed every group of {self.plan.table} meanwhile: {first}.",
                hint="Plan again.",
                reasons=dict(self._conflicts),
            )
        staged = self._stager.stage(self.loop.catalog, state.table, parent, validation.replaceable, attempt)
        self._attempts[staged.manifest_list] = staged.groups
        return staged

    def send(self, state: BranchState, staged: Staged, attempt: int) -> Committed:
        parent_id = state.files.pinned.snapshot_id
        assert parent_id is not None
        groups = tuple(done.group.group_id for done in self._finished)
        number = next_number(state.table)
        self.journal.about_to_commit(SentCommit(self.chunk, parent_id, self.snapshot_id, groups, number))
        send_commit(
            self.loop.catalog,
            state.table,
            staged.requirements,
            staged.updates,
            file_id=metadata_file_id(f"{self.job_id}/{self.chunk}/{attempt}"),
            about_to_write=self.journal.about_to_write,
        )
        conflicts, removed = dict(self._conflicts), staged.removed_deletes
        return Committed(self.snapshot_id, staged.groups, conflicts, attempt + 1, number, removed)

    def parent(self, table: Table) -> object:
        return branch_head(table, self.plan.branch)

    def assumptions(self, table: Table) -> object:
        return numbering(table)
