"""One job: its plan, and what conflicted of it planned again; then its outcome, or undone when it cannot end well."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from tidyberg.control.leftovers import Leftovers
from tidyberg.control.round import Round
from tidyberg.control.tally import Tally
from tidyberg.control.workbench import Workbench
from tidyberg.errors import Cancelled, CommitStateUnknown, Conflict, TidybergError
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import CompactionStats, JobStatus, Stage
from tidyberg.model.left import Outcome, left_alone, outcome_without_commit
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import CompactionResult, Notice
from tidyberg.model.task import TaskResult
from tidyberg.model.words import plural, plural_was
from tidyberg.planning.price import request_dollars


@dataclass(frozen=True)
class Planned:
    """A table, as it was observed, and what is to be done to it."""

    table: Table
    inventory: Inventory
    plan: Plan
    adopted: Mapping[int, TaskResult] = field(default_factory=dict)
    after_death: bool = False  # of the process that worked on it last


# From the groups that were left and the first free group id to a plan for their partitions.
Replan = Callable[[Sequence[FileGroup], int], Planned]


@dataclass
class Pipeline:
    bench: Workbench
    planned: Planned
    replan: Replan
    replans: int

    def run(self) -> CompactionResult:
        self._tally = Tally(self.planned.inventory)
        self._round = self._make_round(self.planned)
        try:
            self._run_rounds()
        except CommitStateUnknown:
            self.bench.record.update(unresolved=True, **self._so_far())
            raise
        except TidybergError as error:
            self._undo()
            failure = self.bench.record.cause_of(error)
            if isinstance(failure, Cancelled):
                self.bench.record.update(**self._so_far())
                raise
            if self._tally.commits:
                return self._finish(failure)  # what was committed stands
            if failure is error:
                raise
            raise failure from error
        except BaseException:
            if self.bench.record.job.sent is None:
                self._undo()
            else:  # interrupted while a commit was under way: recovery finds out whether it landed
                self.bench.record.update(unresolved=True)
            self.bench.record.update(**self._so_far())
            raise
        return self._finish(None)

    def _run_rounds(self) -> None:
        self._round.run()
        next_group = max((group.group_id for group in self.planned.plan.groups), default=-1) + 1
        for _ in range(self.replans):
            if not self._tally.left:
                break
            left = [left.group for left in self._tally.left.values()]
            planned = self.replan(left, next_group)
            next_group += len(planned.plan.groups)
            self._tally.hand_over(planned.plan)
            if planned.plan.is_empty:
                break
            self._round = self._make_round(planned)
            self._round.run()
        if self._tally.left and not self._tally.commits:
            first = next(iter(self._tally.left.values())).reason
            raise Conflict(
                f"Other writers changed every group of {self.planned.plan.table} meanwhile: {first}.",
                hint="Plan again.",
            )

    def _make_round(self, planned: Planned) -> Round:
        return Round(
            self.bench,
            planned.table,
            planned.inventory,
            planned.plan,
            self._tally,
            adopted=planned.adopted,
            after_death=planned.after_death,
        )

    def _undo(self) -> None:
        Leftovers(self.bench, self.planned.table).undo(self._round.settle_seconds)

    def _finish(self, failure: TidybergError | None) -> CompactionResult:
        tally, record = self._tally, self.bench.record
        left = left_alone(self.planned.plan)
        outcome: Outcome = outcome_without_commit(left)
        if tally.commits:
            outcome = "committed" if failure is None else "partly"
        for words in self.planned.plan.warnings if tally.commits else ():
            tally.note(f"warning: {words}")
            self.bench.emit(Notice("warning", words))
        for each in left:
            tally.note(str(each))
            self.bench.emit(Notice("warning" if each.disposition == "refused" else "info", str(each)))
        job = record.update(
            status=JobStatus.SUCCEEDED,
            stage=Stage.DONE,
            finished_ms=self.bench.now_ms(),
            error_code=failure.code if failure else None,
            error=str(failure) if failure else None,
            outcome=outcome,
            left=left,
            **self._so_far(),
        )
        if not job.unresolved:
            record.forget()
        assert job.stats is not None
        return CompactionResult(
            outcome=outcome,
            job=job,
            plan=self.planned.plan,
            stats=job.stats,
            snapshot_id=tally.snapshot_id,
            groups_committed=tally.groups,
            groups_left=tally.groups_left,
            sizes_before=tally.sizes_before,
            sizes_after=tally.sizes_after,
            sizes_written=tally.sizes_written,
            failure=failure,
            left=left,
        )

    def _so_far(self) -> dict[str, object]:
        """What a job's record says of its outcome, however the job ends."""
        tally, job = self._tally, self.bench.record.job
        notes = [*tally.notes, *tally.groups_left]
        changes: dict[str, object] = {"stats": self._stats(), "notes": tuple(notes)}
        if tally.commits:
            seconds = (self.bench.now_ms() - (job.started_ms or job.created_ms)) / 1000
            compute = seconds * self.bench.engine().resources.memory_gb * self.bench.prices.compute_per_gb_second
            changes["actual_dollars"] = compute + self._request_dollars()
            if why := self.bench.why_engine():
                notes.append(why)
            if tally.commits > 1:
                notes.insert(0, f"{plural_was(tally.groups, 'group')} committed in {plural(tally.commits, 'snapshot')}")
            if tally.open:
                notes.append(f"{plural_was(len(tally.open), 'group')} not committed")
            changes["notes"] = tuple(notes)
        return changes

    def _request_dollars(self) -> float:
        """As estimated; those of the tasks as they were counted, where they were."""
        plan, counted = self.planned.plan, self.bench.record.job.requests
        if not counted:
            return plan.estimate.request_dollars
        beside = plan.estimate.request_dollars - sum(group.estimate.request_dollars for group in plan.groups)
        return beside + request_dollars(counted, self.bench.prices)

    def _stats(self) -> CompactionStats:
        job = self.bench.record.job
        return self._tally.stats(
            small_file_threshold=self.bench.options.small_file_threshold,
            milliseconds=self.bench.now_ms() - (job.started_ms or job.created_ms),
        )
