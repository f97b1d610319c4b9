"""Adds up what a job has achieved over all its commits, and builds the result that its caller gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tidyberg.commit.publish import Committed
from tidyberg.control.context import JobContext
from tidyberg.errors import TidybergError
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import CompactionStats, JobStatus, Stage
from tidyberg.model.left import Outcome, left_alone, outcome_without_commit
from tidyberg.model.plan import FileGroup, Plan, Skip
from tidyberg.model.report import CompactionResult, Notice
from tidyberg.model.task import TaskResult
from tidyberg.model.words import plural, plural_was
from tidyberg.planning.price import request_dollars


@dataclass(frozen=True)
class GroupLeft:
    """A group that could not be committed."""

    group: FileGroup
    reason: str


@dataclass
class JobTotals:
    """Sums over all commits of a job: files replaced and written, groups left out, notes for the record."""

    inventory: Inventory  # the table when the job began
    snapshot_id: int | None = None
    commits: int = 0
    groups: int = 0
    chunks: int = 0  # commits that were tried; numbers them
    joins: int = 0  # joins of all rounds; numbers them
    open: set[int] = field(default_factory=set)  # groups neither committed nor left
    left: dict[int, GroupLeft] = field(default_factory=dict)  # by group id
    notes: dict[str, None] = field(default_factory=dict)  # an ordered set
    _replaced: dict[str, int] = field(default_factory=dict)  # path to size
    _added: dict[str, int] = field(default_factory=dict)  # path to size
    _removed_deletes: int | None = 0  # None: one commit did not report it
    _added_deletes: int = 0  # position delete files and deletion vectors

    def add(self, groups: Sequence[FileGroup], results: Sequence[TaskResult], committed: Committed) -> None:
        done = set(committed.groups)
        self.snapshot_id = committed.snapshot_id
        self.commits += 1
        self.groups += len(done)
        self.open -= done
        known = None not in (self._removed_deletes, committed.removed_deletes)
        self._removed_deletes = (self._removed_deletes or 0) + (committed.removed_deletes or 0) if known else None
        for group, result in zip(groups, results, strict=True):
            if group.group_id in done and group.keeps_data:
                self._added_deletes += sum(len(output.deletes) for output in result.outputs)
            elif group.group_id in done:
                for file in group.files:
                    if self._added.pop(file.path, None) is None:  # a later round may replace an earlier one's output
                        self._replaced[file.path] = file.size
                self._added |= {file.path: file.size for file in result.outputs}

    def leave(self, group: FileGroup, reason: str) -> None:
        self.left[group.group_id] = GroupLeft(group, reason)
        self.open.discard(group.group_id)

    def hand_over(self, plan: Plan) -> None:
        """Drop groups from `left` whose partition the new plan covers. Note why the others stay."""
        again: dict[tuple[int, str], list[int]] = {}
        for group in plan.groups:
            again.setdefault((group.spec_id, group.partition_path), []).append(group.group_id)
        skips = {
            (row.spec_id, row.partition_path): row.verdict.reason
            for row in plan.partitions
            if isinstance(row.verdict, Skip)
        }
        for group_id, left in list(self.left.items()):
            partition = (left.group.spec_id, left.group.partition_path)
            if partition in again:
                del self.left[group_id]
                numbers = ", ".join(map(str, again[partition]))
                self.note(f"group {group_id} was planned again (as {numbers}): {left.reason}")
            else:
                why = skips.get(partition, "its partition is empty")
                self.leave(left.group, f"{left.reason}; planned again, there was nothing to do: {why}")

    def note(self, text: str) -> bool:
        """Returns True if the note is new."""
        new = text not in self.notes
        self.notes[text] = None
        return new

    @property
    def groups_left(self) -> tuple[str, ...]:
        return tuple(f"group {group_id} was left: {left.reason}" for group_id, left in sorted(self.left.items()))

    @property
    def sizes_before(self) -> tuple[int, ...]:
        """Sizes of the files that the job found, at its start or when it planned again."""
        known = set(self.inventory.data_files["path"].to_pylist())
        later = [size for path, size in self._replaced.items() if path not in known]
        return (*self.inventory.data_files["size"].to_pylist(), *later)

    @property
    def sizes_after(self) -> tuple[int, ...]:
        paths, sizes = (self.inventory.data_files[name].to_pylist() for name in ("path", "size"))
        kept = [size for path, size in zip(paths, sizes, strict=True) if path not in self._replaced]
        return (*kept, *self._added.values())

    @property
    def sizes_written(self) -> tuple[int, ...]:
        return tuple(self._added.values())

    def stats(self, *, small_file_threshold: int, milliseconds: int) -> CompactionStats:
        before, after = self.sizes_before, self.sizes_after
        deletes, removed = self.inventory.delete_files.num_rows, self._removed_deletes
        return CompactionStats(
            files_before=len(before),
            files_after=len(after),
            files_compacted=len(self._replaced),
            files_removed=len(self._replaced),
            bytes_before=sum(before),
            bytes_after=sum(after),
            bytes_saved=sum(before) - sum(after),
            snapshots_expired=0,
            compaction_time_ms=float(milliseconds),
            small_files_remaining=sum(size < small_file_threshold for size in after),
            delete_files_before=deletes,
            delete_files_after=None if removed is None else max(0, deletes - removed + self._added_deletes),
            bytes_freed_at_expiry=sum(self._replaced.values()),
        )


@dataclass(frozen=True)
class JobOutcome:
    """Turns the totals of a job into its record and its result."""

    context: JobContext
    plan: Plan  # the first plan
    totals: JobTotals

    def finish(self, failure: TidybergError | None) -> CompactionResult:
        """`failure` ended a job that had committed some of its groups."""
        context, totals = self.context, self.totals
        left = left_alone(self.plan)
        outcome: Outcome = outcome_without_commit(left)
        if totals.commits:
            outcome = "committed" if failure is None else "partly"
        for warning in self.plan.warnings if totals.commits else ():
            totals.note(f"warning: {warning}")
            context.emit(Notice("warning", warning, in_result=True))
        for each in left:
            totals.note(str(each))
            level: Literal["info", "warning"] = "warning" if each.disposition == "refused" else "info"
            context.emit(Notice(level, str(each), in_result=True))
        job = context.record.update(
            status=JobStatus.SUCCEEDED,
            stage=Stage.DONE,
            finished_ms=context.services.now_ms(),
            error_code=failure.code if failure else None,
            error=str(failure) if failure else None,
            outcome=outcome,
            left=left,
            **self.so_far(),
        )
        if not job.unresolved:
            context.record.forget()
        assert job.stats is not None
        return CompactionResult(
            outcome=outcome,
            job=job,
            plan=self.plan,
            stats=job.stats,
            snapshot_id=totals.snapshot_id,
            groups_committed=totals.groups,
            groups_left=totals.groups_left,
            sizes_before=totals.sizes_before,
            sizes_after=totals.sizes_after,
            sizes_written=totals.sizes_written,
            failure=failure,
            left=left,
        )

    def so_far(self) -> dict[str, object]:
        """The fields of the job's record that are set however the job ends."""
        totals = self.totals
        notes = [*totals.notes, *totals.groups_left]
        changes: dict[str, object] = {"stats": self._stats(), "notes": tuple(notes)}
        if totals.commits:
            changes["actual_dollars"] = self._compute_dollars() + self._request_dollars()
            if reason := self.context.engine.reason:
                notes.append(reason)
            if totals.commits > 1:
                committed = f"{plural_was(totals.groups, 'group')} committed in {plural(totals.commits, 'snapshot')}"
                notes.insert(0, committed)
            if totals.open:
                notes.append(f"{plural_was(len(totals.open), 'group')} not committed")
            changes["notes"] = tuple(notes)
        return changes

    def _compute_dollars(self) -> float:
        memory_gb = self.context.engine().resources.memory_gb
        return self._milliseconds / 1000 * memory_gb * self.context.services.prices.compute_per_gb_second

    def _request_dollars(self) -> float:
        """Uses the requests that tasks counted, if they counted any. The rest is the plan's estimate."""
        estimate, counted = self.plan.estimate, self.context.record.job.requests
        if not counted:
            return estimate.request_dollars
        outside_tasks = estimate.request_dollars - sum(group.estimate.request_dollars for group in self.plan.groups)
        return outside_tasks + request_dollars(counted, self.context.services.prices)

    def _stats(self) -> CompactionStats:
        threshold = self.context.request.options.small_file_threshold
        return self.totals.stats(small_file_threshold=threshold, milliseconds=self._milliseconds)

    @property
    def _milliseconds(self) -> int:
        job = self.context.record.job
        return self.context.services.now_ms() - (job.started_ms or job.created_ms)
