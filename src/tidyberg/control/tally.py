"""What a job has achieved so far, over all its commits: files replaced and written, groups left, warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidyberg.commit.publish import Committed
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import CompactionStats, CopyTotals, SpliceTotals
from tidyberg.model.plan import FileGroup, Plan, Skip
from tidyberg.model.task import TaskResult

_MOST_REASONS = 20  # that a job counts apart


@dataclass(frozen=True)
class Left:
    group: FileGroup
    reason: str


@dataclass
class Tally:
    inventory: Inventory  # as it was when the job began
    snapshot_id: int | None = None
    commits: int = 0
    groups: int = 0
    chunks: int = 0  # commits that were tried, so that each has a number of its own
    open: set[int] = field(default_factory=set)  # groups neither committed nor left
    left: dict[int, Left] = field(default_factory=dict)  # groups that could not be committed, by id
    notes: dict[str, None] = field(default_factory=dict)  # in order, each once
    _replaced: dict[str, int] = field(default_factory=dict)
    _added: dict[str, int] = field(default_factory=dict)
    _removed_deletes: int | None = 0  # None: a commit did not tell

    def add(self, groups: Sequence[FileGroup], results: Sequence[TaskResult], committed: Committed) -> None:
        done = set(committed.groups)
        self.snapshot_id = committed.snapshot_id
        self.commits += 1
        self.groups += len(done)
        self.open -= done
        known = None not in (self._removed_deletes, committed.removed_deletes)
        self._removed_deletes = (self._removed_deletes or 0) + (committed.removed_deletes or 0) if known else None
        for group, result in zip(groups, results, strict=True):
            if group.group_id in done:
                for file in group.files:
                    if self._added.pop(file.path, None) is None:  # a later round may replace an earlier one's output
                        self._replaced[file.path] = file.size
                self._added |= {file.path: file.size for file in result.outputs}

    def leave(self, group: FileGroup, reason: str) -> None:
        self.left[group.group_id] = Left(group, reason)
        self.open.discard(group.group_id)

    def hand_over(self, plan: Plan) -> None:
        """Groups that were left are for a new plan now, where it takes up their partition."""
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
        """Whether it was not noted before."""
        new = text not in self.notes
        self.notes[text] = None
        return new

    @property
    def groups_left(self) -> tuple[str, ...]:
        return tuple(f"group {group_id} was left: {left.reason}" for group_id, left in sorted(self.left.items()))

    @property
    def sizes_before(self) -> tuple[int, ...]:
        """Of the files the job found, then or when it planned again."""
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
            delete_files_after=None if removed is None else max(0, deletes - removed),
            bytes_freed_at_expiry=sum(self._replaced.values()),
        )


def add_copied(so_far: CopyTotals, group: FileGroup, result: TaskResult, seconds: float) -> CopyTotals:
    """What a job copied, one group later."""
    if result.mode == "copy":
        return replace(
            so_far,
            groups=so_far.groups + 1,
            files=so_far.files + len(group.files),
            bytes=so_far.bytes + group.bytes,
            seconds=so_far.seconds + seconds,
            bytes_moved=so_far.bytes_moved + result.bytes_moved,
        )
    if group.mode == "copy":
        return replace(so_far, encoded_instead=_counted(so_far.encoded_instead, group, result.mode_reason))
    return so_far


def add_spliced(so_far: SpliceTotals, group: FileGroup, result: TaskResult, seconds: float) -> SpliceTotals:
    """What a job spliced, one group later."""
    if result.splice_reason:  # of a group that was divided, others of its tasks may have spliced
        so_far = replace(so_far, encoded_instead=_counted(so_far.encoded_instead, group, result.splice_reason))
    if not result.bytes_spliced:
        return so_far
    return replace(
        so_far,
        groups=so_far.groups + 1,
        files=so_far.files + len(group.files),
        bytes=so_far.bytes + group.bytes,
        bytes_spliced=so_far.bytes_spliced + result.bytes_spliced,
        bytes_written=so_far.bytes_written + result.bytes_written,
        seconds=so_far.seconds + seconds,
    )


def _counted(known: Mapping[str, int], group: FileGroup, reason: str) -> dict[str, int]:
    reason = _in_general(group, reason)
    if reason not in known and len(known) >= _MOST_REASONS:
        reason = "other reasons"
    return {**known, reason: known.get(reason, 0) + 1}


def _in_general(group: FileGroup, reason: str) -> str:
    """A reason that many groups may share names no file."""
    for file in group.files:
        reason = reason.replace(file.path, "a file")
    return reason
